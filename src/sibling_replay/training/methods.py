"""The replay strategy that a method's name stands for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from sibling_replay import (
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.strategies import registered
from sibling_replay.strategies.registry import find_strategy
from sibling_replay.training.config import (
    METHODS,
    RIVALS,
    RunConfig,
    TabularConfig,
    averages,
    options_of,
    subset_size,
)
from sibling_replay.training.tabular.rules import TableRule, rule_of

STRATEGY_OF_METHOD: dict[str, Callable[..., Strategy]] = {
    "DDQN": Uniform,
    "PER": Prioritized,
    "SAMPLE": SiblingSample,
    "MODEL": SiblingModel,
}
"""AVG has options of its own."""


def strategy_of(config: RunConfig) -> Strategy:
    """What a config's method stands for: a name of the paper, or that of a registered strategy."""
    if averages(config.method):
        strategy: Strategy = SiblingAverage(
            alpha=config.alpha,
            max_siblings=subset_size(config.method),
            update_all_siblings=getattr(config, "update_all_siblings", False),
        )
    else:
        kind = STRATEGY_OF_METHOD.get(config.method) or find_strategy(
            RIVALS.get(config.method, config.method)
        )
        strategy = kind(alpha=config.alpha)
    given = _options(strategy, config)
    if hasattr(config, "initial"):
        given["initial"] = config.initial
    return replace(strategy, **given) if given else strategy


def check_options(config: RunConfig) -> None:
    """Refuse options that the strategy does not have, and what the trainer of tables cannot carry
    out, before anything runs."""
    if isinstance(config, TabularConfig):
        table_rule(config)
    elif config.options:
        strategy_of(config)


def table_rule(config: TabularConfig) -> TableRule:
    """How the trainer of tables carries out a config's strategy."""
    strategy = strategy_of(config)
    rule = rule_of(strategy)
    if rule is None:
        raise ValueError(
            f"the compiled trainer cannot carry out {strategy}: it has ControlVariate with alpha=0 "
            "alone, and GroupPrioritized with the scores mean and neyman, and averages over whole "
            "groups, by their mean, alone"
        )
    return rule


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _options(strategy: Strategy, config: RunConfig) -> dict[str, Any]:
    """Options as values of the strategy's own types, but for those that are settings themselves."""
    hints = _hints(type(strategy))
    settings = {field.name for field in fields(config)}
    names = [field.name for field in fields(strategy) if field.name not in settings]
    found = {}
    for name, value in options_of(config.options).items():
        if name not in names:
            own = (
                " is a setting of its own, not one of the"
                if name in settings
                else " is none of the"
            )
            raise ValueError(f"{name!r}{own} options of {strategy.name}: {', '.join(names)}")
        found[name] = _value(name, value, hints[name])
    return found


def _value(name: str, text: str, hint: Any) -> Any:
    """A text as one of the kinds that an option may be."""
    kinds = get_args(hint) or (hint,)
    if text.lower() == "none" and type(None) in kinds:
        return None
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise ValueError(f"option {name} must be a number, got {text!r}") from None
    return text  # one of some words, which the strategy itself checks


def draws_by_siblings(method: str) -> bool | None:
    """Whether a method uses groups; None of a strategy that has not been imported. A stored run
    names its method, so nothing is imported here."""
    if averages(method):
        return True
    module, _, attribute = method.partition(":")
    kind = STRATEGY_OF_METHOD.get(method) or registered().get(RIVALS.get(method, method))
    if attribute and module in sys.modules:
        kind = getattr(sys.modules[module], attribute, None)
    return None if kind is None else kind().needs.groups


def method_named(name: str) -> str:
    """A method of the paper, AVG-gK for any K, or a registered strategy, whatever the case; or a
    strategy of one's own as module:Class, which is imported."""
    if ":" in name:
        find_strategy(name)
        return name
    size = re.fullmatch(r"avg-g([1-9][0-9]*)", name, re.IGNORECASE)
    if size:
        return f"AVG-g{size[1]}"
    known = dict.fromkeys((*METHODS, *RIVALS, *registered()))
    found = {method.casefold(): method for method in known}
    # one run has one id, whichever of its two names it was asked for by
    found |= {kind.__name__.casefold(): name for name, kind in STRATEGY_OF_METHOD.items()}
    found |= {strategy.casefold(): name for name, strategy in RIVALS.items()}
    found["siblingaverage"] = "AVG"
    if name.casefold() in found:
        return found[name.casefold()]
    try:
        return find_strategy(name).name  # one that an installed package announces
    except LookupError:
        listed = ", ".join(known)
        raise ValueError(
            f"unknown method {name!r}: choose from {listed}, or AVG-gK for any K"
        ) from None

"""The replay strategy that a method's name stands for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace

from sibling_replay import (
    Prioritized,
    RankBased,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.strategies import registered
from sibling_replay.strategies.registry import find_strategy
from sibling_replay.training.config import METHODS, RunConfig, subset_size

KINDS: dict[str, Callable[..., Strategy]] = {
    "DDQN": Uniform,
    "PER": Prioritized,
    "RANK": RankBased,
    "SAMPLE": SiblingSample,
    "MODEL": SiblingModel,
}
"""AVG has options of its own."""


def strategy_of(config: RunConfig) -> Strategy:
    """What a config's method stands for: a name of the paper, or that of a registered strategy."""
    if config.method.startswith("AVG"):
        strategy: Strategy = SiblingAverage(
            alpha=config.alpha,
            max_siblings=subset_size(config.method),
            update_all_siblings=getattr(config, "update_all_siblings", False),
        )
    else:
        kind = KINDS.get(config.method) or find_strategy(config.method)
        strategy = kind(alpha=config.alpha)
    initial = getattr(config, "initial", strategy.initial)
    return strategy if initial == strategy.initial else replace(strategy, initial=initial)


def draws_by_siblings(method: str) -> bool | None:
    """Whether a method uses groups; None of a strategy that has not been imported. A stored run
    names its method, so nothing is imported here."""
    if method.startswith("AVG"):
        return True
    module, _, attribute = method.partition(":")
    kind = KINDS.get(method) or registered().get(method)
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
    known = dict.fromkeys((*METHODS, *KINDS, *registered()))
    found = {method.casefold(): method for method in known}
    if name.casefold() in found:
        return found[name.casefold()]
    try:
        return find_strategy(name).name  # one that an installed package announces
    except LookupError:
        listed = ", ".join(known)
        raise ValueError(
            f"unknown method {name!r}: choose from {listed}, or AVG-gK for any K"
        ) from None

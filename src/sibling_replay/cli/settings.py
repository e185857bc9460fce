"""Settings of one's own on the command line: `name=value`, checked against a study's configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from sibling_replay.running.runs import spelt
from sibling_replay.studies.study import Study
from sibling_replay.training.config import RunConfig

_OF_THE_CHOICE = ("env", "method", "seed", "condition", "encoder")  # have options of their own
_WORDS = {"true": True, "false": False}


def settings_for(study: Study, given: Sequence[str], steps: int | None) -> dict[str, Any]:
    """The chosen settings as values of the study's run configs."""
    texts = _texts(given)
    if steps is not None:
        if "steps" in texts:
            raise ValueError("give --steps or --set steps=..., not both")
        texts["steps"] = str(steps)
    if not texts:
        return {}
    runs = study.declared
    if not runs:
        raise ValueError(f"{study.name} has no runs of which settings could be chosen")
    return _values(type(runs[0].config), texts, study.name)


def settings_of_kind(config: type[RunConfig], given: Sequence[str], of: str) -> dict[str, Any]:
    """The same for a kind of config."""
    return _values(config, _texts(given), of, ("env", "method", "seed"))


def _values(
    config: type[RunConfig],
    texts: dict[str, str],
    of: str,
    apart: Sequence[str] = _OF_THE_CHOICE,
) -> dict[str, Any]:
    names = [field.name for field in fields(config) if field.name not in apart]
    hints = get_type_hints(config)
    return {
        spelt("setting", name, names, f" of {of}"): _value(name, text, hints.get(name))
        for name, text in texts.items()
    }


def _texts(given: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not text:
            raise ValueError(f"--set takes name=value, such as learning_rate=1e-4, not {item!r}")
        if name in texts:
            raise ValueError(f"--set {name} is given twice")
        texts[name] = text
    return texts


def _value(name: str, text: str, hint: Any) -> Any:
    """A text as the setting's type."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if not kinds or kinds == [None]:
        return text
    kind = kinds[0]
    if kind is bool:
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        raise ValueError(f"--set {name} must be true or false, got {text!r}")
    try:
        return kind(text)
    except ValueError:
        word = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        raise ValueError(f"--set {name} must be {word}, got {text!r}") from None

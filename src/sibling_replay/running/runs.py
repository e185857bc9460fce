"""A run as data: what it is called, and its config. And choosing among runs by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sibling_replay.training.config import RunConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One job of a study. `id` is also its path below the results directory."""

    study: str
    id: str
    config: RunConfig


def path_part(name: str) -> str:
    """An environment's name as one path component: `FrozenLake-H100/H300` holds a slash."""
    return name.replace("/", "-")


def run_id(study: str, config: RunConfig, *settings: str) -> str:
    parts = (study, path_part(config.env), config.method, *settings, f"seed={config.seed}")
    return "/".join(parts)


def own_settings(config: RunConfig, usual: RunConfig, apart: Iterable[str] = ()) -> list[str]:
    """The settings of a run that are not the usual ones, as `name=value`, but for some."""
    others = usual.written()
    return [
        f"{name}={value}"
        for name, value in config.written().items()
        if name not in apart and (name not in others or value != others[name])
    ]


def spelt(what: str, value: T, choices: Iterable[T], where: str = "") -> T:
    """The choice that is meant, whatever the case of its letters."""
    choices = list(choices)
    if value in choices:
        return value
    for choice in choices:
        if str(choice).casefold() == str(value).casefold():
            return choice
    listed = ", ".join(map(str, choices))
    raise ValueError(f"unknown {what} {value!r}{where}: choose from {listed}")


def select(
    runs: Iterable[Run],
    envs: Iterable[str] = (),
    methods: Iterable[str] = (),
    seeds: Iterable[int] = (),
    conditions: Iterable[str] = (),
) -> tuple[Run, ...]:
    """The runs that match every given filter; an empty filter lets everything pass.

    Names are matched in any case. A value that no run of the study has is refused: a misspelt name
    must not select nothing. A combination that no run has (AVG on FrozenLake) is refused too, for
    the same reason.
    """
    runs = tuple(runs)
    chosen = runs
    filters: tuple[tuple[str, tuple[Any, ...], str], ...] = (
        ("environment", tuple(envs), "env"),
        ("method", tuple(methods), "method"),
        ("seed", tuple(seeds), "seed"),
        ("condition", tuple(conditions), "condition"),
    )
    for what, wanted, field in filters:
        if wanted:
            choices = list(dict.fromkeys(getattr(run.config, field, "none") for run in runs))
            found = [spelt(what, value, choices, " in this study") for value in wanted]
            chosen = tuple(run for run in chosen if getattr(run.config, field) in found)
    if not chosen:
        raise ValueError("the filters together leave no run: no run has that combination")
    return chosen

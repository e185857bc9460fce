"""A run as data: what it is called, and its config. And choosing among runs by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from sibling_replay.training.results import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One job of a study. `id` is also its path below the results directory."""

    study: str
    id: str
    config: Config


def path_part(name: str) -> str:
    """An environment's name as one path component: `FrozenLake-H100/H300` holds a slash."""
    return name.replace("/", "-")


def run_id(study: str, config: Config, *settings: str) -> str:
    parts = (study, path_part(config.env), config.method, *settings, f"seed={config.seed}")
    return "/".join(parts)


def own_settings(config: Config, usual: Config, apart: Iterable[str] = ()) -> list[str]:
    """The settings of a run that are not the usual ones, as `name=value`, but for some."""
    return [
        f"{field.name}={getattr(config, field.name)}"
        for field in fields(config)
        if field.name not in apart and getattr(config, field.name) != getattr(usual, field.name)
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

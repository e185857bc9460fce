"""Runs of one's own, by `sibling-replay train`: which there are, and what came of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sibling_replay.experiments import store
from sibling_replay.experiments.metrics import Summary
from sibling_replay.experiments.spec import CUSTOM, own_settings
from sibling_replay.experiments.statistics import mean_se
from sibling_replay.training.config import RunConfig

PAPER = "as the paper"
CELL = ("env", "method", "settings")  # what runs that differ in seed alone share


def load(root: Path) -> pl.DataFrame:
    """A row a run: environment, method, settings that are not the paper's, seed, six numbers."""
    rows = []
    for row in store.load_runs(root, [CUSTOM]).iter_rows(named=True):
        config = store.config_of(row)
        assert isinstance(config, RunConfig)
        numbers = {name: row[name] for name in Summary._fields}
        settings = ", ".join(own_settings(config)) or PAPER
        key = {"env": config.env, "method": config.method, "settings": settings}
        rows.append({**key, "seed": config.seed, **numbers})
    return pl.DataFrame(rows).sort("env", "settings", "method", "seed")


def status_lines(root: Path) -> list[str]:
    """What `sibling-replay status` says of them."""
    if not any((root / CUSTOM).rglob(f"*{store.SUFFIX}")):
        return [f"{CUSTOM}: no runs of your own"]
    frame = load(root)
    lines = [f"{CUSTOM}: {frame.height} runs of your own"]
    for (env, method, settings), runs in frame.group_by(*CELL, maintain_order=True):
        seeds = ", ".join(map(str, runs["seed"]))
        lines.append(f"  {env:<22} {method:<7} {settings}; seed {seeds}")
    return lines


@dataclass(frozen=True)
class Cell:
    """Runs that differ in seed alone, and their mean and standard error if there are several."""

    env: str
    method: str
    settings: str
    rows: tuple[tuple[str, ...], ...]  # a name, then the numbers in the order of `Summary`


def cells(frame: pl.DataFrame) -> list[Cell]:
    """The rows of `load` as text."""
    found = []
    for (env, method, settings), runs in frame.group_by(*CELL, maintain_order=True):
        numbers = runs.select(Summary._fields)
        names = [str(seed) for seed in runs["seed"]]
        rows = [(name, *row) for name, row in zip(names, numbers.rows(), strict=True)]
        if runs.height > 1:
            means, errors = zip(*(mean_se(column.to_list()) for column in numbers), strict=True)
            rows += [(f"mean of {runs.height}", *means), ("std. error", *errors)]
        shown = tuple((name, *map(_shown, values)) for name, *values in rows)
        found.append(Cell(env, method, settings, shown))
    return found


def _shown(value: float | None) -> str:
    """A run with a single evaluation has no area under its curve."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"

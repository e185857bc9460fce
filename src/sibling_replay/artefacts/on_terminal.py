"""Tables for a terminal: ours beside the paper's, and runs that nothing was published of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import polars as pl
from rich.markup import escape
from rich.table import Table

from sibling_replay.artefacts.layout import CLOSE
from sibling_replay.artefacts.statistics import mean_se
from sibling_replay.running.metrics import Scores
from sibling_replay.terminal import printable

CELL = ("env", "method", "settings")  # what runs that differ in seed alone share

NOTE = (
    "mean ± standard error over seeds; apart: ours minus the paper's in combined standard errors "
    "sqrt(se² + se²), beyond the paper's rounding (half its last digit); "
    f"* marks more than {CLOSE:g}"
)


ONE_SEED = "one seed has neither error nor interval"


NO_AREA = "no AUC"


ONE_EVALUATION = f"{NO_AREA}: the runs were evaluated once, and one point has no area under it"


def comparison_table(
    compared: pl.DataFrame, keys: tuple[str, ...], title: str, note: str = NOTE
) -> Table:
    """Ours and the paper's, a row a number; a line between environments."""
    interval = "low" in compared.columns
    if (compared["seeds"] == 1).any():
        note += f"; {ONE_SEED}"
    if compared["mean"].is_nan().any():
        note += f"; {ONE_EVALUATION}"
    table = Table(title=title, caption=note, caption_justify="left")
    for key in keys:
        table.add_column(key, no_wrap=True)
    for name in ("seeds", "ours", "paper", "apart"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for row in compared.iter_rows(named=True):
        if previous is not None and previous != row["env"]:
            table.add_section()
        previous = row["env"]
        ours = _pm(row["mean"], row["se"])
        if interval and row["low"] is not None:
            ours = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]".replace("[", r"\[")
        apart = "-" if row["distance"] is None else f"{row['distance']:+.1f}"
        if row["distance"] is not None and abs(row["distance"]) > CLOSE:
            apart += " *"
        names = [_name(row[key]) for key in keys]
        paper = _pm(row["paper_mean"], row["paper_se"])
        table.add_row(*names, str(row["seeds"]), ours, paper, apart)
    return table


def _name(key: str | float | int) -> str:
    return key if isinstance(key, str) else f"{key:g}" if isinstance(key, float) else f"{key:,}"


def _pm(mean: float | None, se: float | None) -> str:
    """One seed has no error (nan), one evaluation no AUC; some published numbers have no error."""
    if mean is None:
        return "-"
    if math.isnan(mean):
        return NO_AREA
    return f"{mean:.3f}" if se is None or math.isnan(se) else f"{mean:.3f} ± {se:.3f}"


def settings_of(run: str) -> str:
    """What a run's id says between its method and its seed."""
    return ", ".join(run.split("/")[3:-1])


def with_settings(frame: pl.DataFrame, unsaid: str) -> pl.DataFrame:
    """A row a run: environment, method, settings that its id names (or `unsaid`), seed, six
    numbers."""
    settings = [settings_of(run) or unsaid for run in frame["run"]]
    frame = frame.with_columns(pl.Series("settings", settings, dtype=pl.String))
    return frame.select(*CELL, "seed", *Scores._fields).sort("env", "settings", "method", "seed")


@dataclass(frozen=True)
class RunCell:
    """Runs that differ in seed alone, and their mean and standard error if there are several."""

    env: str
    method: str
    settings: str
    rows: tuple[tuple[str, ...], ...]  # a name, then the numbers in the order of `Scores`


def cells(frame: pl.DataFrame) -> list[RunCell]:
    """The rows of `with_settings` as text."""
    found = []
    for (env, method, settings), runs in frame.group_by(*CELL, maintain_order=True):
        numbers = runs.select(Scores._fields)
        names = [str(seed) for seed in runs["seed"]]
        rows = [(name, *row) for name, row in zip(names, numbers.rows(), strict=True)]
        if runs.height > 1:
            means, errors = zip(*(mean_se(column.to_list()) for column in numbers), strict=True)
            rows += [(f"mean of {runs.height}", *means), ("std. error", *errors)]
        shown = tuple((name, *map(_shown, values)) for name, *values in rows)
        found.append(RunCell(env, method, settings, shown))
    return found


def _shown(value: float | None) -> str:
    """A run with a single evaluation has no area under its curve."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def run_tables(frame: pl.DataFrame, unsaid: str = "as the study has it") -> Iterator[Table]:
    """Stored runs, a table an environment, runs that differ in seed alone together."""
    for env, group in groupby(cells(with_settings(frame, unsaid)), key=lambda cell: cell.env):
        table = Table(title=escape(printable(env)))
        table.add_column("method", no_wrap=True)
        table.add_column("settings", overflow="fold")
        table.add_column("seed", justify="right")
        for name in Scores._fields:
            table.add_column(name.replace("auc", "AUC").replace("_", "\n"), justify="right")
        for cell in group:
            table.add_section()
            names = [escape(printable(name)) for name in (cell.method, cell.settings)]
            for row in cell.rows:
                table.add_row(*names, *row)
                names = ["", ""]
        yield table

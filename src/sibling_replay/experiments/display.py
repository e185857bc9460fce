"""What a person sees: a live bar on a terminal, one plain line per run elsewhere, and tables."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import groupby
from types import TracebackType

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from sibling_replay.experiments.custom_runs import Cell
from sibling_replay.experiments.metrics import Summary
from sibling_replay.experiments.minatar_coverage import PAPER_STEPS
from sibling_replay.experiments.runner import Progress
from sibling_replay.experiments.terminal import printable

NEWS_EVERY = 600.0  # seconds without a word, where no bar is shown
CLOSE = 3.0  # combined standard errors beyond which a number is marked as different


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class StudyDisplay:
    """Shows the progress of one study; `observe` is the callback `run_study` wants."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.title = title
        self.live = console.is_terminal
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not self.live,
        )
        self.task = self.bar.add_task(title, total=None, runs="", rate="", left="")
        self._begun = self._explained = False
        self._said = time.monotonic()

    def __enter__(self) -> StudyDisplay:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def observe(self, now: Progress) -> None:
        ended = now.already + now.done + now.failed
        rate = f"{now.steps_per_second:,.0f} steps/s"
        left = f"{duration(now.seconds_left)} left"
        failed = f", {now.failed} failed" if now.failed else ""
        self.bar.update(
            self.task,
            total=now.total,
            completed=ended + now.underway,
            runs=f"{ended}/{now.total} runs{failed}",
            rate=rate,
            left=left,
        )
        if not self._begun:
            self._begun = True
            todo = now.total - now.already
            self._say(f"{self.title}: {now.total} runs, {now.already} already done, {todo} to do")
        if now.preparing and not self._explained:
            self._explained = True
            self._say("starting (the first time, kernels are compiled: about half a minute)")
        if now.last is None:
            quiet = time.monotonic() - self._said
            if not self.live and quiet > NEWS_EVERY and now.underway:
                share = (ended + now.underway) / now.total
                self._say(f"[{ended}/{now.total}] {share:.1%} of all  {rate}  {left}")
            return
        name, took = now.last.run.id, duration(now.last.seconds)
        if now.last.result is None:
            self._say(f"[{ended}/{now.total}] FAILED {name}")
        elif not self.live:
            self._say(f"[{ended}/{now.total}] {name}  {took}  {rate}  {left}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def exact_table(compared: pl.DataFrame) -> Table:
    """The paper's table of tabular metrics, ours first; one row per method and metric."""
    return _table(compared, ("env", "method", "metric"), "Main comparison (annealed beta)")


def grid_table(compared: pl.DataFrame) -> Table:
    return _table(compared, ("env", "alpha", "beta", "metric"), "Fixed alpha/beta sweep")


def minatar_table(compared: pl.DataFrame) -> Table:
    """AUC return by condition and length; runs shorter than the paper's are not judged."""
    keys = ("condition", "steps", "env", "metric")
    title = f"MinAtar AUC return (paper: {PAPER_STEPS:,} steps)"
    return _table(
        compared, keys, title, f"{NOTE}; none for runs of another length than the paper's"
    )


def custom_tables(cells: list[Cell]) -> Iterator[Table]:
    """Runs of one's own, a table an environment."""
    for env, group in groupby(cells, key=lambda cell: cell.env):
        table = Table(title=escape(printable(env)))
        table.add_column("method", no_wrap=True)
        table.add_column("settings that are not the paper's", overflow="fold")
        table.add_column("seed", justify="right")
        for name in Summary._fields:
            table.add_column(name.replace("auc", "AUC").replace("_", "\n"), justify="right")
        for cell in group:
            table.add_section()
            names = [escape(printable(name)) for name in (cell.method, cell.settings)]
            for row in cell.rows:
                table.add_row(*names, *row)
                names = ["", ""]
        yield table


NOTE = (
    "mean ± standard error over seeds; apart: ours minus the paper's in combined standard errors "
    "sqrt(se² + se²), beyond the paper's rounding (half its last digit); "
    f"* marks more than {CLOSE:g}"
)
ONE_SEED = "one seed has neither error nor interval"
NO_AREA = "no AUC"
ONE_EVALUATION = f"{NO_AREA}: the runs were evaluated once, and one point has no area under it"


def _table(compared: pl.DataFrame, keys: tuple[str, ...], title: str, note: str = NOTE) -> Table:
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

"""What a study is: runs with a job, and what is made of their results.

A study is one file (or one folder) under `studies/` with `STUDIES` in it, or a `Study` of somebody
else's package, announced under the entry-point group `sibling_replay.studies` or given to
`sibling_replay.studies.register_study`. That puts it into `reproduce`, `status`, `table`, `collect`
and `curves`, and its `sections` into `report`: only `runs` and `job` must be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from rich.table import Table

from sibling_replay.artefacts.entries import Frames, Gap, Section
from sibling_replay.artefacts.on_terminal import run_tables, settings_of
from sibling_replay.running import store
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run, own_settings, run_id
from sibling_replay.studies.alike import check_cells
from sibling_replay.training.config import RunConfig
from sibling_replay.training.methods import check_options, method_named


@dataclass(frozen=True)
class Choice:
    """What `reproduce` was asked for; what is empty is as the study has it."""

    out: Path = Path("runs")
    envs: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of the runs' config
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Study.options`, if given

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(dict.fromkeys(self.seeds)))

    def methods_of(self, usual: Sequence[str]) -> tuple[str, ...]:
        """A study's methods and those chosen beside them, in their usual spelling."""
        known = {method.casefold() for method in usual}
        others = (name for name in self.methods if name.casefold() not in known)
        return tuple(dict.fromkeys((*usual, *map(method_named, others))))


def chosen_run(study: str, usual: RunConfig, choice: Choice, *cell: str) -> Run:
    """A run of a study with the chosen settings, which its id names after its cell."""
    config = replace(usual, **choice.settings)
    check_options(config)
    return Run(study, run_id(study, config, *cell, *own_settings(config, usual)), config)


@dataclass(frozen=True)
class Stage:
    """Runs to be done before a study goes on."""

    title: str
    runs: tuple[Run, ...]
    job: JobFunction
    gpus: float = 0.0  # part of a GPU that a run takes on a cluster


@dataclass(frozen=True)
class Coverage:
    """How much of a published study is at hand."""

    done: int  # of its runs
    total: int
    gap: Gap | None


@dataclass(frozen=True)
class Source:
    """Where finished runs are read from: a directory of them, or one of collected files."""

    directory: Path
    collected: bool

    def runs(self, study: str) -> pl.DataFrame:
        """The finished runs of a study, which may be none."""
        if self.collected:
            place = self.directory / f"{study}{store.SUFFIX}"
            there = place.is_file()
        else:
            place = self.directory
            there = any((place / study).rglob(f"*{store.SUFFIX}"))
        return store.load_runs(place, [study]) if there else store.no_runs()


class Study(ABC):
    """Runs under one name."""

    name: ClassVar[str]
    about: ClassVar[str] = ""  # for --help, a clause
    options: ClassVar[frozenset[str]] = frozenset()  # of `reproduce` that are not for every study
    sections: ClassVar[tuple[Section, ...]] = ()  # of the report

    @abstractmethod
    def runs(self, choice: Choice) -> tuple[Run, ...]:
        """The chosen runs, in the order in which they are begun."""

    @cached_property
    def declared(self) -> tuple[Run, ...]:
        """The study's own runs: those of no choice. Thousands take seconds to list."""
        return self.runs(Choice())

    @abstractmethod
    def job(self, choice: Choice) -> JobFunction:
        """What a worker calls with the config of a run."""

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        """What `reproduce` does: runs to be done, one stage after the other, and lines to say. A
        stage's runs are stored before the next is asked for; if one fails, it never is."""
        runs = self.runs(choice)
        yield from self._others_mentioned(runs)
        yield Stage(self.name, runs, self.job(choice))

    def _others_mentioned(self, runs: tuple[Run, ...]) -> Iterator[str]:
        others = len({run.id for run in runs} - {run.id for run in self.declared})
        if others:
            yield (
                f"{others} of these runs have seeds or settings that are not the study's own: they "
                "are kept, and `table` and `report` leave them out of its comparisons"
            )

    # ------------------------------------------------------------------ what has been run

    def compared(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The stored runs that stand for the study, checked to be alike. Runs with seeds or
        settings of one's own are no part of a comparison: how many seeds there are, and which,
        belongs to the experiment."""
        chosen = frame.filter(pl.col("run").is_in([run.id for run in self.declared]))
        check_cells(chosen)
        return chosen

    def contender(self, run: Run) -> str:
        """What `status` and the report call the method of a run."""
        return run.config.method

    def status_lines(self, out: Path) -> list[str]:
        """How far it is."""
        runs = self.declared
        done = store.finished(out, runs)
        rows: dict[tuple[str, str], list[bool]] = {}
        for run in runs:
            rows.setdefault((run.config.env, self.contender(run)), []).append(run.id in done)
        longest = max(len(env) for env, _ in rows)
        named = max(len(name) for _, name in rows)
        lines = [f"{self.name}: {len(done)} of {len(runs)} runs done"] + [
            f"  {env:<{longest}}  {name:<{named}}{sum(finished):>4} / {len(finished)}"
            for (env, name), finished in rows.items()
        ]
        paths = {store.run_path(out, run.id) for run in runs}
        others = len(set((out / self.name).rglob(f"*{store.SUFFIX}")) - paths)
        other = f"  and {others} runs with seeds or settings that are not the study's own"
        return lines + ([other] if others else [])

    def tables(self, frame: pl.DataFrame) -> Iterator[Table | str]:
        """What `table` prints of all stored runs."""
        compared = self.compared(frame)
        if compared.height:
            yield from run_tables(compared)
        yield from self.others(frame, compared)

    def own(self, frame: pl.DataFrame) -> pl.Series:
        """Which stored runs have settings that no run of the study has."""
        usual = {settings_of(run.id) for run in self.declared}
        return pl.Series([settings_of(run) not in usual for run in frame["run"]], dtype=pl.Boolean)

    def others(self, frame: pl.DataFrame, compared: pl.DataFrame) -> Iterator[Table | str]:
        """The runs that a comparison leaves out: those with settings of one's own in tables, those
        with other seeds alone as a line."""
        rest = frame.filter(~pl.col("run").is_in(compared["run"].implode()))
        own = rest.filter(self.own(rest))
        seeds = rest.height - own.height
        if seeds:
            yield f"left out: {seeds} runs with seeds that are not the study's own"
        if own.height:
            yield f"{own.height} runs with settings of your own, which nothing published is like:"
            yield from run_tables(own)

    # -------------------------------------------------------------------------- report

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        """What its sections are made of."""
        return {self.name: self.compared(source.runs(self.name))} if self.sections else {}

    def coverage(self, frames: Frames) -> Coverage | None:
        """For a study of which numbers were published."""
        return None

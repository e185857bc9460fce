"""What a report is made from: frames of finished runs, and an honest account of what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl

from sibling_replay.experiments import minatar_coverage, store
from sibling_replay.experiments.encoder_report import no_support, read_support
from sibling_replay.experiments.minatar_spec import RATE_STUDY
from sibling_replay.experiments.minatar_spec import STUDY as MINATAR
from sibling_replay.experiments.spec import Run, study
from sibling_replay.experiments.summaries import measured
from sibling_replay.experiments.tables import of_the_paper

STUDIES = ("exact", "grid", MINATAR, RATE_STUDY)  # `testing` has no published number
ENCODERS = "vqvae"  # the frame of inspected encoders, from vqvae.csv

Frames = Mapping[str, pl.DataFrame]


def nothing() -> dict[str, pl.DataFrame]:
    """What there is before anything has been run."""
    return {**{name: store.no_runs() for name in STUDIES}, ENCODERS: no_support()}


def load_results(directory: Path) -> dict[str, pl.DataFrame]:
    """Files made by `collect`; a study without a file has no runs."""
    paths = {name: directory / f"{name}{store.SUFFIX}" for name in STUDIES}
    found = {name: store.load_runs(p, [name]) for name, p in paths.items() if p.is_file()}
    return _checked(directory, found)


def load_runs(directory: Path) -> dict[str, pl.DataFrame]:
    """Finished runs, one file each."""
    there = [name for name in STUDIES if any((directory / name).rglob(f"*{store.SUFFIX}"))]
    return _checked(directory, {name: store.load_runs(directory, [name]) for name in there})


def _checked(directory: Path, found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    frames = nothing() | found
    for name in ("exact", "grid"):
        frames[name] = of_the_paper(frames[name], name)
    frames[MINATAR] = minatar_coverage.of_the_paper(frames[MINATAR])
    table = directory / f"{ENCODERS}.csv"
    if table.is_file():
        frames[ENCODERS] = read_support(table)
    return frames


def fingerprint(frame: pl.DataFrame) -> str:
    """Short digest of all runs in a frame: equal data, equal fingerprint."""
    if frame.is_empty():
        return ""
    rows = "".join(sorted(frame["digest"]))
    return hashlib.blake2b(rows.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True)
class Gap:
    """Runs that an artefact lacks, in words, and the command that makes them."""

    lines: tuple[str, ...]
    command: str
    everything: bool  # nothing of the artefact can be shown


class Needed(Protocol):
    """What an artefact is made of."""

    @property
    def study(self) -> str:
        """The frame it is built from."""

    def gap(self, frames: Frames) -> Gap | None:
        """What is missing; None if nothing is."""


@dataclass(frozen=True)
class Needs:
    """The tabular runs an artefact is made of; an empty filter lets everything pass."""

    study: str
    envs: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    cell: tuple[float, float] | None = None  # (alpha, beta) of the sweep
    diagnostics: bool = False

    def runs(self) -> list[Run]:
        return [
            run
            for run in study(self.study)
            if (not self.envs or run.config.env in self.envs)
            and (not self.methods or run.config.method in self.methods)
            and self.cell in (None, (run.config.alpha, run.config.beta_start))
        ]

    @property
    def total(self) -> int:
        return len(self.runs())

    def done(self, frames: Frames) -> int:
        return len({run.id for run in self.runs()} & set(frames[self.study]["run"]))

    def gap(self, frames: Frames) -> Gap | None:
        frame = frames[self.study]
        wanted = self.runs()
        stored = set(frame["run"])
        usable = set(measured(frame, "outcome_tv")["run"]) if self.diagnostics else stored
        missing = [run for run in wanted if run.id not in usable]
        if not missing:
            return None
        lines = _by_environment(wanted, usable)
        if any(run.id in stored for run in missing):
            lines.append("some stored runs recorded no diagnostics: delete their files first")
        command = f"sibling-replay reproduce {self.study}"
        envs = dict.fromkeys(run.config.env for run in missing)
        if len(envs) < len({run.config.env for run in study(self.study)}):
            command += f" --env {' '.join(envs)}"
        return Gap(tuple(lines), command, everything=len(missing) == len(wanted))


def _by_environment(wanted: Iterable[Run], usable: set[str]) -> list[str]:
    """ "TwoChains: PER 4 of 10 runs, AVG none" """
    done: dict[str, dict[str, list[bool]]] = {}
    for run in wanted:
        methods = done.setdefault(run.config.env, {})
        methods.setdefault(run.config.method, []).append(run.id in usable)
    lines = []
    for env, methods in done.items():
        parts = [
            f"{method} {sum(there)} of {len(there)} runs" if any(there) else f"{method} none"
            for method, there in methods.items()
            if not all(there)
        ]
        if len(parts) == len(methods) and not any(any(there) for there in methods.values()):
            parts = [f"none of {sum(map(len, methods.values()))} runs"]
        if parts:
            lines.append(f"{env}: {', '.join(parts)}")
    return lines

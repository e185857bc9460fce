"""What a report is made from: frames of finished runs, and an honest account of what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sibling_replay.experiments import store
from sibling_replay.experiments.spec import Run, study
from sibling_replay.experiments.summaries import measured

REPORTED = ("exact", "grid")  # studies of the paper; `testing` has no published number

Frames = Mapping[str, pl.DataFrame]


def load_results(directory: Path) -> dict[str, pl.DataFrame]:
    """Files made by `collect`; a study without a file has no runs."""
    paths = {name: directory / f"{name}{store.SUFFIX}" for name in REPORTED}
    return {
        name: store.load_runs(path, [name]) if path.is_file() else store.no_runs()
        for name, path in paths.items()
    }


def load_runs(directory: Path) -> dict[str, pl.DataFrame]:
    """Finished runs, one file each."""
    return {
        name: store.load_runs(directory, [name])
        if any((directory / name).rglob(f"*{store.SUFFIX}"))
        else store.no_runs()
        for name in REPORTED
    }


def fingerprint(frame: pl.DataFrame) -> str:
    """Short digest of all runs in a frame: equal data, equal fingerprint."""
    if frame.is_empty():
        return ""
    rows = "".join(sorted(frame["digest"]))
    return hashlib.blake2b(rows.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True)
class Needs:
    """The runs an artefact is made of; an empty filter lets everything pass."""

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


@dataclass(frozen=True)
class Gap:
    """Runs that an artefact lacks, in words, and the command that makes them."""

    lines: tuple[str, ...]
    command: str
    everything: bool  # nothing of the artefact can be shown


def find_gap(needs: Needs, frames: Frames) -> Gap | None:
    """What is missing of an artefact; None if all its runs are there."""
    frame = frames[needs.study]
    wanted = needs.runs()
    stored = set(frame["run"])
    usable = set(measured(frame, "outcome_tv")["run"]) if needs.diagnostics else stored
    missing = [run for run in wanted if run.id not in usable]
    if not missing:
        return None
    lines = _by_environment(wanted, usable)
    if any(run.id in stored for run in missing):
        lines.append("some stored runs recorded no diagnostics: delete their files first")
    command = f"sibling-replay reproduce {needs.study}"
    envs = dict.fromkeys(run.config.env for run in missing)
    if len(envs) < len({run.config.env for run in study(needs.study)}):
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

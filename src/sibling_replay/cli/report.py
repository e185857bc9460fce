"""`sibling-replay report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import polars as pl

from sibling_replay.artefacts.entries import Frames
from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import by_default
from sibling_replay.files import make_writable
from sibling_replay.studies import all_studies
from sibling_replay.studies.study import Source

RUNS, RESULTS = Path("runs"), Path("results")
Place = Annotated[
    Path | None, by_default("see above: what you ran first, then what was collected", "PATH")
]


def report(runs: Place = None, results: Place = None, out: Path = Path("report")) -> int:
    """Write the report: one HTML page, figures (PDF, PNG) and tables (Markdown, LaTeX).

    It is made from whatever has been run; what has not is said in it. What you ran comes first:
    without --runs and --results, a study that has runs in runs/ is read from there, any other from
    results/, and the command says which. The table of encoders comes from vqvae.csv in the same
    directories, made by `vqvae inspect --csv`.

    Args:
        runs: Read all studies from this directory of finished runs, one Parquet file each.
        results: Read all studies from this directory of files made by `collect`, one a study.
        out: Directory of the report; index.html in it is the page.
    """
    try:
        from sibling_replay.report import build
    except ImportError as error:
        raise ImportError(
            f"{error}: the report needs an extra, pip install 'sibling-replay[report]'"
        ) from error
    if runs is not None and results is not None:
        raise ValueError("give --runs or --results, not both")
    taken = _take(_found(runs, results))
    for line in taken.lines:
        say(line)
    make_writable(out)
    made = build.build(taken.frames, taken.command)
    build.write(made, out)
    total = made.count
    say(f"{total.within} of {total.compared} published means within the combined 95 % interval")
    for artefact in made.gaps:
        shown = "not run" if artefact.gap and artefact.gap.everything else "partly run"
        say(f"{shown}: {artefact.entry.number}, {artefact.entry.title}")
    say(str(out / "index.html"))
    return 0


@dataclass(frozen=True)
class _Found:
    """What a directory has."""

    option: str  # --runs or --results
    place: Path
    frames: Frames


def _found(runs: Path | None, results: Path | None) -> list[_Found]:
    """The directories to read, the preferred one first."""
    if runs is None and results is None:
        runs, results = RUNS, RESULTS
    wanted = (("--runs", runs), ("--results", results))
    places = [(option, place) for option, place in wanted if place is not None]
    found = [
        _Found(option, place, _frames(Source(place, collected=option == "--results")))
        for option, place in places
        if place.is_dir()
    ]
    if not found:
        tried = ", ".join(f"{place} is not a directory" for _, place in places)
        raise ValueError(f"nothing to report: {tried}")
    return found


def _frames(source: Source) -> Frames:
    """What every study has for the report."""
    found: dict[str, pl.DataFrame] = {}
    for study in all_studies().values():
        found |= study.frames(source)
    return found


@dataclass(frozen=True)
class _Taken:
    """The frames a report is made of, and where they are from, in words."""

    frames: Frames
    lines: tuple[str, ...]
    command: str  # what a reader types to make the report again


def _take(found: list[_Found]) -> _Taken:
    """Each study from the first directory that has runs of it. Never from two: runs of different
    versions of the code must not meet in one mean."""
    frames, lines, origin = {}, [], {}
    for name in found[0].frames:
        having = [each for each in found if not each.frames[name].is_empty()]
        first = having[0] if having else found[0]
        frames[name] = first.frames[name]
        if having:
            origin[name] = first
            line = f"{name}: {frames[name].height} rows from {first.place}"
            for other in having[1:]:
                rows = other.frames[name].height
                line += f", not the {rows} in {other.place} ({other.option} {other.place})"
            lines.append(line)
    used = list({id(each): each for each in origin.values()}.values()) or found[:1]
    command = "sibling-replay report"
    if len(used) == 1:
        command += f" {used[0].option} {used[0].place.resolve().name}"
    else:
        command += " # " + ", ".join(f"{name}: {each.place}" for name, each in origin.items())
    return _Taken(frames, tuple(lines), command)

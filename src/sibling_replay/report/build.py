"""Builds every artefact that the runs at hand allow, and writes the page, figures and tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import polars as pl

from sibling_replay.artefacts.entries import FigureEntry, Frames, Gap, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Table
from sibling_replay.artefacts.panels import Figure
from sibling_replay.files import write_whole
from sibling_replay.report import matplotlib_ink, page
from sibling_replay.report.markup import latex, markdown
from sibling_replay.studies import all_studies, chapters
from sibling_replay.studies.study import Coverage


@dataclass(frozen=True)
class Artefact:
    """An entry with what could be made of it; neither figure nor table if nothing could."""

    entry: FigureEntry | TableEntry
    gap: Gap | None
    figure: Figure | None = None
    table: Table | None = None
    count: Count = field(default_factory=Count)


@dataclass(frozen=True)
class Part:
    section: Section
    artefacts: tuple[Artefact, ...]


@dataclass(frozen=True)
class StudyPart:
    """How much of a study was at hand."""

    name: str
    runs: int  # of the paper's
    stored: int  # at hand, of any length
    of: int
    fingerprint: str
    gap: Gap | None


@dataclass(frozen=True)
class Report:
    parts: tuple[Part, ...]
    studies: tuple[StudyPart, ...]
    command: str
    version: str

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        return tuple(artefact for part in self.parts for artefact in part.artefacts)

    @property
    def count(self) -> Count:
        return sum((artefact.count for artefact in self.artefacts), Count())

    @property
    def gaps(self) -> tuple[Artefact, ...]:
        return tuple(artefact for artefact in self.artefacts if artefact.gap)


def build(frames: Frames, command: str) -> Report:
    """Everything the page says, as data; `command` is what a reader types to make it again."""
    parts = tuple(
        Part(section, tuple(artefact_of(entry, frames) for entry in section.entries))
        for section in chapters()
    )
    found = ((name, study.coverage(frames)) for name, study in all_studies().items())
    studies = tuple(_part(name, frames, coverage) for name, coverage in found if coverage)
    return Report(parts, studies, command, version("sibling-replay"))


def _part(name: str, frames: Frames, coverage: Coverage) -> StudyPart:
    frame = frames[name]
    return StudyPart(
        name, coverage.done, frame.height, coverage.total, fingerprint(frame), coverage.gap
    )


def fingerprint(frame: pl.DataFrame) -> str:
    """Short digest of all runs in a frame: equal data, equal fingerprint."""
    if frame.is_empty():
        return ""
    rows = "".join(sorted(frame["digest"]))
    return hashlib.blake2b(rows.encode(), digest_size=4).hexdigest()


def artefact_of(entry: FigureEntry | TableEntry, frames: Frames) -> Artefact:
    """What the runs at hand allow of an entry."""
    gap = entry.needs.gap(frames)
    if isinstance(entry, FigureEntry):
        figure = None if gap and gap.everything else entry.build(frames[entry.needs.study])
        return Artefact(entry, gap, figure=figure)
    table, count = entry.build(frames)
    return Artefact(entry, gap, table=table if table.blocks else None, count=count)


def write(report: Report, out: Path) -> list[Path]:
    """index.html, figures/*.pdf and .png, tables/*.md and .tex; returns what was written.

    Figures and tables of an earlier report that this one does not make are removed: a stale
    picture beside a new page would pass for its own.
    """
    written = []
    for artefact in report.artefacts:
        name = artefact.entry.name
        if artefact.figure:
            written += matplotlib_ink.save(artefact.figure, out / "figures", name)
        if artefact.table:
            caption = f"{artefact.entry.title}. {artefact.entry.caption}"
            written.append(_text(out / "tables" / f"{name}.md", markdown(artefact.table)))
            tex = latex(artefact.table, caption, name)
            written.append(_text(out / "tables" / f"{name}.tex", tex))
    for entry in (entry for section in chapters() for entry in section.entries):
        for folder, suffixes in (("figures", ("pdf", "png")), ("tables", ("md", "tex"))):
            for suffix in suffixes:
                stale = out / folder / f"{entry.name}.{suffix}"
                if stale not in written:
                    stale.unlink(missing_ok=True)
    written.append(_text(out / "index.html", page.render(report)))
    return written


def _text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
    return path

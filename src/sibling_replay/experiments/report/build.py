"""Builds every artefact that the runs at hand allow, and writes the page, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from sibling_replay.experiments.figures import Figure, matplotlib_ink
from sibling_replay.files import write_whole

from . import page
from .artefacts import SECTIONS
from .entries import FigureEntry, Section, TableEntry
from .inputs import Frames, Gap, Needs, fingerprint
from .layout import Count, Table
from .markup import latex, markdown
from .minatar_inputs import MinAtarNeeds


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
class Study:
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
    studies: tuple[Study, ...]
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
        Part(section, tuple(_artefact(entry, frames) for entry in section.entries))
        for section in SECTIONS
    )
    studies = (_study(needs, frames) for needs in (Needs("exact"), Needs("grid"), MinAtarNeeds()))
    return Report(parts, tuple(studies), command, version("sibling-replay"))


def _study(needs: Needs | MinAtarNeeds, frames: Frames) -> Study:
    frame = frames[needs.study]
    return Study(
        needs.study,
        needs.done(frames),
        frame.height,
        needs.total,
        fingerprint(frame),
        needs.gap(frames),
    )


def _artefact(entry: FigureEntry | TableEntry, frames: Frames) -> Artefact:
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
    for entry in (entry for section in SECTIONS for entry in section.entries):
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

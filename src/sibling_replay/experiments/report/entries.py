"""What an artefact of the report is: a name and words, the runs it needs, who builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sibling_replay.experiments.figures import Figure

from .inputs import Frames, Needed
from .layout import Count, Table


@dataclass(frozen=True)
class FigureEntry:
    name: str  # of its files
    number: str  # in the paper
    title: str
    caption: str
    needs: Needed
    build: Callable[[pl.DataFrame], Figure | None]


@dataclass(frozen=True)
class TableEntry:
    name: str
    number: str
    title: str
    caption: str
    needs: Needed
    build: Callable[[Frames], tuple[Table, Count]]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    text: str
    entries: tuple[FigureEntry | TableEntry, ...]

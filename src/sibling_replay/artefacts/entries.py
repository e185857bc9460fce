"""What an artefact of the report is: a name and words, the runs it needs, who builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from sibling_replay.artefacts.layout import Count, Table
from sibling_replay.artefacts.panels import Figure

Frames = Mapping[str, pl.DataFrame]
"""Runs by study, and other tables by name."""


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
    """A chapter of the report."""

    name: str
    title: str
    text: str
    entries: tuple[FigureEntry | TableEntry, ...]

"""What a figure says, as plain data: no colour, no library. Two renderers put ink on it.

A figure is a row of panels that wraps. Every number it shows is in here, so a test of a figure is
a test of a dataclass, and the printed and the interactive picture cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sibling_replay.artefacts.statistics import mean_se

MOST_COLUMNS = 8  # of a heat map with room for words
PAPER = "paper"  # the style of everything that is the paper's number, not ours


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error; None where one seed or the text gives none."""

    mean: float
    se: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        mean, se = mean_se(values)
        return cls(mean, None if math.isnan(se) else se)

    def __str__(self) -> str:
        return f"{self.mean:.4g}" if self.se is None else f"{self.mean:.4g} ± {self.se:.2g}"


@dataclass(frozen=True)
class Mark:
    """One method in a point panel: every seed, their mean, and the published mean if any."""

    style: str
    seeds: tuple[float, ...]
    paper: Estimate | None = None

    @property
    def ours(self) -> Estimate:
        return Estimate.of(self.seeds)


@dataclass(frozen=True)
class PointPanel:
    title: str
    y_label: str
    marks: tuple[Mark, ...]
    log: bool = False
    y_range: tuple[float, float] | None = None  # of a bounded quantity, so that panels compare

    def span(self) -> tuple[float, float]:
        """The smallest and largest seed, a little widened: what a log axis must show."""
        values = [value for mark in self.marks for value in mark.seeds]
        return min(values) / 1.3, max(values) * 1.3

    def places(self) -> tuple[float, float]:
        """Where, beside a method's place on the axis, our mean and the paper's stand."""
        return (-0.14, 0.24) if any(mark.paper for mark in self.marks) else (0.0, 0.0)

    def describe(self) -> str:
        said = (
            f"{mark.style} {mark.ours}" + (f" (paper {mark.paper})" if mark.paper else "")
            for mark in self.marks
        )
        return f"{self.title}, {self.y_label}: {'; '.join(said)}."


@dataclass(frozen=True)
class Curve:
    """Values along x: means over seeds with standard errors (nan where there is one seed), or
    shares of runs, which have none."""

    style: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    se: tuple[float, ...] | None


@dataclass(frozen=True)
class Level:
    """A horizontal line: an identity, or a published mean that has no curve."""

    style: str
    label: str
    y: float


@dataclass(frozen=True)
class LinePanel:
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    spread: Literal["band", "bars"] = "band"
    x_range: tuple[float, float] | None = None

    def describe(self) -> str:
        said = [
            f"{curve.label} from {curve.y[0]:.4g} to {curve.y[-1]:.4g}"
            if len(curve.y) > 1
            else f"{curve.label} {curve.y[0]:.4g}"
            for curve in self.curves
        ]
        said += [f"{level.label}: {level.y:.4g}" for level in self.levels]
        return f"{self.title}, {self.y_label} over {self.x_label}: {'; '.join(said)}."


@dataclass(frozen=True)
class HeatPanel:
    """Cells by row and column, shaded from -limit to limit; None where there is no number."""

    title: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[Estimate | None, ...], ...]
    limit: float
    what: str  # a cell is, in a word or two
    style: Literal["ours", "paper"] = "ours"

    def describe(self) -> str:
        said = (
            f"{row}/{column} {cell}"
            for row, cells in zip(self.rows, self.cells, strict=True)
            for column, cell in zip(self.columns, cells, strict=True)
            if cell is not None
        )
        return f"{self.title}, by {self.y_label}/{self.x_label}: {'; '.join(said)}."

    @property
    def crowded(self) -> bool:
        """Whether there is no room for errors in the cells, nor for names that lie flat."""
        return len(self.columns) > MOST_COLUMNS


Panel = PointPanel | LinePanel | HeatPanel


@dataclass(frozen=True)
class LegendLine:
    """A line of the legend."""

    style: str
    label: str
    kind: Literal["point", "line"]


@dataclass(frozen=True)
class Figure:
    """Panels in reading order, `columns` a row where there is room."""

    panels: tuple[Panel, ...]
    columns: int
    note: str = ""  # how our numbers were made, where the paper's caption does not say it

    @property
    def marks(self) -> tuple[Mark, ...]:
        panels = (panel for panel in self.panels if isinstance(panel, PointPanel))
        return tuple(mark for panel in panels for mark in panel.marks)

    def legend(self) -> tuple[LegendLine, ...]:
        """Everything drawn under a name, each once, in order of appearance."""
        entries: dict[LegendLine, None] = {}
        for panel in self.panels:
            if isinstance(panel, PointPanel):
                entries |= dict.fromkeys(LegendLine(m.style, m.style, "point") for m in panel.marks)
            elif isinstance(panel, LinePanel):
                for curve in panel.curves:
                    kind: Literal["point", "line"] = "point" if curve.style == PAPER else "line"
                    entries[LegendLine(curve.style, curve.label, kind)] = None
                entries |= dict.fromkeys(LegendLine(v.style, v.label, "line") for v in panel.levels)
        return tuple(entries)

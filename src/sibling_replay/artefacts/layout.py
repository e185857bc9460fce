"""Comparison frames laid out as the paper's tables are: text in cells, ready for any markup.

Generic over frames with the columns of `comparison.py` (seeds, mean, se, paper_mean, paper_se,
distance and perhaps low, high): some key columns name the rows, one key may run across.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

CONFIDENT = 1.96  # combined standard errors: inside the combined 95 % interval
CLOSE = 3.0  # beyond this a number is called different

Verdict = Literal["within", "near", "apart", ""]


@dataclass(frozen=True)
class TableCell:
    """One number of ours, the paper's, and how far they are apart; "" where there is none."""

    ours: str
    paper: str = ""
    apart: str = ""
    verdict: Verdict = ""


@dataclass(frozen=True)
class TableRow:
    labels: tuple[str, ...]
    cells: tuple[TableCell | None, ...]


@dataclass(frozen=True)
class RowGroup:
    """Rows under one heading, usually an environment."""

    title: str
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class Table:
    label_heads: tuple[str, ...]
    heads: tuple[str, ...]
    blocks: tuple[RowGroup, ...]

    @property
    def cells(self) -> Iterator[TableCell]:
        """Those that hold something."""
        rows = (row for block in self.blocks for row in block.rows)
        return (cell for row in rows for cell in row.cells if cell)

    @property
    def compares(self) -> bool:
        """Whether any cell has a number of the paper beside it."""
        return any(cell.paper for cell in self.cells)

    @property
    def judges(self) -> bool:
        """Whether any cell says how far the two are apart."""
        return any(cell.verdict for cell in self.cells)


@dataclass(frozen=True)
class Count:
    """How the published means of a table compare with ours."""

    within: int = 0
    near: int = 0
    apart: int = 0
    missing: int = 0  # published with an error, but not run

    @property
    def compared(self) -> int:
        return self.within + self.near + self.apart

    def __add__(self, other: Count) -> Count:
        return Count(
            self.within + other.within,
            self.near + other.near,
            self.apart + other.apart,
            self.missing + other.missing,
        )


@dataclass(frozen=True)
class Shape:
    """How a frame becomes a table: which keys head blocks, rows and columns, and in what words."""

    rows: tuple[str, ...]
    across: str = "metric"
    block: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()  # of the columns; without it, as they come

    def word(self, value: object) -> str:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return self.words.get(text, text)

    def title(self, group: pl.DataFrame) -> str:
        """Of a block: the name that its rows share, or the setting ("α = 0.6")."""
        if self.block is None:
            return ""
        shared = group[self.block][0]
        named = isinstance(shared, str)
        return self.word(shared) if named else f"{self.word(self.block)} = {self.word(shared)}"

    def heads(self, frame: pl.DataFrame) -> tuple[str, ...]:
        """Of the columns that the frame has."""
        found = frame[self.across].unique(maintain_order=True).to_list()
        ordered = [name for name in self.order if name in found]
        return tuple(dict.fromkeys(self.word(name) for name in [*ordered, *found]))


def verdict(distance: float | None) -> Verdict:
    if distance is None:
        return ""
    size = abs(distance)
    return "within" if size <= CONFIDENT else "near" if size <= CLOSE else "apart"


def count(compared: pl.DataFrame, published: int) -> Count:
    """`published` is how many means the paper prints with an error in this table."""
    said = [verdict(distance) for distance in compared["distance"]]
    within, near, apart = (said.count(word) for word in ("within", "near", "apart"))
    return Count(within, near, apart, published - within - near - apart)


def comparison(compared: pl.DataFrame, shape: Shape) -> Table:
    """Ours above the paper's in each cell. Rows and columns keep the frame's order."""
    frame = compared.with_columns(
        pl.Series("across", [shape.word(value) for value in compared[shape.across]], pl.String)
    )
    heads = shape.heads(compared)
    blocks = []
    for group in _groups(frame, shape):
        digits = {
            head: _decimals(group.filter(pl.col("across") == head).rows(named=True))
            for head in heads
        }
        rows = []
        for part in group.partition_by(shape.rows, maintain_order=True):
            cells = {
                row["across"]: _cell(row, *digits[row["across"]]) for row in part.rows(named=True)
            }
            labels = tuple(shape.word(part[key][0]) for key in shape.rows)
            rows.append(TableRow(labels, tuple(cells.get(head) for head in heads)))
        blocks.append(RowGroup(shape.title(group), tuple(rows)))
    return Table(tuple(shape.word(key) for key in shape.rows), heads, tuple(blocks))


def intervals(frame: pl.DataFrame, shape: Shape, columns: Mapping[str, str]) -> Table:
    """Estimates with intervals of their own: columns <name>, <name>_low and <name>_high."""
    blocks = []
    for group in _groups(frame, shape):
        rows = []
        digits = {name: 3 if (group[name].abs() < 10).all() else 2 for name in columns}
        for row in group.rows(named=True):
            labels = tuple(shape.word(row[key]) for key in shape.rows)
            rows.append(TableRow(labels, tuple(_interval(row, *each) for each in digits.items())))
        blocks.append(RowGroup(shape.title(group), tuple(rows)))
    return Table(
        tuple(shape.word(key) for key in shape.rows), tuple(columns.values()), tuple(blocks)
    )


def texts(rows: Sequence[Mapping[str, str]], shape: Shape) -> Table:
    """Cells that are text already: keys, `ours`, and `paper`, which may be empty."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    if frame.is_empty():
        return Table((), (), ())
    heads = shape.heads(frame)
    blocks = []
    for group in _groups(frame, shape):
        lines = []
        for part in group.partition_by(shape.rows, maintain_order=True):
            cells = {
                shape.word(row[shape.across]): TableCell(row["ours"], row["paper"])
                for row in part.rows(named=True)
            }
            labels = tuple(part[key][0] for key in shape.rows)
            lines.append(TableRow(labels, tuple(cells.get(head) for head in heads)))
        blocks.append(RowGroup(shape.title(group), tuple(lines)))
    return Table(tuple(shape.word(key) for key in shape.rows), heads, tuple(blocks))


def _groups(frame: pl.DataFrame, shape: Shape) -> list[pl.DataFrame]:
    """The rows of each block; none if there are no rows at all."""
    if frame.is_empty():
        return []
    return frame.partition_by(shape.block, maintain_order=True) if shape.block else [frame]


def _decimals(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """(ours, the paper's) decimals of a column: as printed; ours up to three if errors need it."""
    shown = [repr(row["paper_mean"]) for row in rows if row["paper_mean"] is not None]
    paper = min(5, max((len(text.partition(".")[2].rstrip("0")) for text in shown), default=2))
    paper = max(paper, 2)
    errors = [row["se"] for row in rows if row["se"] and math.isfinite(row["se"])]
    needed = max((-math.floor(math.log10(error)) for error in errors), default=paper)
    return min(max(needed, paper), max(paper, 3)), paper


def _cell(row: dict[str, Any], ours: int, paper: int) -> TableCell:
    distance, printed = row["distance"], row["paper_mean"]
    mine = _with_error(row["mean"], row["se"], ours)
    if row.get("low") is not None and math.isfinite(row["low"]):
        mine = f"{mine} [{number(row['low'], ours)}, {number(row['high'], ours)}]"
    return TableCell(
        ours=mine,
        paper="" if printed is None else _with_error(printed, row["paper_se"], paper),
        apart="" if distance is None else number(distance, 1, sign=True),
        verdict=verdict(distance),
    )


def _interval(row: dict[str, Any], name: str, decimals: int) -> TableCell | None:
    if row[name] is None:
        return None
    value, low, high = (number(row[name + end], decimals) for end in ("", "_low", "_high"))
    return TableCell(f"{value} [{low}, {high}]")


def _with_error(mean: float, se: float | None, decimals: int) -> str:
    if math.isnan(mean):  # the AUC of runs with a single evaluation
        return "none: evaluated once"
    if se is None or math.isnan(se):
        return number(mean, decimals)
    return f"{number(mean, decimals)} ± {number(se, decimals)}"


def number(value: float, decimals: int, sign: bool = False) -> str:
    """With a true minus sign, and no minus on a zero."""
    if math.isnan(value):
        return "none"
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    text = f"{value:{'+' if sign else ''}.{decimals}f}"
    if float(text) == 0.0:
        text = text.lstrip("+-")
    return text.replace("-", "−")

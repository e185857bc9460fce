"""Transitions as rows of words, and back as columns.

A row holds one transition in three sections, each padded to whole 64-bit words: the key (what makes
siblings: observation and action, or a group label), the outcome (what siblings may differ in:
reward, next observation, terminated, truncated) and the rest. So "same group" and "same outcome"
are comparisons of leading words, and one draw touches the one or two cache lines of its row.
Boolean arrays take one bit an element in a row and one byte an element in a column.

Transitions enter and leave as a *block*: the columns one after the other, each starting on a
multiple of eight bytes. The kernels read a table of offsets and widths, so they are compiled once
for every schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I64, U64

OUTCOME_FIELDS = ("reward", "next_obs", "terminated", "truncated")

# Columns of the layout table.
_WIDTH, _OFFSET, _PACKED, _IS_OUTCOME = range(4)
LAYOUT_COLUMNS = 4

# Eight bytes that are 0 or 1, times this, have their bits side by side in the top byte.
_PACK = np.uint64(0x0102040810204080)
_UNPACK = np.zeros(256, dtype=np.uint64)
for _bits in range(256):
    _eight = np.array([(_bits >> i) & 1 for i in range(8)], dtype=np.uint8)
    with np.errstate(over="ignore"):
        _UNPACK[int((_eight.view(np.uint64)[0] * _PACK) >> np.uint64(56))] = _eight.view(np.uint64)[0]


@dataclass(frozen=True)
class Field:
    """One named value of a transition: its type and the shape of one element."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        if self.dtype.kind not in "biuf" or self.dtype.itemsize > 8:
            raise TypeError(
                f"a field needs a boolean, integer or float dtype of at most 64 bits, "
                f"not {self.dtype}"
            )
        if any(n < 1 for n in self.shape):
            raise ValueError(f"a field's shape must be positive in every axis, not {self.shape}")

    @property
    def packed(self) -> bool:
        """Stored as bits: arrays of booleans."""
        return self.dtype.kind == "b" and self.shape != ()

    @property
    def width(self) -> int:
        """Bytes of one element in a column."""
        return self.dtype.itemsize * int(np.prod(self.shape))

    @property
    def stored_width(self) -> int:
        """Bytes of one element in a row."""
        return -(-self.width // 8) if self.packed else self.width

    @property
    def alignment(self) -> int:
        """What a row offset must be a multiple of."""
        if self.packed:
            return 1
        return 8 if self.width % 8 == 0 else self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """Where every field of a schema lies in a row and in a block."""

    fields: dict[str, Field]  # in row order
    table: I64  # [fields, 4]: width in a column, offset in a row, packed, is outcome
    outcome_table: I64  # the rows of `table` that are outcomes
    key_words: int
    outcome_words: int  # words of the key and the outcome together
    row_words: int

    @staticmethod
    def of(fields: Mapping[str, Field], key: Iterable[str]) -> Layout:
        key = tuple(key)
        sections = (
            [name for name in fields if name in key],
            [name for name in fields if name in OUTCOME_FIELDS and name not in key],
            [name for name in fields if name not in OUTCOME_FIELDS and name not in key],
        )
        ordered: dict[str, Field] = {}
        table: list[tuple[int, int, int, int]] = []
        ends: list[int] = []
        offset = 0
        for section in sections:
            for name in sorted(section, key=lambda name: -fields[name].alignment):
                field = fields[name]
                offset = -(-offset // field.alignment) * field.alignment
                table.append((field.width, offset, field.packed, name in OUTCOME_FIELDS))
                ordered[name] = field
                offset += field.stored_width
            offset = -(-offset // 8) * 8
            ends.append(offset // 8)
        rows = np.array(table, dtype=np.int64)
        return Layout(
            fields=ordered,
            table=rows,
            outcome_table=np.ascontiguousarray(rows[rows[:, _IS_OUTCOME] == 1]),
            key_words=ends[0],
            outcome_words=ends[1],
            row_words=ends[2],
        )

    def columns(
        self, count: int, outcomes_only: bool = False
    ) -> tuple[dict[str, tuple[tuple[int, ...], np.dtype[Any], int]], int]:
        """(shape, dtype, offset) of every column in a block of `count`, and the block's bytes."""
        places = {}
        offset = 0
        for name, field in self.fields.items():
            if outcomes_only and name not in OUTCOME_FIELDS:
                continue
            places[name] = ((count, *field.shape), field.dtype, offset)
            offset += -(-count * field.width // 8) * 8
        return places, offset

    def new_rows(self, capacity: int) -> U64:
        return np.zeros((capacity, self.row_words), dtype=np.uint64)


@njit(cache=True)
def pack_row(block, table, count, i, row):
    """Entry i of a block of `count` as a row."""
    row[:] = 0
    cells = row.view(np.uint8)
    words = block.view(np.uint64)
    start = 0
    for f in range(table.shape[0]):
        width = table[f, _WIDTH]
        offset = table[f, _OFFSET]
        first = start + i * width
        if table[f, _PACKED]:
            if width % 8 == 0:
                for k in range(width // 8):
                    cells[offset + k] = np.uint8((words[first // 8 + k] * _PACK) >> np.uint64(56))
            else:
                for k in range(width):
                    cells[offset + k // 8] |= np.uint8(block[first + k] << np.uint8(7 - k % 8))
        elif width % 8 == 0:
            for k in range(width // 8):
                row[offset // 8 + k] = words[first // 8 + k]
        else:
            for k in range(width):
                cells[offset + k] = block[first + k]
        start += (count * width + 7) // 8 * 8


@njit(cache=True)
def gather(rows, table, slots, outcome_slots, block, start):
    """The columns of some slots, into a block from byte `start` on.

    Outcome fields come from `outcome_slots`, the others from `slots`.
    """
    count = slots.size
    row_words = rows.shape[1]
    words = rows.reshape(-1)
    halves = words.view(np.uint32)
    cells = words.view(np.uint8)
    out_words = block.view(np.uint64)
    out_halves = block.view(np.uint32)
    for f in range(table.shape[0]):
        width = table[f, _WIDTH]
        offset = table[f, _OFFSET]
        source = outcome_slots if table[f, _IS_OUTCOME] else slots
        if table[f, _PACKED]:
            if width % 8 == 0:
                out = start // 8
                for i in range(count):
                    first = source[i] * row_words * 8 + offset
                    for k in range(width // 8):
                        out_words[out] = _UNPACK[cells[first + k]]
                        out += 1
            else:
                for i in range(count):
                    first = source[i] * row_words * 8 + offset
                    for k in range(width):
                        bit = (cells[first + k // 8] >> np.uint8(7 - k % 8)) & np.uint8(1)
                        block[start + i * width + k] = bit
        elif width == 8:
            for i in range(count):
                out_words[start // 8 + i] = words[source[i] * row_words + offset // 8]
        elif width == 4:
            for i in range(count):
                out_halves[start // 4 + i] = halves[2 * source[i] * row_words + offset // 4]
        elif width == 1:
            for i in range(count):
                block[start + i] = cells[8 * source[i] * row_words + offset]
        elif width % 8 == 0:
            per = width // 8
            for i in range(count):
                first = source[i] * row_words + offset // 8
                for k in range(per):
                    out_words[start // 8 + i * per + k] = words[first + k]
        else:
            for i in range(count):
                first = 8 * source[i] * row_words + offset
                for k in range(width):
                    block[start + i * width + k] = cells[first + k]
        start += (count * width + 7) // 8 * 8

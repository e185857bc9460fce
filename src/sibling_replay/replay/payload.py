"""Transitions as rows of bytes, and back as columns.

A row holds one transition: first the key (what makes siblings: observation and action, or a group
label), then the outcome (what siblings may differ in: reward, next observation, terminated,
truncated), then the rest. So "same group" and "same outcome" are comparisons of leading bytes, and
a draw touches the few cache lines of its row. Rows are whole 32-bit words; boolean arrays take one
bit an element in a row and one byte an element in a column. Floats are stored with +0.0 for -0.0:
equal values are equal bytes.

Transitions enter and leave as a *block*: the columns one after the other, each starting on a
multiple of eight bytes. The kernels read a table of offsets and widths, so they are compiled once
for every schema.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I64, U32
from sibling_replay.replay.inner import inner
from sibling_replay.replay.touch import touch
from sibling_replay.replay.views import view_as

# What a step leads to. `discount`, if the user has such a field, is that of `next_obs` in the
# target, where it is not the same for all, as after several steps.
OUTCOME_FIELDS = ("reward", "next_obs", "terminated", "truncated", "discount")

# Columns of the layout table.
_WIDTH, _OFFSET, _PACKED, _IS_OUTCOME, _FLOAT_BYTES = range(5)
LAYOUT_COLUMNS = 5

_0, _1, _2, _3, _4, _7, _8 = (np.uint64(i) for i in (0, 1, 2, 3, 4, 7, 8))

_LINE = np.uint64(16)  # words in a cache line

# Eight bytes that are 0 or 1, times _PACK, have their bits side by side in the top byte, the first
# element in the lowest bit. A byte in all eight lanes, masked by _BITS, has in lane k its bit k.
_PACK = np.uint64(0x0102040810204080)
_BITS = np.uint64(0x8040201008040201)
_LANES = np.uint64(0x0101010101010101)
_NEGATIVE = np.uint32(0x80000000)  # the sign of a float, in the last of its words
_CARRY = np.uint64(0x7F7F7F7F7F7F7F7F)  # added to a lane, sets its top bit unless the lane is zero


@dataclass(frozen=True)
class Field:
    """One named value of a transition: its type and the shape of one element.

    bounds: of a whole number of shape (), the least and the greatest there may be.

    Examples:
        >>> field = Field(np.dtype(np.float32), (4,))
        >>> field.shape
        (4,)
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    bounds: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        try:
            dtype, shape = np.dtype(self.dtype), tuple(operator.index(n) for n in self.shape)
        except TypeError as error:
            raise TypeError(
                f"a field is a dtype and a tuple of whole numbers, not {self.dtype!r} and "
                f"{self.shape!r}"
            ) from error
        # Rows and blocks are in the machine's byte order, whatever the caller's arrays are in.
        # (A native dtype is kept as it is: NumPy's own objects compare fastest.)
        native = dtype if dtype.isnative else dtype.newbyteorder("=")
        object.__setattr__(self, "dtype", native)
        object.__setattr__(self, "shape", shape)
        if self.dtype.kind not in "biuf" or self.dtype.itemsize > 8:
            raise TypeError(
                f"a field needs a boolean, integer or float dtype of at most 64 bits, "
                f"not {self.dtype}"
            )
        if any(n < 1 for n in self.shape):
            raise ValueError(f"a field's shape must be positive in every axis, not {self.shape}")
        if self.bounds is not None:
            low, high = (operator.index(bound) for bound in self.bounds)
            if self.dtype.kind not in "iu" or self.shape or not low <= high:
                raise ValueError(
                    f"bounds are of one whole number, the least first, not {self.bounds!r} of "
                    f"{self.dtype} {self.shape}"
                )
            object.__setattr__(self, "bounds", (low, high))

    def opened(self, column: Any) -> Any:
        """A column as users see it; that of several parts (parts.py) as its parts."""
        return column

    @property
    def packed(self) -> bool:
        """Stored as bits: arrays of booleans."""
        return self.dtype.kind == "b" and self.shape != ()

    @property
    def width(self) -> int:
        """Bytes of one element in a column."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def stored_width(self) -> int:
        """Bytes of one element in a row."""
        return -(-self.width // 8) if self.packed else self.width

    @property
    def alignment(self) -> int:
        """What a row offset must be a multiple of: a word, where elements are copied as words."""
        return 4 if not self.packed and self.width % 4 == 0 else 1


@dataclass(frozen=True)
class Layout:
    """Where every field of a schema lies in a row and in a block."""

    fields: dict[str, Field]  # in row order
    table: I64  # [fields, 5]: width in a column, offset in a row, packed, is outcome, bytes a float
    outcome_table: I64  # the rows of `table` that are outcomes
    key_bytes: int
    outcome_bytes: int  # of the key and the outcome together
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
        table: list[tuple[int, ...]] = []
        ends: list[int] = []
        offset = 0
        for section in sections:
            while section:
                # Fields of single bytes fill the gaps before fields that need whole words.
                name = max(section, key=lambda name: _fit(fields[name].alignment, offset))
                section.remove(name)
                field = fields[name]
                offset = -(-offset // field.alignment) * field.alignment
                float_bytes = field.dtype.itemsize if field.dtype.kind == "f" else 0
                table.append(
                    (field.width, offset, field.packed, name in OUTCOME_FIELDS, float_bytes)
                )
                ordered[name] = field
                offset += field.stored_width
            ends.append(offset)
        rows = np.array(table, dtype=np.int64)
        return Layout(
            fields=ordered,
            table=rows,
            outcome_table=np.ascontiguousarray(rows[rows[:, _IS_OUTCOME] == 1]),
            key_bytes=ends[0],
            outcome_bytes=ends[1],
            row_words=-(-ends[2] // 4),
        )

    @property
    def parts(self) -> dict[str, Field]:
        """The fields of several parts."""
        return {n: field for n, field in self.fields.items() if hasattr(field, "tree")}

    @property
    def offsets(self) -> list[int]:
        """Where each field begins in a row, in bytes."""
        return [int(offset) for offset in self.table[:, _OFFSET]]

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

    def new_rows(self, capacity: int) -> U32:
        return np.zeros((capacity, self.row_words), dtype=np.uint32)


def _fit(alignment: int, offset: int) -> int:
    """How good it is to place a field of an alignment at an offset."""
    return alignment if offset % alignment == 0 else -alignment


@inner(forceinline=True)
def _truths(word):
    """Eight bytes as 1 where any bit is set: not every byte that NumPy takes for True is a 1."""
    word |= word >> _4
    word |= word >> _2
    word |= word >> _1
    return word & _LANES


@inner()
def _clear_negative_zeros(row, first, width, float_bytes):
    """Make +0.0 of -0.0 among the floats in `width` bytes of a row from byte `first` on."""
    words = float_bytes >> _2
    if words > _0:
        for k in range((first >> _2) + words - _1, (first + width) >> _2, words):
            if row[k] == _NEGATIVE and (words == _1 or row[k - _1] == 0):
                row[k] = 0
    else:
        cells = view_as(row, np.uint8)
        for k in range(first + _1, first + width, _2):
            if cells[k] == 0x80 and cells[k - _1] == 0:
                cells[k] = 0


@inner()
def pack_row(block, table, count, i, row):
    """Entry i of a block of `count` as a row."""
    for k in range(row.size):
        row[k] = 0
    cells = view_as(row, np.uint8)
    words = view_as(block, np.uint64)
    halves = view_as(block, np.uint32)
    start = _0
    for f in range(table.shape[0]):
        width = np.uint64(table[f, _WIDTH])
        offset = np.uint64(table[f, _OFFSET])
        first = start + np.uint64(i) * width
        if table[f, _PACKED]:
            if width & _7 == _0:
                for k in range(width >> _3):
                    bits = _truths(words[(first >> _3) + k]) * _PACK
                    cells[offset + k] = np.uint8(bits >> np.uint64(56))
            else:
                for k in range(width):
                    bit = np.uint8(block[first + k] != 0)
                    cells[offset + (k >> _3)] |= np.uint8(bit << (_7 - (k & _7)))
        elif width & _3 == _0:
            for k in range(width >> _2):
                row[(offset >> _2) + k] = halves[(first >> _2) + k]
        else:
            for k in range(width):
                cells[offset + k] = block[first + k]
        if table[f, _FLOAT_BYTES]:
            _clear_negative_zeros(row, offset, width, np.uint64(table[f, _FLOAT_BYTES]))
        start += ((np.uint64(count) * width + _7) >> _3) << _3


@njit(cache=True)
def pack_rows(block, table, count, rows):
    """All entries of a block as the first rows of a table."""
    for i in range(count):
        pack_row(block, table, count, i, rows[i])


@inner(forceinline=True)
def _touch_rows(rows, slots):
    """Touch every cache line of some rows."""
    stride = np.uint64(rows.shape[1])
    for i in range(np.uint64(slots.size)):
        first = np.uint64(slots[i]) * stride
        for word in range(_0, stride, _LINE):
            touch(rows, first + word)
        touch(rows, first + stride - _1)


@inner()
def gather(rows, table, slots, outcome_slots, block, start):
    """The columns of some slots, into a block from byte `start` on.

    Outcome fields come from `outcome_slots`, the others from `slots`.
    """
    count = np.uint64(slots.size)
    stride = np.uint64(rows.shape[1])
    words = view_as(rows, np.uint32)
    cells = view_as(rows, np.uint8)
    out_words = view_as(block, np.uint32)
    out_doubles = view_as(block, np.uint64)
    out = np.uint64(start)
    if table.shape[0] > 0:
        _touch_rows(rows, outcome_slots)
    for f in range(table.shape[0]):
        width = np.uint64(table[f, _WIDTH])
        offset = np.uint64(table[f, _OFFSET])
        source = outcome_slots if table[f, _IS_OUTCOME] else slots
        if table[f, _PACKED]:
            if width & _7 == _0:
                to = out >> _3
                for i in range(count):
                    first = ((np.uint64(source[i]) * stride) << _2) + offset
                    for k in range(width >> _3):
                        bits = (np.uint64(cells[first + k]) * _LANES) & _BITS
                        out_doubles[to + k] = ((bits + _CARRY) >> _7) & _LANES
                    to += width >> _3
            else:
                for i in range(count):
                    first = ((np.uint64(source[i]) * stride) << _2) + offset
                    for k in range(width):
                        bit = cells[first + (k >> _3)] >> np.uint8(_7 - (k & _7))
                        block[out + i * width + k] = bit & np.uint8(1)
        elif width == _8:
            to, first = out >> _2, offset >> _2
            for i in range(count):
                place = np.uint64(source[i]) * stride + first
                out_words[to + _2 * i] = words[place]
                out_words[to + _2 * i + _1] = words[place + _1]
        elif width == _4:
            to, first = out >> _2, offset >> _2
            for i in range(count):
                out_words[to + i] = words[np.uint64(source[i]) * stride + first]
        elif width == _1:
            for i in range(count):
                block[out + i] = cells[((np.uint64(source[i]) * stride) << _2) + offset]
        elif width & _3 == _0:
            to = out >> _2
            for i in range(count):
                first = np.uint64(source[i]) * stride + (offset >> _2)
                for k in range(width >> _2):
                    out_words[to] = words[first + k]
                    to += _1
        else:
            for i in range(count):
                first = ((np.uint64(source[i]) * stride) << _2) + offset
                for k in range(width):
                    block[out + i * width + k] = cells[first + k]
        out += ((count * width + _7) >> _3) << _3

"""The arrays of a memory as kernels see them: opened from its handle, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from sibling_replay.replay.handles import open_columns, open_table, open_vector
from sibling_replay.replay.index import Index
from sibling_replay.replay.inner import inner
from sibling_replay.replay.intern import KeyTable
from sibling_replay.replay.notes import Notes
from sibling_replay.replay.partition import Partition
from sibling_replay.replay.payload import LAYOUT_COLUMNS

# Places in `counts` and in `peaks`.
ADDED, LIVE, DROPPED, ROW_WORDS = range(4)
MAX_PRIORITY, MAX_MASS = range(2)

# The arrays of a memory in the order of its handle, and where in it they begin.
_PARTS: dict[str, Any] = {
    "index": Index,
    "keys": KeyTable,
    "outcomes": Partition,
    "outcome_keys": KeyTable,
    "group_outcomes": Partition,
    "notes": Notes,
}
_ALONE = ("rows", "table", "counts", "peaks", "stamps", "best")
ORDER = (*(f"{part}.{name}" for part, kind in _PARTS.items() for name in kind._fields), *_ALONE)
KEYS = ORDER.index("keys.table")
_OUTCOMES = ORDER.index("outcomes.items")
OUTCOME_KEYS = ORDER.index("outcome_keys.table")
_GROUP_OUTCOMES = ORDER.index("group_outcomes.items")
_NOTES = ORDER.index("notes.columns")
_ROWS, _TABLE, _COUNTS, _PEAKS, _STAMPS, _BEST = (ORDER.index(name) for name in _ALONE)


@inner(forceinline=True)
def open_index(handle):
    """Masses and groups."""
    return Index(
        open_vector(handle, 0, np.float64),
        open_vector(handle, 1, np.int64),
        open_columns(handle, 2, 2, np.int32),
        open_table(handle, 3, 2, np.int32),
        open_vector(handle, 4, np.int32),
        open_vector(handle, 5, np.int32),
        open_vector(handle, 6, np.float64),
        open_vector(handle, 7, np.float64),
    )


@inner(forceinline=True)
def _open_partition(handle, first):
    """A partition, from the place of its first array."""
    return Partition(
        open_columns(handle, first, 2, np.int32),
        open_table(handle, first + 1, 2, np.int32),
        open_vector(handle, first + 2, np.int32),
        open_vector(handle, first + 3, np.int32),
    )


@inner(forceinline=True)
def open_keys(handle, first):
    """A key table, from the place of its first array."""
    return KeyTable(
        open_vector(handle, first, np.int32),
        open_vector(handle, first + 1, np.uint32),
        open_vector(handle, first + 2, np.uint32),
    )


@inner(forceinline=True)
def open_outcomes(handle):
    """The partition of slots into outcomes."""
    return _open_partition(handle, _OUTCOMES)


@inner(forceinline=True)
def open_group_outcomes(handle):
    """The partition of outcomes into groups."""
    return _open_partition(handle, _GROUP_OUTCOMES)


@inner(forceinline=True)
def open_notes(handle):
    """What a strategy has noted."""
    return Notes(
        open_vector(handle, _NOTES, np.float64),
        open_vector(handle, _NOTES + 1, np.float64),
        open_vector(handle, _NOTES + 2, np.float64),
        open_vector(handle, _NOTES + 3, np.int64),
        open_vector(handle, _NOTES + 4, np.float64),
        open_vector(handle, _NOTES + 5, np.float64),
        open_vector(handle, _NOTES + 6, np.int64),
        open_vector(handle, _NOTES + 7, np.float64),
        open_vector(handle, _NOTES + 8, np.float64),
        open_vector(handle, _NOTES + 9, np.int64),
        open_vector(handle, _NOTES + 10, np.float64),
    )


@inner(forceinline=True)
def open_counts(handle):
    return open_vector(handle, _COUNTS, np.int64)


@inner(forceinline=True)
def open_peaks(handle):
    return open_vector(handle, _PEAKS, np.float64)


@inner(forceinline=True)
def open_stamps(handle):
    return open_vector(handle, _STAMPS, np.int64)


@inner(forceinline=True)
def open_best(handle):
    return open_vector(handle, _BEST, np.float64)


@inner(forceinline=True)
def open_rows(handle):
    return open_table(handle, _ROWS, open_counts(handle)[ROW_WORDS], np.uint32)


@inner(forceinline=True)
def open_layout(handle):
    return open_table(handle, _TABLE, LAYOUT_COLUMNS, np.int64)

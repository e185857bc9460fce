"""The head of a batch's block as kernels see it: a date and the columns of `replay.batch.HEADER`.

The date is the number of entries added when the batch was drawn. The columns are their owner's to
write on, so a refresh believes none of them: slots are checked, groups are looked up.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.batch import COLUMN_BYTES, HEAD_BYTES, HEADER
from sibling_replay.strategies.steps import Rows

DATE = 0
_FIRST = HEAD_BYTES // 8
_COLUMNS = len(HEADER)
assert Rows._fields == HEADER  # in this order


@njit(cache=True, forceinline=True)
def open_header(block, size):
    """The columns of a batch's block, and where its fields begin."""
    words = block.view(np.int64)[_FIRST:]
    weights = 2 * (_FIRST + (_COLUMNS - 1) * size)  # in units of float32
    rows = Rows(
        words[:size],
        words[size : 2 * size],
        words[2 * size : 3 * size],
        words[3 * size : 4 * size],
        words[4 * size : 5 * size],
        block.view(np.float32)[weights : weights + size],
    )
    return rows, HEAD_BYTES + COLUMN_BYTES * _COLUMNS * size

"""The head of a batch's block as kernels see it: a date and the columns of `replay.batch.HEADER`.

The date is the number of entries added when the batch was drawn. The columns are their owner's to
write on, so a refresh believes none of them: slots are checked, groups are looked up.
"""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.batch import COLUMN_BYTES, HEAD_BYTES, HEADER
from sibling_replay.replay.inner import inner
from sibling_replay.replay.views import part, view_as
from sibling_replay.strategies.steps import Rows

DATE = 0
_FIRST = HEAD_BYTES // 8
_COLUMNS = len(HEADER)
assert Rows._fields == HEADER  # in this order


@inner(forceinline=True)
def open_header(block, size):
    """The columns of a batch's block, and where its fields begin."""
    words = view_as(block, np.int64)
    rows = Rows(
        part(words, _FIRST, size),
        part(words, _FIRST + size, size),
        part(words, _FIRST + 2 * size, size),
        part(words, _FIRST + 3 * size, size),
        part(words, _FIRST + 4 * size, size),
        part(view_as(block, np.float32), 2 * (_FIRST + 5 * size), size),
    )
    return rows, HEAD_BYTES + COLUMN_BYTES * _COLUMNS * size


@inner(forceinline=True)
def open_date(block):
    """The place of the date."""
    return part(view_as(block, np.int64), DATE, 1)

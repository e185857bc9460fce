"""The head of a batch's block as kernels see it: a date, a seal, and six columns.

The date is the number of entries added when the batch was drawn. A slot's group cannot change while
its entry lives, so a refresh may take the groups from the batch instead of looking them up, which
would be one more wait for memory an entry. But a batch's columns are its owner's to write on: the
seal tells whether slots and groups are still the ones that were drawn.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DATE, SEAL, _COLUMNS = range(3)
# Odd numbers without pattern, those of SplitMix64.
_ODD, _MIX, _STIR = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@njit(cache=True, forceinline=True)
def open_header(block, size):
    """The five integer columns of a batch's block, its weights, and where its fields begin."""
    words = block.view(np.int64)[_COLUMNS:]
    return (
        words[:size],
        words[size : 2 * size],
        words[2 * size : 3 * size],
        words[3 * size : 4 * size],
        words[4 * size : 5 * size],
        block.view(np.float32)[2 * _COLUMNS + 10 * size : 2 * _COLUMNS + 11 * size],
        8 * _COLUMNS + 48 * size,
    )


@njit(cache=True)
def seal_of(slots, groups):
    """A number that is another one, but for one chance in 2^64, for other slots or groups or for
    another order of them. Each pair is mixed with its place before they are added up, so that no
    change of some makes up for a change of others."""
    seal = np.uint64(0)
    for b in range(np.uint64(slots.size)):
        x = ((np.uint64(slots[b]) << np.uint64(32)) ^ np.uint64(groups[b])) + b * _ODD
        x = (x ^ (x >> np.uint64(30))) * _MIX
        x = (x ^ (x >> np.uint64(27))) * _STIR
        seal += x ^ (x >> np.uint64(31))
    return np.int64(seal)

"""How many draws have siblings: without any, a sibling strategy is plain prioritized replay."""

from __future__ import annotations

import warnings
from collections import deque

import numpy as np

from sibling_replay.replay.batch import Batch

# One batch in so many is looked at: until there are enough for a judgement, and then. A look costs
# a few microseconds, as much as a draw.
_EVERY_AT_FIRST, _EVERY = 8, 64
_BATCHES = 64  # looked at and remembered
_ENOUGH_ROWS = 1_000  # looked at, and stored, before a judgement
_FEW = 0.1  # share of draws with siblings below which a strategy does next to nothing


class DrawStatistics:
    """Group sizes of recent draws, and a warning if hardly any has siblings.

    It only reads drawn batches: neither the random stream nor a saved state knows of it.
    """

    def __init__(self, strategy: str, warn: bool) -> None:
        self._strategy = strategy
        self._warn = warn
        self.batches_left = 1  # until the next look: the first batch is looked at
        self._looks: deque[tuple[int, int, int]] = deque(maxlen=_BATCHES)

    def look(self, batch: Batch, stored: int, capacity: int) -> None:
        """Count a batch, drawn from `stored` entries."""
        sizes = batch.group_sizes
        self._looks.append((sizes.size, int(np.count_nonzero(sizes > 1)), int(sizes.sum())))
        rows, with_siblings, members = self._totals()
        self.batches_left = _EVERY_AT_FIRST if rows < _ENOUGH_ROWS else _EVERY
        if not self._warn or rows < _ENOUGH_ROWS or stored < min(_ENOUGH_ROWS, capacity):
            return
        if with_siblings >= _FEW * rows:
            return
        self._warn = False
        warnings.warn(
            f"{with_siblings / rows:.1%} of the last {rows:,} draws looked at have siblings (mean "
            f"group size {members / rows:.2f}), so {self._strategy} does nearly what Prioritized "
            f"does. Observations hardly ever repeat: give a key(obs, action) that maps those that "
            f"count as the same to one value, by rounding or binning, say.",
            stacklevel=3,  # whoever called `sample`
        )

    def _totals(self) -> tuple[int, int, int]:
        rows, with_siblings, members = zip(*self._looks, strict=True)
        return sum(rows), sum(with_siblings), sum(members)

    def means(self) -> dict[str, float]:
        """Both numbers, NaN before the first draw."""
        if not self._looks:
            return {"draws_with_siblings": float("nan"), "group_size": float("nan")}
        rows, with_siblings, members = self._totals()
        return {"draws_with_siblings": with_siblings / rows, "group_size": members / rows}

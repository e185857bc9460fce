"""How many draws have siblings: without any, a sibling strategy is plain prioritized replay, and
with everything in one group it is uniform replay."""

from __future__ import annotations

import warnings
from collections import deque

import numpy as np

from sibling_replay.replay.batch import Batch

# One batch in so many is looked at: until there are enough for a judgement, and then. A look costs
# more than a draw.
_EVERY_AT_FIRST, _EVERY = 8, 256
_BATCHES = 64  # looked at and remembered
_ENOUGH_ROWS = 1_000  # looked at, and stored, before a judgement
_FEW = 0.1  # share of draws with siblings below which a strategy does next to nothing
_NEARLY_ALL = 0.9  # share of what is stored in the group of a mean draw, above which it is uniform


class DrawStatistics:
    """Group sizes of recent draws, and a warning if hardly any has siblings, or if nearly all have
    the same. The latter of `mapped` groups only: equal observations are never too coarse.

    It only reads drawn batches: neither the random stream nor a saved state knows of it.
    """

    def __init__(self, strategy: str, warn: bool, mapped: bool = False) -> None:
        self._strategy = strategy
        self._warn = warn
        self._mapped = mapped
        self._looks: deque[tuple[int, int, int]] = deque(maxlen=_BATCHES)

    def look(self, batch: Batch, stored: int, capacity: int) -> int:
        """Count a batch, drawn from `stored` entries. Returns how many batches later the next is to
        be looked at."""
        sizes = batch.group_sizes
        self._looks.append((sizes.size, int(np.count_nonzero(sizes > 1)), int(sizes.sum())))
        rows, with_siblings, members = self._totals()
        enough = rows >= _ENOUGH_ROWS and stored >= min(_ENOUGH_ROWS, capacity)
        if self._warn and enough and with_siblings < _FEW * rows:
            self._warn = False
            self._say_alone(rows, with_siblings, members)
        elif self._warn and enough and self._mapped and members > _NEARLY_ALL * rows * stored:
            self._warn = False
            self._say_together(rows, members, stored)
        return _EVERY if rows >= _ENOUGH_ROWS else _EVERY_AT_FIRST

    def _say_alone(self, rows: int, with_siblings: int, members: int) -> None:
        warnings.warn(
            f"{with_siblings / rows:.1%} of the last {rows:,} draws looked at have siblings (mean "
            f"group size {members / rows:.2f}), so {self._strategy} does nearly what Prioritized "
            f"does. Observations hardly ever repeat: give key=Auto() of sibling_replay.grouping, "
            f"another map of it, or a key(obs, action) that maps those that count as the same to "
            f"one value.",
            stacklevel=4,  # whoever called `sample`
        )

    def _say_together(self, rows: int, members: int, stored: int) -> None:
        warnings.warn(
            f"the groups of the last {rows:,} draws looked at have {members / rows / stored:.1%} "
            f"of all entries on average, so {self._strategy} does nearly what Uniform does. Give a "
            f"key that tells more apart: a finer map, or key=Auto() of sibling_replay.grouping.",
            stacklevel=4,  # whoever called `sample`
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

"""How many draws have siblings: without any, a sibling strategy is plain prioritized replay, and
with everything in one group it is uniform replay. And whether siblings are alike, where one is
trained toward the outcomes of the others."""

from __future__ import annotations

import math
import warnings
from collections import deque

import numpy as np

from sibling_replay.diagnostics.split_test import FALSE_DISCOVERIES, mixed_draws, positions_of
from sibling_replay.replay.arrays import I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory

# One batch in so many is looked at: until there are enough for a judgement, and then. A look costs
# more than a draw.
_EVERY_AT_FIRST, _EVERY = 8, 256
_BATCHES = 64  # looked at and remembered
_ENOUGH_ROWS = 1_000  # looked at, and stored, before a judgement
_FEW = 0.1  # share of draws with siblings below which a strategy does next to nothing
_NEARLY_ALL = 0.9  # share of what is stored in the group of a mean draw, above which it is uniform
_MUCH_MIXED = 0.1  # share of draws from groups that mix states, above which it is said
_FIRST_TEST = 2_000  # entries stored when groups are first tested; then when they have doubled
_TESTED, _TESTED_BYTES = 20_000, 2**27  # entries of a test, and bytes of their observations
_OF_A_GROUP = 100  # entries that are tested, if it has as many and all groups have too many


class DrawStatistics:
    """Group sizes of recent draws, and a warning if hardly any has siblings, or if nearly all have
    the same. The latter of `mapped` groups only: equal observations are never too coarse.

    mixes: whether entries are trained toward outcomes of siblings with other observations. Then
        there is a warning as well if groups of unlike outcomes are drawn often.

    It only reads: neither the random stream nor a saved state knows of it.
    """

    def __init__(
        self, strategy: str, warn: bool, mapped: bool = False, mixes: bool = False
    ) -> None:
        self._strategy = strategy
        self._warn = warn
        self._mapped = mapped
        self._test_at = _FIRST_TEST if warn and mixes else None  # entries stored; None: never
        self._looks: deque[tuple[int, int, int]] = deque(maxlen=_BATCHES)
        self.told: set[str] = set()  # what has been warned of

    def look(self, batch: Batch, memory: Memory, capacity: int) -> int:
        """Count a batch, drawn from a memory. Returns how many batches later the next is to be
        looked at."""
        stored = memory.live
        sizes = batch.group_sizes
        self._looks.append((sizes.size, int(np.count_nonzero(sizes > 1)), int(sizes.sum())))
        rows, with_siblings, members = self._totals()
        enough = rows >= _ENOUGH_ROWS and stored >= min(_ENOUGH_ROWS, capacity)
        if self._warn and enough:
            if with_siblings < _FEW * rows:
                self._say_alone(rows, with_siblings, members)
            elif self._mapped and members > _NEARLY_ALL * rows * stored:
                self._say_together(rows, members, stored)
            if self._test_at is not None and stored >= self._test_at:
                self._test_at = min(2 * stored, capacity) if stored < capacity else None
                self._test(memory)
        return _EVERY if rows >= _ENOUGH_ROWS else _EVERY_AT_FIRST

    def _say_alone(self, rows: int, with_siblings: int, members: int) -> None:
        self._say(
            "alone",
            f"{with_siblings / rows:.1%} of the last {rows:,} draws looked at have siblings (mean "
            f"group size {members / rows:.2f}), so {self._strategy} does nearly what Prioritized "
            f"does. Observations hardly ever repeat: give key=Auto() of sibling_replay.grouping, "
            f"another map of it, or a key(obs, action) that maps those that count as the same to "
            f"one value.",
        )

    def _say_together(self, rows: int, members: int, stored: int) -> None:
        self._say(
            "together",
            f"the groups of the last {rows:,} draws looked at have {members / rows / stored:.1%} "
            f"of all entries on average, so {self._strategy} does nearly what Uniform does. Give a "
            f"key that tells more apart: a finer map, or key=Auto() of sibling_replay.grouping.",
        )

    def _test(self, memory: Memory) -> None:
        """Whether groups mix states; not again once it has been said."""
        if "mixed" in self.told:
            return
        share, entries = _mixed_share(memory)
        if share <= _MUCH_MIXED:
            return
        self._say(
            "mixed",
            f"{share:.1%} of the draws fall in groups that mix states: rewards or ends differ by "
            f"where entries lie (rank test of {entries:,} entries, false-discovery rate "
            f"{FALSE_DISCOVERIES:.0%}). {self._strategy} trains an entry toward outcomes of its "
            f"siblings, here those of other states. Give a key that tells more apart "
            f"(`sibling-replay diagnose FILE --ladder` compares maps), or use SiblingSample, which "
            f"trains every entry toward its own outcome.",
        )

    def _say(self, name: str, text: str) -> None:
        if name not in self.told:
            self.told.add(name)
            warnings.warn(text, stacklevel=5)  # whoever called `sample`

    def _totals(self) -> tuple[int, int, int]:
        rows, with_siblings, members = zip(*self._looks, strict=True)
        return sum(rows), sum(with_siblings), sum(members)

    def means(self) -> dict[str, float]:
        """Both numbers, NaN before the first draw."""
        if not self._looks:
            return {"draws_with_siblings": float("nan"), "group_size": float("nan")}
        rows, with_siblings, members = self._totals()
        return {"draws_with_siblings": with_siblings / rows, "group_size": members / rows}


def _mixed_share(memory: Memory) -> tuple[float, int]:
    """The share of draws from groups of unlike rewards or ends, and how many entries tell."""
    groups, masses = memory.groups, memory.masses
    width = max(1, memory.layout.fields["obs"].width)
    slots = _some_of_each(groups, min(_TESTED, _TESTED_BYTES // width))
    columns = memory.read(slots)
    chosen = groups[slots]
    counts = np.bincount(chosen, minlength=int(groups.max()) + 1)
    drawn = np.bincount(groups, masses) / np.maximum(counts, 1)
    share = mixed_draws(
        chosen,
        drawn[chosen],  # of a group together its mass
        positions_of(memory.layout.fields["obs"].opened(columns["obs"]), columns["action"]),
        np.stack([columns["reward"], columns["terminated"]], axis=1),
    )
    return share, slots.size


def _some_of_each(groups: I64, most: int) -> I64:
    """At most so many slots, about: evenly spaced members of all groups, or of evenly spaced groups
    where they are many."""
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)
    quota = np.minimum(size, max(_OF_A_GROUP, most // size.size))
    order = np.argsort(group, kind="stable")
    group = group[order]
    place = np.arange(group.size) - (np.cumsum(size) - size)[group]
    taken = (place + 1) * quota[group] // size[group] > place * quota[group] // size[group]
    taken &= group % math.ceil(quota.sum() / most) == 0
    return order[taken]

"""A built-in strategy as codes: which choice it makes at each step that strategies share.

Compiled code branches on these codes (`steps`), never on strategies: a strategy that combines the
choices anew is a recipe, and costs no compilation.
"""

from __future__ import annotations

from typing import NamedTuple

# Anchors: by a uniform number each, or stratified over the cumulative mass (eq. 2).
UNIFORM, BY_MASS = range(2)

# What is trained once the anchors are drawn: the anchor; a uniform sibling of it (eq. 9); the
# anchor toward the outcome of a uniform sibling, which is an outcome drawn by its count in the
# group; the anchor toward the mean over its whole group, or over a uniform subset of it (eq. 12).
ANCHOR, SIBLING, OUTCOME, GROUP_MEAN, SUBSET_MEAN = range(5)

# Importance weights by the mean mass behind a row (`weights`): none, its own, its group's.
NO_WEIGHTS, OWN_MASS, GROUP_MASS = range(3)

# Which entries TD errors refresh: none; the trained ones, of several errors for one entry the last
# or the largest; all that were averaged, the largest. Or they are only noted, for a sweep.
NOTHING, LAST, LARGEST, ALL_AVERAGED, NOTED = range(5)


class Recipe(NamedTuple):
    """The choices of a strategy."""

    anchors: int = BY_MASS
    trained: int = ANCHOR
    weights: int = OWN_MASS
    refreshed: int = LAST
    subset: int = 0  # siblings in a SUBSET_MEAN
    ranked_every: int = 0  # refreshes after which masses become rank^-alpha of what was noted
    floor: float = 0.0  # priorities are max(|td|, floor) instead of |td| + epsilon, unless it is 0

    @property
    def uniforms(self) -> int:
        """Random numbers a row takes: one for the anchor, and what its siblings need."""
        if self.trained in (SIBLING, OUTCOME):
            return 2
        return 1 + self.subset

    @property
    def averages(self) -> bool:
        """Whether targets are means over several outcomes."""
        return self.trained in (GROUP_MEAN, SUBSET_MEAN)

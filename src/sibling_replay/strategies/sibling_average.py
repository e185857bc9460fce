"""AVG: the anchor, toward the mean target of its siblings."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from sibling_replay.strategies.api import Needs, Strategy
from sibling_replay.strategies.laws import (
    Law,
    prioritized_law,
    sibling_law,
)
from sibling_replay.strategies.recipe import (
    ALL_AVERAGED,
    GROUP_MASS,
    GROUP_MEAN,
    LARGEST,
    SUBSET_MEAN,
    Recipe,
)
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View

_ALL = 2**29  # siblings: as many as a buffer can hold


@register
@dataclass(frozen=True, kw_only=True)
class SiblingAverage(Strategy):
    """The anchor, toward the mean target of min(K, n_g) siblings (eq. 12). Weights as SAMPLE.

    max_siblings: K; None averages the whole group, from its outcome counts.
    of: average "targets", or "residuals": the target is then Q(s_i, a) plus the mean over siblings
        j of Y_j - Q(s_j, a). That is the same where siblings share their observation; where a key
        map merges observations of unlike values, it leaves each at its own level. The learner gives
        `batch.average` the values as well, and siblings are listed one by one, not by outcome.
    update_all_siblings: refresh every sibling in the average instead of the anchor only. Where
        several averages propose a priority for one entry, the largest stays.

    `batch.outcomes` holds the outcomes to compute targets from, `batch.average` takes their means.
    TD errors of a batch of which no mean was taken are refused: the batch's own rewards and next
    observations are those of the anchors alone.

    Examples:
        >>> sampler = SlotSampler(4, SiblingAverage(alpha=1.0, max_siblings=2), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 8, 8])  # two groups
        >>> batch = sampler.sample(1)
        >>> targets = np.array([10.0, 20.0])  # of the slots in batch.outcomes, two of one group
        >>> print(batch.outcomes.slots.size, batch.average(targets))
        2 [15.]
    """

    max_siblings: int | None = None
    update_all_siblings: bool = False
    of: str = "targets"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_siblings is not None:
            if isinstance(self.max_siblings, bool):
                raise TypeError(
                    f"max_siblings must be a whole number or None, not {self.max_siblings!r}"
                )
            object.__setattr__(self, "max_siblings", operator.index(self.max_siblings))
            if self.max_siblings < 1:
                raise ValueError(f"max_siblings must be at least 1, got {self.max_siblings}")
        if self.of not in ("targets", "residuals"):
            raise ValueError(f"of must be one of targets, residuals, not {self.of!r}")
        if not isinstance(self.update_all_siblings, bool):
            raise TypeError(
                f"update_all_siblings must be True or False, not {self.update_all_siblings!r}"
            )

    @property
    def needs(self) -> Needs:
        counts = self.max_siblings is None and self.of == "targets"
        residuals = self.of == "residuals"
        return Needs(
            groups=True, outcomes=counts, other_outcomes=True, averages=True, residuals=residuals
        )

    @property
    def recipe(self) -> Recipe:
        return Recipe(
            trained=GROUP_MEAN if self.needs.outcomes else SUBSET_MEAN,
            weights=GROUP_MASS,
            refreshed=ALL_AVERAGED if self.update_all_siblings else LARGEST,
            subset=0 if self.needs.outcomes else self.max_siblings or _ALL,
        )

    def law(self, view: View, size: int) -> Law:
        anchor = prioritized_law(view)
        return Law(anchor, anchor, sibling_law(view))

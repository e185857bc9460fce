"""Priorities of groups, in a tree over groups: siblings are uniform, whatever the score."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.strategies.api import Draw, Needs, Refresh, Signals, Strategy, Terms, Values
from sibling_replay.strategies.drawing import group_chances, slots_by_group
from sibling_replay.strategies.group_scores import (
    SCORES,
    refuse_initial,
    scores_of,
    sums_after,
    sums_of,
)
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View

TRAINS = ("sibling", "average")


@register
@dataclass(frozen=True, kw_only=True)
class GroupPrioritized(Strategy):
    """Group g by its leaf M_g = n_g^kappa v_g^alpha, then a uniform sibling: slot j with
    probability M_g / (Z n_g), weight (Z n_g / (N M_g))^beta. kappa = 1 and alpha = 0 is uniform
    replay, kappa = alpha = 0 is `Stratified`.

    score: v_g, from the last TD errors of the group's members that have one, plus epsilon.
        "mean": |mean|. "neyman": their root mean square, which gives the unbiased gradient (beta =
        1) the least second moment. "relo": the root of what the target network leaves of mean^2
        (signal `target_error`). "shrunk": the root of mean^2 less the variance of the mean; groups
        with few errors lean on the variance of the others at hand.
    rescore_every: refreshes after which all groups are scored from their members' last targets and
        the learner's present values (`buffer.use_values`); 0: only when a group is replayed, which
        leaves the scores of the others stale.
    trains: the "sibling" toward its own target, or toward the "average" over k siblings (None: the
        whole group). TD errors are then those of the averages.

    Examples:
        >>> sampler = SlotSampler(4, GroupPrioritized(score="neyman"), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 7, 8])  # groups of three and of one
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.25 0.25 0.25 0.25]
    """

    alpha: float = 1.0
    kappa: float = 1.0
    score: str = "mean"
    rescore_every: int = 0
    trains: str = "sibling"
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_initial(self)
        for name, choices in (("score", SCORES), ("trains", TRAINS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        if not 0.0 <= self.kappa < math.inf:
            raise ValueError(f"kappa must be finite and not negative, got {self.kappa}")
        if operator.index(self.rescore_every) < 0:
            raise ValueError(f"rescore_every must not be negative, got {self.rescore_every}")
        if self.k is not None and operator.index(self.k) < 1:
            raise ValueError(f"k must be at least 1, or None, got {self.k}")
        if self.k is not None and self.trains == "sibling":
            raise ValueError(f'k={self.k} siblings are averaged: give trains="average" as well')
        if self.score == "relo" and self.rescore_every:
            raise ValueError(
                'score="relo" cannot be rescored: that would take present values of the target '
                "network, which no learner gives; leave rescore_every at 0"
            )

    @property
    def needs(self) -> Needs:
        averages = self.trains == "average"
        signals = ("target",) if self.rescore_every else ()
        if self.score == "relo":
            signals = ("target_error",)
        return Needs(
            groups=True,
            signed=True,
            averages=averages,
            other_outcomes=averages,
            outcomes=averages and self.k is None,
            signals=signals,
            columns=dict.fromkeys(("error", *signals), np.nan),
            scores=True,
            kappa=self.kappa,
            sweep=self.rescore_every,
            values=self.rescore_every > 0,
        )

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        groups, slots = slots_by_group(view, size, stream)
        weights = self.importance_weights(view, group_chances(view, groups), beta)
        terms = None
        if self.trains == "average":
            k = self.k
            terms = Terms(
                *(view.outcomes(groups) if k is None else view.subsets(groups, k, stream))
            )
        return Draw(slots=slots, weights=weights, terms=terms)

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh:
        sums = sums_after(view, "error", draw.slots, td_errors)
        beyond = None
        if self.score == "relo":
            beyond = sums_after(view, "target_error", draw.slots, signals["target_error"])
        columns = {"error": td_errors, **signals}
        scores = scores_of(self.score, sums, beyond) + self.epsilon
        return Refresh(slots=draw.slots, columns=columns, groups=sums.groups, scores=scores)

    def rescore(self, view: View, values: Values | None) -> Refresh:
        if values is None:
            raise ValueError(
                f"{self.name} rescores by present values: tell the buffer once how to ask for "
                f"them, buffer.use_values(values of observations and actions)"
            )
        targets = view.column("target")[view.slots]
        known = np.isfinite(targets)
        slots = view.slots[known]
        errors = targets[known] - values(slots)
        sums = sums_of(view.groups(slots), errors)
        scores = scores_of(self.score, sums) + self.epsilon
        return Refresh(slots=slots, columns={"error": errors}, groups=sums.groups, scores=scores)

    def law(self, view: View, size: int) -> Law:
        each = group_chances(view, view.groups(view.slots))
        return Law(each, each, each)

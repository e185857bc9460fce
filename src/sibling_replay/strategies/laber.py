"""LaBER: large batch experience replay (Lahire, Geist, Rachelson 2022)."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.api import Draw, Needs, Normalize, Strategy
from sibling_replay.strategies.drawing import uniform_slots
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class LaBER(Strategy):
    """Two stages. `buffer.sample(candidates * B)` draws candidates uniformly; `buffer.select(them,
    td_errors, B)` draws B of them by their present p = |TD error| + epsilon, with weights
    mean(p) / p. No priority is stored, so none is stale, and the gradient is unbiased.

    candidates: for each entry that is trained.
    normalize: None keeps the weights; "batch" divides them by the largest of the minibatch, and
        "buffer" by the largest that any candidate could have: less variance, but biased.

    Examples:
        >>> sampler = SlotSampler(4, LaBER(candidates=2), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> many = sampler.sample(2 * 1)
        >>> batch = sampler.select(many, [0.5, 2.0], 1)  # by the present TD errors of `many`
        >>> batch.slots.size
        1
    """

    normalize: Normalize = None
    candidates: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if operator.index(self.candidates) < 1:
            raise ValueError(f"candidates must be at least 1, got {self.candidates}")

    @property
    def needs(self) -> Needs:
        return Needs(candidates=self.candidates)

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        return Draw(slots=uniform_slots(view, size, stream))

    def law(self, view: View, size: int) -> Law:
        """Of the candidates; `chances` has that of the second stage."""
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)

    def chances(self, td_errors: F64) -> F64:
        """The exact probabilities with which each of some candidates is selected."""
        priorities = np.abs(td_errors) + self.epsilon
        return np.asarray(priorities / priorities.sum())

    def select(self, td_errors: F64, size: int, stream: Stream) -> tuple[I64, F64]:
        chances = self.chances(td_errors)
        ends = np.cumsum(chances)
        targets = (np.arange(size) + stream.take(size)) * (ends[-1] / size)  # stratified
        places = np.searchsorted(ends, targets, side="right")
        weights = 1.0 / (chances.size * chances)  # mean(p) / p
        largest = {None: 1.0, "batch": weights[places].max(), "buffer": weights.max()}
        return places, weights[places] / largest[self.normalize]

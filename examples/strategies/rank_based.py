"""Rank-based prioritized replay (Schaul et al. 2016): P(i) ~ rank(i)^-alpha by |TD error|."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sibling_replay import Draw, Law, Needs, Refresh, Strategy, Stream, View, register


@register
@dataclass(frozen=True, kw_only=True)
class RankBasedNumPy(Strategy):
    """The buffer keeps |TD error| by slot; every so many refreshes all entries are ranked anew."""

    alpha: float = 0.7
    every: int = 100
    name: ClassVar[str] = "rank-based-numpy"

    @property
    def needs(self) -> Needs:
        return Needs(columns={"error": np.inf}, sweep=self.every)  # newcomers rank first

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        slots = view.find((np.arange(size) + stream.take(size)) * (view.total / size))
        weights = self.importance_weights(view, view.masses[slots] / view.total, beta)
        return Draw(slots=slots, weights=weights)

    def refresh(self, view: View, draw: Draw, td_errors: Any, signals: Any) -> Refresh:
        return Refresh(slots=draw.slots, columns={"error": np.abs(td_errors)})

    def rescore(self, view: View, values: Any) -> Refresh:
        ranked = view.slots[np.argsort(-view.column("error")[view.slots], kind="stable")]
        return Refresh(slots=ranked, priorities=1.0 / np.arange(1, ranked.size + 1))

    def law(self, view: View, size: int) -> Law:
        each = view.masses[view.slots] / view.total
        return Law(anchor=each, trained=each, outcome=each)

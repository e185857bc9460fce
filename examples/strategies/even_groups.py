"""Every group equally often, then every sibling equally often, with importance weights."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sibling_replay import Draw, Law, Needs, Strategy, Stream, View, register


@register
class EvenGroups(Strategy):
    """Uniform over groups, then uniform over siblings; nothing is refreshed.

    Entry j of group g has probability 1 / (G n_g), so its weight is (N / (G n_g))^-beta.
    """

    name: ClassVar[str] = "even-groups"
    needs = Needs(groups=True)

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        known = view.group_ids
        groups = known[(stream.take(size) * known.size).astype(np.int64)]
        probabilities = 1.0 / (known.size * view.group_sizes(groups))
        return Draw(
            slots=view.pick(groups, stream.take(size)),
            weights=self.importance_weights(view, probabilities, beta),
        )

    def law(self, view: View, size: int) -> Law:
        sizes = view.group_sizes(view.groups(view.slots))
        each: Any = 1.0 / (view.group_ids.size * sizes)
        return Law(anchor=each, trained=each, outcome=each)

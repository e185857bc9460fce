"""AVG: the anchor, toward the mean target of its siblings."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Outcomes, Plan
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.opened import DROPPED
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.base import Strategy, refuse_invalid
from sibling_replay.strategies.draws import (
    ANCHOR_FOR_AVERAGE,
    count_outcomes,
    gather_outcomes,
    list_outcomes,
    list_subsets,
)
from sibling_replay.strategies.laws import (
    Law,
    prioritized_probabilities,
    sibling_probabilities,
)
from sibling_replay.strategies.refresh import first_invalid, list_members, refresh_slots


@dataclass(frozen=True, kw_only=True)
class SiblingAverage(Strategy):
    """The anchor, toward the mean target of min(K, n_g) siblings (eq. 12). Weights as SAMPLE.

    max_siblings: K; None averages the whole group, from its outcome counts.
    update_all_siblings: refresh every sibling in the average instead of the anchor only. Where
        several averages propose a priority for one entry, the largest stays.

    `batch.outcomes` holds the outcomes to compute targets from, `batch.average` takes their means.
    TD errors of a batch of which no mean was taken are refused: the batch's own rewards and next
    observations are those of the anchors alone.
    """

    max_siblings: int | None = None
    update_all_siblings: bool = False

    needs_groups: ClassVar[bool] = True
    borrows_outcomes: ClassVar[bool] = True
    _trained: ClassVar[int] = ANCHOR_FOR_AVERAGE

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
        if not isinstance(self.update_all_siblings, bool):
            raise TypeError(
                f"update_all_siblings must be True or False, not {self.update_all_siblings!r}"
            )

    @property
    def needs_outcomes(self) -> bool:
        return self.max_siblings is None

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        batch = super().draw(memory, size, beta, uniforms)
        starts = np.empty(size + 1, dtype=np.int64)
        if self.max_siblings is None:
            count_outcomes(memory.handle, batch.groups, starts)
            slots = np.empty(starts[-1], dtype=np.int64)
            shares = np.empty(starts[-1])
            list_outcomes(memory.handle, batch.groups, starts, slots, shares)
        else:
            wanted = min(self.max_siblings, int(batch.group_sizes.max()))
            slots = np.empty(size * wanted, dtype=np.int64)
            shares = np.empty(size * wanted)
            found = list_subsets(
                memory.handle,
                batch.groups,
                starts,
                uniforms.take(size * wanted),
                wanted,
                slots,
                shares,
            )
            slots, shares = slots[:found], shares[:found]
        columns, size_bytes = memory.layout.columns(slots.size, outcomes_only=True)
        remembered = None
        if self.update_all_siblings and self.max_siblings is None:  # groups, of so many members
            remembered = batch.groups.copy(), batch.group_sizes.copy()
        elif self.update_all_siblings:  # siblings, so many an entry
            remembered = slots.copy(), np.diff(starts)
        plan = Plan(columns, slots.size, size_bytes)
        outcomes = Outcomes(plan, slots, shares, starts, remembered)
        gather_outcomes(memory.handle, slots, outcomes.block)
        batch.set_outcomes(outcomes)
        return batch

    def refresh(self, memory: Memory, batch: Batch, errors: F64) -> None:
        invalid = first_invalid(errors)
        if invalid >= 0:
            refuse_invalid(batch, errors, invalid)
        outcomes = batch.outcomes
        if isinstance(outcomes, Outcomes) and not outcomes.averaged:
            raise ValueError(
                "no mean was taken of this batch's outcomes, so these TD errors cannot be those of "
                "SiblingAverage: compute targets from the rows of `batch.outcomes` (not from "
                "`batch.reward` and `batch.next_obs`) and pass them through `batch.average`. "
                "No priority was changed."
            )
        slots, proposed = batch.slots, np.abs(errors)
        if isinstance(outcomes, Outcomes) and outcomes.remembered is not None:
            slots, proposed = self._all_siblings(memory, outcomes.remembered, proposed, batch.added)
        # The last assignment stays, so in rising order the largest does.
        order = np.argsort(proposed, kind="stable")
        invalid = refresh_slots(
            memory.handle,
            slots[order],
            proposed[order],
            batch.added,
            self.alpha,
            self.epsilon,
        )
        if invalid != -1:
            raise ValueError(f"slot {slots[order][-2 - invalid]} of the batch holds no entry")

    def _all_siblings(
        self, memory: Memory, remembered: tuple[I64, I64], errors: F64, added: int
    ) -> tuple[I64, F64]:
        """The siblings that were averaged after `added` additions, and the size of an error for
        each."""
        if self.max_siblings is not None:
            slots, counts = remembered
            return slots, np.repeat(errors, counts)
        groups, first, place = np.unique(remembered[0], return_index=True, return_inverse=True)
        largest = np.zeros(groups.size)
        np.maximum.at(largest, place, errors)
        slots, of_group = list_members(memory.handle, groups, added)
        memory.counts[DROPPED] += remembered[1][first].sum() - slots.size
        return slots, largest[of_group]

    def law(self, masses: F64, groups: I64) -> Law:
        anchor = prioritized_probabilities(masses)
        return Law(anchor, anchor, sibling_probabilities(masses, groups))

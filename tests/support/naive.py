"""A replay buffer in plain lists and dictionaries: the paper's text, line by line, and slow."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform


@dataclass
class Entry:
    serial: int  # how many entries were added before it
    key: tuple
    outcome: tuple
    priority: float


class NaiveBuffer:
    """Same rules, other structures: nothing is kept that can be computed from the entries."""

    def __init__(self, strategy, capacity: int) -> None:
        self.strategy = strategy
        self.capacity = capacity
        self.entries: dict[int, Entry] = {}  # by slot; laws are lists in the order of slots
        self.added = 0
        self.max_priority = 1.0
        self.dropped = 0

    def add(self, obs, action, reward, next_obs, terminated, truncated) -> None:
        """Into the next slot of a ring."""
        self.put(
            self.added % self.capacity,
            (int(obs), int(action)),
            (float(np.float32(reward)), int(next_obs), bool(terminated), bool(truncated)),
        )

    def put(self, slot: int, key: tuple, outcome: tuple) -> None:
        """Into any slot."""
        self.entries[slot] = Entry(self.added, key, outcome, self.max_priority)
        self.entries = dict(sorted(self.entries.items()))
        self.added += 1

    def remove(self, slot: int) -> None:
        del self.entries[slot]
        self.added += 1  # what was drawn before is older than what is put next

    # ----------------------------------------------------------------- study

    def masses(self) -> list[float]:
        return [entry.priority**self.strategy.alpha for entry in self.entries.values()]

    def members(self) -> dict[tuple, list[int]]:
        found = defaultdict(list)
        for slot, entry in self.entries.items():
            found[entry.key].append(slot)
        return dict(found)

    def outcome_counts(self) -> dict[tuple, Counter]:
        found = defaultdict(Counter)
        for entry in self.entries.values():
            found[entry.key][entry.outcome] += 1
        return dict(found)

    def group_mass(self, key) -> float:
        masses = self._by_slot(self.masses())
        return math.fsum(masses[slot] for slot in self.members()[key])

    def _by_slot(self, values) -> dict[int, float]:
        return dict(zip(self.entries, values, strict=True))

    def anchor_law(self) -> list[float]:
        if isinstance(self.strategy, Uniform):
            return [1.0 / len(self.entries)] * len(self.entries)
        masses = self.masses()
        total = math.fsum(masses)
        return [mass / total for mass in masses]

    def sibling_law(self) -> list[float]:
        """Slot j by any of its siblings as anchor: sum over i in I(g) of u_i / S * 1 / n_g."""
        anchor = self._by_slot(self.anchor_law())
        members = self.members()
        return [
            math.fsum(anchor[i] for i in members[entry.key]) / len(members[entry.key])
            for entry in self.entries.values()
        ]

    def trained_law(self) -> list[float]:
        sample = isinstance(self.strategy, SiblingSample)
        return self.sibling_law() if sample else self.anchor_law()

    def outcome_law(self) -> list[float]:
        plain = isinstance(self.strategy, (Uniform, Prioritized))
        return self.anchor_law() if plain else self.sibling_law()

    def unnormalized_weight(self, slot: int, beta: float) -> float:
        """(N P(j))^-beta with the law of the group for the sibling strategies (eq. 9)."""
        if isinstance(self.strategy, Uniform):
            return 1.0
        plain = isinstance(self.strategy, Prioritized)
        law = self.anchor_law() if plain else self.sibling_law()
        return (len(self.entries) * self._by_slot(law)[slot]) ** -beta

    def weights(self, slots, beta: float) -> list[float]:
        weights = [self.unnormalized_weight(slot, beta) for slot in slots]
        largest = {
            None: 1.0,
            "batch": max(weights),
            "buffer": max(self.unnormalized_weight(s, beta) for s in self.entries),
        }[self.strategy.normalize]
        return [weight / largest for weight in weights]

    def uniforms_used(self, batch) -> int:
        """How many random numbers a draw takes: B, and what its siblings need."""
        size = batch.size
        if isinstance(self.strategy, (SiblingSample, SiblingModel)):
            return 2 * size
        if isinstance(self.strategy, SiblingAverage) and self.strategy.max_siblings is not None:
            fits = self.strategy.max_siblings >= self.capacity  # every group is taken whole
            return size if fits else size + size * self.strategy.max_siblings
        return size

    # --------------------------------------------------------------- refresh

    def note(self, batch) -> NaiveBatch:
        """What must be remembered of a batch to refresh it later."""
        serials = {slot: entry.serial for slot, entry in self.entries.items()}
        used = None
        if isinstance(self.strategy, SiblingAverage):
            if self.strategy.max_siblings is None:
                members = self.members()
                used = [list(members[self.entries[a].key]) for a in batch.anchors]
            else:
                starts = batch.outcomes.starts
                used = [
                    batch.outcomes.slots[low:high].tolist()
                    for low, high in itertools.pairwise(starts)
                ]
        return NaiveBatch(batch.slots.tolist(), batch.anchors.tolist(), used, serials)

    def refresh(self, noted: NaiveBatch, errors) -> None:
        if isinstance(self.strategy, Uniform):
            return
        proposals: list[tuple[int, float]] = []
        if isinstance(self.strategy, SiblingAverage):
            for anchor, used, error in zip(noted.anchors, noted.used, errors, strict=True):
                for slot in used if self.strategy.update_all_siblings else [anchor]:
                    proposals.append((slot, float(error)))
        else:  # the trained slot: the sibling for SAMPLE, the anchor for PER and MODEL
            proposals = list(zip(noted.slots, map(float, errors), strict=True))
        best: dict[int, float] = {}
        gone: list[int] = []
        for slot, error in proposals:
            if slot not in self.entries or self.entries[slot].serial != noted.serials[slot]:
                gone.append(slot)
                continue
            priority = error + self.strategy.epsilon
            if isinstance(self.strategy, SiblingAverage) and slot in best:
                priority = max(priority, best[slot])
            best[slot] = priority
            self.max_priority = max(self.max_priority, priority)
        for slot, priority in best.items():
            self.entries[slot].priority = priority
        # A whole group has one update, the largest, however often it was drawn.
        whole = isinstance(self.strategy, SiblingAverage) and self.strategy.max_siblings is None
        whole = whole and self.strategy.update_all_siblings
        self.dropped += len(set(gone)) if whole else len(gone)


@dataclass
class NaiveBatch:
    slots: list[int]
    anchors: list[int]
    used: list[list[int]] | None
    serials: dict[int, int]

"""A buffer or slot sampler beside plain records of what it must hold, given the same operations."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.replay.payload import Field
from sibling_replay.slot_sampler import SlotSampler
from sibling_replay.strategies import Strategy
from sibling_replay.strategies.view import View
from sibling_replay.testing.records import (
    Entry,
    MakeSignals,
    NaiveRefresh,
    NaiveRule,
    NaiveSweep,
    Row,
    Update,
)

MASS_TOLERANCE = 1e-11  # powers are computed in another way than Python's: 1e-14 each

FIELDS = {
    "obs": Field(np.dtype(np.int64)),
    "action": Field(np.dtype(np.int64)),
    "reward": Field(np.dtype(np.float32)),
    "next_obs": Field(np.dtype(np.int64)),
    "terminated": Field(np.dtype(np.bool_)),
    "truncated": Field(np.dtype(np.bool_)),
}


@dataclass
class _Held:
    serial: int  # the clock when it was added
    key: int
    outcome: int
    mass: float
    columns: dict[str, float]


@dataclass(frozen=True)
class DrawnBatch:
    """A batch and what must be remembered of it to refresh it later."""

    batch: Batch
    rows: list[Row]  # with TD errors still to come
    serials: dict[int, int]  # of all that lived


class _Forgetful:
    """A rule of two functions, which remembers nothing."""

    def __init__(self, refresh: NaiveRefresh, sweep: NaiveSweep | None) -> None:
        self.refresh: NaiveRefresh = refresh
        self.sweep: NaiveSweep = (lambda entries: ()) if sweep is None else sweep


class Twin(ABC):
    """The container and the records. What newcomers start with is taken over from the container,
    except a mass or score that is to be the largest ever; what refreshes and sweeps do is computed
    here, by the naive statements of them."""

    container: ClassVar[str]
    sampling: Any

    def __init__(
        self,
        strategy: Strategy,
        capacity: int,
        refresh: NaiveRefresh | type[NaiveRule],
        sweep: NaiveSweep | None,
        signals: MakeSignals | None,
        seed: int,
    ) -> None:
        self.strategy, self.capacity = strategy, capacity
        self._rule = refresh() if isinstance(refresh, type) else _Forgetful(refresh, sweep)
        self._make_signals = signals
        self._held: dict[int, _Held] = {}
        self._scores: dict[int, float] = {}  # of every key that lives
        self._largest, self._largest_score = 1.0, 1.0
        self._refreshes = 0
        self._clock = 0
        self._dropped = 0
        self._rng = np.random.default_rng([seed, 7])
        self.sampling = self.new_sampling(seed)

    @abstractmethod
    def new_sampling(self, seed: int) -> Any:
        """An empty container."""

    @abstractmethod
    def masses(self) -> F64:
        """[capacity] as the container states them, 0 where it is empty."""

    def columns(self) -> dict[str, F64]:
        """[capacity] each, what the strategy has noted by slot."""
        view = View(self.sampling._memory)
        return {name: view.column(name) for name in self.strategy.needs.columns}

    def scores(self) -> F64:
        """[capacity] the score of each entry's group."""
        view = View(self.sampling._memory)
        found = np.zeros(self.capacity)
        found[self.slots] = view.scores(view.groups(np.array(self.slots)))
        return found

    @abstractmethod
    def probabilities(self, size: int) -> list[F64]:
        """The three laws over the live slots, as the container states them."""

    @abstractmethod
    def _store(self, keys: I64, outcomes: I64) -> list[int]:
        """Add entries to the container. Returns their slots."""

    def remove(self, count: int) -> None:
        """Empty a few slots, where the container can."""
        return

    def beside(self, sampling: Any) -> Twin:
        """The same records beside another container."""
        other = copy.copy(self)
        other._held, other._scores = copy.deepcopy(self._held), dict(self._scores)
        other._rng = copy.deepcopy(self._rng)
        other._rule = copy.deepcopy(self._rule)
        other.sampling = sampling
        return other

    # ------------------------------------------------------------------ operations

    def add(self, keys: Any, outcomes: Any) -> None:
        """Add entries given by a key number and an outcome number each."""
        keys, outcomes = np.asarray(keys, dtype=np.int64), np.asarray(outcomes, dtype=np.int64)
        slots = self._store(keys, outcomes)
        masses, columns = self.masses(), self.columns()
        for slot, key, outcome in zip(slots, keys.tolist(), outcomes.tolist(), strict=True):
            noted = {name: float(column[slot]) for name, column in columns.items()}
            self._forget(slot)
            self._held[slot] = _Held(self._clock, key, outcome, float(masses[slot]), noted)
            self._scores.setdefault(key, self._largest_score)
            self._clock += 1
        if self.strategy.initial == "largest":
            self._check_newcomers(slots)

    def _forget(self, slot: int) -> None:
        """An entry goes, and with the last of a group its score."""
        gone = self._held.pop(slot, None)
        if gone is not None and all(held.key != gone.key for held in self._held.values()):
            del self._scores[gone.key]

    def _check_newcomers(self, slots: list[int]) -> None:
        expected = self._largest**self.strategy.alpha
        for slot in slots:
            found = self._held[slot].mass
            if abs(found - expected) > MASS_TOLERANCE * expected:
                raise AssertionError(
                    f"newcomer {slot} has mass {found:.6g}, expected {expected:.6g}, that of the "
                    f"largest priority so far"
                )

    def draw(self, size: int, beta: float = 0.4) -> DrawnBatch:
        """Draw a batch, to be refreshed later."""
        batch = self.sampling.sample(size, beta)
        members: dict[int, list[int]] = {}
        for slot, held in sorted(self._held.items()):
            members.setdefault(held.key, []).append(slot)
        found = batch.outcomes
        rows = []
        for b in range(size):
            slot, anchor, source = (
                int(column[b]) for column in (batch.slots, batch.anchors, batch.outcome_slots)
            )
            terms: tuple[int, ...] = (source,)
            if isinstance(found, Outcomes):
                terms = tuple(found.slots[found.starts[b] : found.starts[b + 1]].tolist())
            siblings = tuple(members[self._held[anchor].key])
            rows.append(Row(slot, anchor, source, terms, siblings, np.nan, {}))
        return DrawnBatch(batch, rows, {slot: held.serial for slot, held in self._held.items()})

    def errors(self, rng: np.random.Generator, size: int) -> F64:
        """TD errors of either sign over several orders of magnitude, a few of them zero."""
        errors: F64 = np.exp(rng.standard_normal(size)) * rng.choice([-1.0, 1.0], size)
        errors[rng.random(size) < 0.05] = 0.0
        return errors

    def signals(self, rng: np.random.Generator, size: int) -> dict[str, F64]:
        """The signals that the strategy needs."""
        if self._make_signals is not None:
            made = self._make_signals(rng, size)
            return {name: np.asarray(values, dtype=np.float64) for name, values in made.items()}
        return {name: rng.standard_normal(size) for name in self.strategy.needs.signals}

    def update(self, drawn: DrawnBatch, errors: F64, signals: Mapping[str, F64]) -> None:
        """Refresh the container alone, as a learner does: means first, then TD errors."""
        none = np.zeros(drawn.batch.outcomes.size)
        drawn.batch.average(none, np.zeros(drawn.batch.size), none)
        self.sampling.update_priorities(drawn.batch, errors, **signals)

    def refresh(self, drawn: DrawnBatch, errors: F64, signals: Mapping[str, F64]) -> None:
        """Refresh the container and the records, and compare them."""
        self.update(drawn, errors, signals)
        rows = [
            row._replace(
                td_error=float(errors[b]),
                signals={name: float(values[b]) for name, values in signals.items()},
            )
            for b, row in enumerate(drawn.rows)
        ]

        def gone(slot: int) -> bool:
            return slot not in self._held or self._held[slot].serial != drawn.serials.get(slot)

        # A strategy in NumPy never sees rows whose trained slot has gone; compiled ones look at
        # each update by itself, so that averages still refresh siblings that are there.
        by_row = self.strategy.recipe is None
        self._refreshes += 1
        if by_row:
            current = [row for row in rows if not gone(row.slot)]
            self._dropped += len(rows) - len(current)
            rows = current
        updates = [Update(*said) for said in self._rule.refresh(self.entries, rows) if rows]
        stale = [update for update in updates if gone(update.slot)]
        self._dropped += 0 if by_row else len(stale)
        self._write(update for update in updates if not gone(update.slot))
        every = self.strategy.needs.sweep
        if every and self._refreshes % every == 0:
            self._write(Update(*said) for said in self._rule.sweep(self.entries))
        self.compare()

    def _write(self, updates: Iterable[Update]) -> None:
        for slot, priority, columns, score in updates:
            held = self._held[slot]
            if priority is not None:
                held.mass = float(priority) ** self.strategy.alpha
                self._largest = max(self._largest, float(priority))
            held.columns.update(columns)
            if score is not None:
                self._scores[held.key] = float(score)
                self._largest_score = max(self._largest_score, float(score))

    def stir(self, rng: np.random.Generator, rounds: int, size: int = 16) -> None:
        """Draw and refresh at once, several times."""
        for _ in range(rounds):
            self.refresh(self.draw(size), self.errors(rng, size), self.signals(rng, size))

    # ---------------------------------------------------------------------- records

    @property
    def entries(self) -> list[Entry]:
        """The live entries in the order of slots."""
        return [
            Entry(
                slot,
                held.mass,
                held.key,
                held.outcome,
                self._clock - 1 - held.serial,
                dict(held.columns),
                self._scores[held.key],
            )
            for slot, held in sorted(self._held.items())
        ]

    @property
    def slots(self) -> list[int]:
        return sorted(self._held)

    def serials(self) -> dict[int, int]:
        """What tells whether a slot still holds the same entry."""
        return {slot: held.serial for slot, held in self._held.items()}

    def compare(self) -> None:
        """Masses, notes and dropped updates must be those of the records."""
        held = [self._held[slot] for slot in self.slots]
        self._compare_by_slot("mass", self.masses(), [each.mass for each in held])
        for name, column in self.columns().items():
            self._compare_by_slot(f"column {name}", column, [each.columns[name] for each in held])
        if self.strategy.needs.scores:
            self._compare_by_slot("score", self.scores(), [self._scores[each.key] for each in held])
        if self.sampling.dropped_updates != self._dropped:
            raise AssertionError(
                f"{self.sampling.dropped_updates} updates were dropped as stale, "
                f"expected {self._dropped}"
            )

    def _compare_by_slot(self, what: str, found: F64, records: list[float]) -> None:
        """What the container has of every entry must be what the records have."""
        slots = self.slots
        expected = np.array(records)
        same = np.isclose(found[slots], expected, rtol=MASS_TOLERANCE, atol=0.0, equal_nan=True)
        if not same.all():
            i = int(np.argmin(same))
            raise AssertionError(
                f"after a refresh slot {slots[i]} has {what} {found[slots[i]]:.6g}, expected "
                f"{expected[i]:.6g} ({(~same).sum()} of {len(slots)} entries differ)"
            )

    def check_valid(self) -> None:
        """The container's own structures must agree with each other."""
        ok, why = self.sampling.check_valid()
        if not ok:
            raise AssertionError(f"check_valid: {why}")


class BufferTwin(Twin):
    """Beside a `ReplayBuffer`: a ring."""

    container = "ReplayBuffer"

    def new_sampling(self, seed: int) -> ReplayBuffer:
        return ReplayBuffer(FIELDS, self.capacity, self.strategy, seed=seed)

    def masses(self) -> F64:
        masses = np.zeros(self.capacity)
        masses[: len(self.sampling)] = self.sampling.masses
        return masses

    def probabilities(self, size: int) -> list[F64]:
        return list(self.sampling.probabilities(size))

    def _store(self, keys: I64, outcomes: I64) -> list[int]:
        self.sampling.extend(
            keys // 2,
            keys % 2,
            (outcomes % 5).astype(np.float32) - 2,
            outcomes,
            outcomes % 3 == 0,
            outcomes % 7 == 0,
        )
        return [(self._clock + i) % self.capacity for i in range(keys.size)]


class SamplerTwin(Twin):
    """Beside a `SlotSampler`: slots are filled in any order, and emptied."""

    container = "SlotSampler"

    def new_sampling(self, seed: int) -> SlotSampler:
        return SlotSampler(self.capacity, self.strategy, seed=seed)

    def masses(self) -> F64:
        return np.asarray(self.sampling.masses)

    def probabilities(self, size: int) -> list[F64]:
        return [part[self.slots] for part in self.sampling.probabilities(size)]

    def _store(self, keys: I64, outcomes: I64) -> list[int]:
        filled = set(self._held)
        slots: list[int] = []
        for _ in range(keys.size):
            free = [slot for slot in range(self.capacity) if slot not in filled]
            choice = free or list(range(self.capacity))
            slots.append(choice[int(self._rng.integers(len(choice)))])
            filled.add(slots[-1])
        counted = outcomes if self.strategy.needs.outcomes else None
        self.sampling.put(np.array(slots, dtype=np.int64), keys, counted)
        return slots

    def remove(self, count: int) -> None:
        slots = self._rng.choice(self.slots, min(count, len(self._held) - 1), replace=False)
        self.sampling.remove(slots)
        for slot in slots.tolist():
            self._forget(slot)
            self._clock += 1


TWINS: tuple[type[Twin], ...] = (BufferTwin, SamplerTwin)

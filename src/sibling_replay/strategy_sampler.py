"""What `ReplayBuffer` and `SlotSampler` share: draws, refreshes, laws and state of a memory."""

from __future__ import annotations

import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sibling_replay.checkpoint import (
    StateError,
    compare_headers,
    fill_arrays,
    restored_uniforms,
)
from sibling_replay.draw_statistics import DrawStatistics
from sibling_replay.grouping.support import Support, support_of_groups
from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.memory_view import DROPPED, MAX_PRIORITY
from sibling_replay.rng import Uniforms
from sibling_replay.staging import (
    importance_exponent,
    signal_as_array,
    td_errors_as_array,
    whole_number,
)
from sibling_replay.strategies import Law, Strategy, View
from sibling_replay.strategies.guard import checked_law
from sibling_replay.strategies.recipe import GROUP_MEAN
from sibling_replay.strategies.registry import require_strategy
from sibling_replay.strategies.replay_by import replay_by
from sibling_replay.strategies.scripted import ScriptedReplay

_LARGEST_CAPACITY = 2**29  # the pool of group members is indexed by 32-bit integers
_LARGEST_BATCH_BYTES = 2**31 - 1  # of a NumPy record
_NO_SIGNALS: dict[str, F64] = {}
_PATIENCE = 100  # batches of a strategy of two stages without the second, before a word


class StrategySampler(ABC):
    """Entries of a memory, drawn by a strategy, with a random stream of its own.

    For one thread at a time: threads that share one need a lock around every call.
    """

    def __init__(self, capacity: int, strategy: Strategy) -> None:
        require_strategy(strategy)
        capacity = whole_number("capacity", capacity)
        if not 1 <= capacity <= _LARGEST_CAPACITY:
            raise ValueError(f"capacity must be from 1 to {_LARGEST_CAPACITY}, got {capacity}")
        self.capacity = capacity
        self.strategy = strategy
        self._awaited = strategy.needs.signals
        self._replay = replay_by(strategy, capacity)
        self._statistics = DrawStatistics(strategy.name, warn=strategy.needs.groups)
        self._unseen = 1  # batches until the statistics look at one again
        # refreshes before the first `select`, of a strategy that has one; None once there was one
        self._unselected = 0 if strategy.needs.candidates else None

    @abstractmethod
    def _new_memory(self) -> Memory:
        """An empty memory of the right form."""

    @abstractmethod
    def _header(self) -> dict[str, Any]:
        """What a state must agree with, as plain data, and the random stream."""

    def _use(self, memory: Memory, uniforms: Uniforms) -> None:
        """Take over a memory and a random stream. Batches drawn from another memory are refused."""
        self._memory = memory
        self._source = weakref.ref(memory)
        self._earlier: tuple[object, ...] = ()  # of memories with these entries in other groups
        self._uniforms = uniforms
        self._filled = False  # known to hold an entry
        self._largest_batch = _LARGEST_BATCH_BYTES // memory.new_batch(1).plan.dtype.itemsize

    def _use_regrouped(self, memory: Memory) -> None:
        """Go on with a memory that has the same entries in other groups. Batches drawn before are
        still good."""
        earlier = (*self._earlier, self._source)
        self._use(memory, self._uniforms)
        self._earlier = earlier

    def sample(self, batch_size: int, beta: float = 0.4) -> Batch:
        """Draw a minibatch by the strategy, with importance weights of exponent beta."""
        if type(beta) is not float or not 0.0 <= beta <= 1.0:
            beta = importance_exponent(beta)
        if type(batch_size) is not int:
            batch_size = whole_number("batch_size", batch_size)
        if not self._filled and len(self) == 0:
            raise ValueError("cannot sample from an empty buffer")
        self._filled = True
        if not 1 <= batch_size <= self._largest_batch:
            raise ValueError(
                f"batch_size must be from 1 to {self._largest_batch}, got {batch_size}"
            )
        batch = self._replay.draw(self._memory, batch_size, beta, self._uniforms)
        self._unseen -= 1
        if self._unseen == 0:
            self._unseen = self._statistics.look(batch, self._memory, self.capacity)
        return batch

    def select(self, candidates: Batch, td_errors: ArrayLike, batch_size: int) -> Batch:
        """The second stage of a strategy that has one (`LaBER`): a minibatch, with weights, from a
        larger one that `sample` gave, by the TD errors that its entries have now.

            many = buffer.sample(4 * 32)
            batch = buffer.select(many, td_errors_of(many), 32)
        """
        if not self.strategy.needs.candidates:
            raise TypeError(f"{self.strategy.name} draws in one stage: there is nothing to select")
        if type(candidates) is not Batch:
            raise TypeError(f"expected the batch to select from, not {candidates!r}")
        if candidates.plan.source is not self._source:
            raise ValueError("this batch was not drawn from this buffer as it is now")
        size = whole_number("batch_size", batch_size)
        if not 1 <= size <= self._largest_batch:
            raise ValueError(f"batch_size must be from 1 to {self._largest_batch}, got {size}")
        errors = td_errors_as_array(td_errors, candidates.plan.shape)
        assert isinstance(self._replay, ScriptedReplay)
        self._unselected = None
        return self._replay.select(self._memory, candidates, errors, size, self._uniforms)

    def draw_statistics(self) -> dict[str, float]:
        """Of recent draws, from some of the batches:

        draws_with_siblings: the share whose group has more than one member. Where it is near zero,
            the sibling strategies do what Prioritized does, and a `UserWarning` says so once.
        group_size: the mean size of their groups.

        NaN before the first draw; 0 and 1 in a buffer without groups.
        """
        return self._statistics.means()

    def support(self) -> Support:
        """How well the groups are filled: how many there are, entries of the median one, what makes
        them and why. Where nearly every entry is alone, or nearly all are in one group, the sibling
        strategies correct nothing."""
        if not self._memory.grouped:
            raise ValueError(
                f"{self.strategy.name} draws without groups, so this buffer keeps none: make it "
                'with a key, such as key="exact"'
            )
        groups = self._memory.index.items[0, self._memory.live_slots]
        return support_of_groups(groups, *self._words_of_key())

    def _words_of_key(self) -> tuple[str, str]:
        """What makes siblings, and why that, where it is known."""
        return "", ""

    def update_priorities(self, batch: Batch, td_errors: ArrayLike, **signals: ArrayLike) -> None:
        """Refresh priorities with the TD errors: target minus value, of either sign, from before
        the optimizer step and before weighting.

        Which entries are refreshed is the strategy's rule. Entries overwritten since the batch was
        drawn are skipped and counted in `dropped_updates`.

        signals: what else the strategy needs to know of each row (`strategy.needs.signals`).
        """
        if type(batch) is not Batch:
            raise TypeError(f"expected the batch that the TD errors are of, not {batch!r}")
        plan = batch.plan
        if plan.source is not self._source:
            self._accept_earlier(batch)
        given = td_errors_as_array(td_errors, plan.shape)
        noted = self._signals(signals, plan.shape) if signals or self._awaited else _NO_SIGNALS
        self._replay.refresh(self._memory, batch, given, noted)
        if self._unselected is not None:
            self._unselected += 1
            if self._unselected == _PATIENCE:
                warnings.warn(
                    f"{_PATIENCE} batches came back and none was selected: {self.strategy.name} "
                    f"has two stages, and without the second this is uniform replay: "
                    f"batch = buffer.select(candidates, td_errors, batch_size)",
                    stacklevel=2,
                )

    def _accept_earlier(self, batch: Batch) -> None:
        """Refuse a batch of another memory, unless that had the same entries in other groups."""
        if not any(batch.plan.source is source for source in self._earlier):
            raise ValueError("this batch was not drawn from this buffer as it is now")
        recipe, outcomes = self.strategy.recipe, batch.outcomes
        if isinstance(outcomes, Outcomes) and recipe is not None and recipe.trained == GROUP_MEAN:
            outcomes.remembered = None  # groups that are no more: the trained slots are refreshed

    def _signals(self, given: Mapping[str, ArrayLike], shape: tuple[int, ...]) -> dict[str, F64]:
        """The signals as arrays, or an error that names what is missing, unknown or unfit."""
        missing = [name for name in self._awaited if name not in given]
        unknown = [name for name in given if name not in self._awaited]
        if missing or unknown:
            raise TypeError(
                f"{self.strategy.name} needs the signals {list(self._awaited)} beside TD errors: "
                f"missing {missing}, unknown {unknown}. No priority was changed"
            )
        return {name: signal_as_array(name, given[name], shape) for name in given}

    def probabilities(self, batch_size: int = 1) -> Law:
        """The exact probabilities of a row of the next batch over the live slots, in O(N).

        The batch's size matters to strategies that treat its rows differently, as `Combined` does.
        """
        if len(self) == 0:
            raise ValueError("an empty buffer has no probabilities")
        return checked_law(self.strategy, View(self._memory), batch_size)

    def __len__(self) -> int:
        return self._memory.live

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.holding}, {self.strategy}>"

    @property
    def holding(self) -> str:
        """In words: entries and, where it keeps them, groups and groups per entry."""
        held = f"{len(self):,} of {self.capacity:,} entries"
        if self._memory.grouped:
            groups = np.count_nonzero(self._memory.index.vec[:, 0])
            held += f" in {groups:,} groups"
            held += f" (G/N {groups / len(self):.4f})" if len(self) else ""
        return held

    @property
    def masses(self) -> F64:
        """priority^alpha of the live slots (a copy)."""
        return np.array(self._memory.masses)

    @property
    def groups(self) -> I64:
        """The group of each live slot; -1 where the buffer keeps none."""
        if not self._memory.grouped:
            return np.full(len(self), -1, dtype=np.int64)
        return self._memory.groups

    @property
    def max_priority(self) -> float:
        """The largest raw priority ever assigned: what a new entry gets, unless the strategy's
        `initial` says otherwise."""
        return float(self._memory.peaks[MAX_PRIORITY])

    @property
    def dropped_updates(self) -> int:
        """Priority updates that came after their entry had been overwritten."""
        return int(self._memory.counts[DROPPED])

    def check_valid(self) -> tuple[bool, str]:
        """Whether all stored structures agree, and if not, which does not."""
        ok, why = self._memory.check_valid()
        return (ok, why) if not ok else self._uniforms.check_valid()

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to continue bit for bit: a header and arrays."""
        return {
            "header": self._header(),
            **{name: array.copy() for name, array in self._memory.arrays().items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves the buffer as it is."""
        if not isinstance(state, Mapping) or not isinstance(state.get("header"), Mapping):
            raise StateError("a state needs a header")
        arrays = {name: array for name, array in state.items() if name != "header"}
        self._restore(state["header"], arrays, self._new_memory())

    def _restore(self, header: Mapping[str, Any], arrays: dict[str, Any], memory: Memory) -> None:
        """Continue from a state's arrays, which it takes over, in a memory that is not in use."""
        compare_headers(header, self._header())
        restored = self._filled_memory(header, arrays, memory)
        self._use(restored, restored_uniforms(header.get("uniforms")))

    def _filled_memory(
        self, header: Mapping[str, Any], arrays: dict[str, Any], memory: Memory
    ) -> Memory:
        """The memory in a state: the given one, filled."""
        return fill_memory(memory, arrays)


def fill_memory(memory: Memory, arrays: dict[str, Any]) -> Memory:
    """Fill a memory with the arrays of a state, which must agree with each other."""
    fill_arrays(memory.arrays(), arrays)
    ok, why = memory.check_valid()
    if not ok:
        raise StateError(f"the state contradicts itself: {why}")
    return memory

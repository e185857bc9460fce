"""What adapters to hosts with a storage of their own share: keys, draws and their refreshes.

Such a host reads the slots it is told to, computes each target itself from the one outcome in the
slot, and comes back with TD errors for slots. So a draw is remembered until its errors come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from sibling_replay.checkpoint import KEYS_WITHOUT_ACTION, StateError
from sibling_replay.replay.arrays import F32, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.schema import KeyFunction
from sibling_replay.slot_sampler import SlotSampler, key_rows
from sibling_replay.strategies import SiblingAverage, SiblingModel, Strategy

_OTHER_KEYS = (
    "either the key function returns other shapes than before, or the state was saved before "
    "actions were added to the results of key functions. Such a state cannot be continued: start "
    "with an empty buffer"
)
_MOST_OPEN = 32  # draws remembered: a host that prefetches is some draws ahead of its errors


class HostReplay:
    """A slot sampler that is told observations and actions, and refreshed by slots.

    key: key(obs, action) -> integer or array; entries with equal results and equal action are
        siblings (see `ReplayBuffer`). By default equal observation and action. It is called once
        an entry.
    """

    def __init__(
        self,
        host: str,
        capacity: int,
        strategy: Strategy,
        key: KeyFunction | None = None,
        seed: Any = None,
    ) -> None:
        if isinstance(strategy, SiblingAverage):
            raise ValueError(
                f"{host} computes each target itself, from one outcome; SiblingAverage needs the "
                f"mean over several. Use SiblingSample or SiblingModel, which have the same mean"
            )
        if isinstance(strategy, SiblingModel) and key is not None:
            raise ValueError(
                f"{host} reads observation, action and outcome of one slot; SiblingModel with a "
                f"key function pairs those of different slots. Use it without one, or SiblingSample"
            )
        self._arguments = (host, capacity, strategy, key, seed)
        self._host, self._capacity, self.strategy, self._key, self._seed = self._arguments
        self.sampler: SlotSampler | None = None  # made when the form of the keys is known
        self._open: deque[Batch] = deque(maxlen=_MOST_OPEN)
        if not strategy.needs_groups:
            self.sampler = self._new_sampler(0)

    @property
    def exact(self) -> bool:
        """Whether siblings are entries with equal observation and action."""
        return self._key is None

    def put(self, slots: I64, obs: Any, actions: Any) -> None:
        """The host has written these slots; a row of observations and actions for each."""
        if not self.strategy.needs_groups:
            keys = None
        elif self._key is None:
            keys = key_rows(obs, actions)
        else:
            found = [self._key(obs[i], actions[i]) for i in range(len(slots))]
            keys = key_rows(np.asarray(found), actions)  # siblings always share their action
        if self.sampler is None:
            assert keys is not None
            self.sampler = self._new_sampler(keys.shape[1])
        if keys is not None and len(keys) and keys.shape[1] != self.sampler.key_bytes:
            raise ValueError(
                f"keys of {keys.shape[1]} bytes with their action, but the stored ones have "
                f"{self.sampler.key_bytes}: {_OTHER_KEYS}"
            )
        self.sampler.put(slots, keys)

    def _new_sampler(self, key_bytes: int | None) -> SlotSampler:
        return SlotSampler(self._capacity, self.strategy, key_bytes=key_bytes, seed=self._seed)

    def draw(self, size: int, beta: float) -> tuple[I64, F32]:
        """Slots to train on and their importance weights."""
        if self.sampler is None:
            raise ValueError("cannot sample from an empty buffer")
        batch = self.sampler.sample(size, beta)
        self._open.append(batch)
        # SiblingModel trains the anchor toward this slot's outcome, and their observations and
        # actions are equal: the slot stands for both.
        return batch.outcome_slots, batch.weights

    def refresh(self, slots: I64, td_errors: Any) -> None:
        """TD errors, of either sign, of a draw, which is found by its slots."""
        for place in reversed(range(len(self._open))):
            batch = self._open[place]
            if np.array_equal(batch.outcome_slots, slots):
                assert self.sampler is not None
                self.sampler.update_priorities(batch, np.abs(td_errors, dtype=np.float64))
                del self._open[place]
                return
        raise ValueError(
            f"the TD errors are of none of the last {_MOST_OPEN} draws that await theirs: hand "
            f"back the indices as {self._host} sampled them"
        )

    def clear(self) -> None:
        """Forget all entries; the random stream goes on."""
        self._open.clear()
        if self.sampler is not None:
            self.sampler.clear()

    def state_dict(self) -> dict[str, Any]:
        """The sampler's, or an empty header as long as there is none."""
        return {"header": {}} if self.sampler is None else self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves everything as it is."""
        sampler = None
        if state["header"]:
            if self._key is not None and state["header"].get("version") == KEYS_WITHOUT_ACTION:
                raise StateError(
                    f"the state has schema version {KEYS_WITHOUT_ACTION}: {_OTHER_KEYS}"
                )
            sampler = self._new_sampler(state["header"].get("key_bytes"))
            sampler.load_state_dict(state)
        self.sampler = sampler
        self._open.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Draws that await their errors are not part of a state."""
        return {"arguments": self._arguments, "sampler": self.sampler}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"])  # type: ignore[misc]
        self.sampler = state["sampler"]

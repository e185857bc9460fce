"""The replay buffer people use: checked input, a strategy, and the stored memory behind them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.checkpoint import (
    SCHEMA_VERSION,
    StateError,
    compare_headers,
    fill_arrays,
    read_state,
    rebuilt,
    restored_uniforms,
    write_state,
)
from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory, append
from sibling_replay.replay.opened import DROPPED, MAX_PRIORITY
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.rng import Uniforms
from sibling_replay.schema import (
    GROUP_KEY,
    TRANSITION,
    Key,
    KeyFunction,
    check_fields,
    check_key,
    field_of_key,
    fields_of_env,
    form_of,
)
from sibling_replay.staging import (
    Staging,
    importance_exponent,
    td_errors_as_array,
    whole_number,
)
from sibling_replay.strategies import STRATEGIES, Law, Strategy

_LARGEST_CAPACITY = 2**29  # the pool of group members is indexed by 32-bit integers

_LARGEST_BATCH_BYTES = 2**31 - 1  # of a NumPy record


class ReplayBuffer:
    """A ring of transitions, drawn by a strategy.

    fields: name -> Field(dtype, shape). The six of a transition (obs, action, reward, next_obs,
        terminated, truncated) and any of your own.
    capacity: entries kept; the oldest make room.
    strategy: one of Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel.
    key: what makes two transitions siblings. "exact": equal observation and action. A function
        key(obs, action) -> integer or array: equal results. "given": the `group` handed to `add`.
        None: no groups. By default "exact" for sibling strategies and None for the others.
    seed: of the buffer's own random stream.
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        capacity: int,
        strategy: Strategy,
        *,
        key: Key | Literal["default"] = "default",
        seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        if not isinstance(strategy, Strategy):
            raise TypeError(
                f"strategy must be one of {', '.join(STRATEGIES)} (an instance), not {strategy!r}"
            )
        capacity = whole_number("capacity", capacity)
        if not 1 <= capacity <= _LARGEST_CAPACITY:
            raise ValueError(f"capacity must be from 1 to {_LARGEST_CAPACITY}, got {capacity}")
        key = check_key(key, strategy.needs_groups, type(strategy).__name__)
        self._fields = check_fields(fields)
        self._key: Key = key
        self.capacity = capacity
        self.strategy = strategy
        stored = dict(self._fields)
        if callable(key):
            stored[GROUP_KEY] = field_of_key(key, self._fields)
        elif key == "given":
            stored[GROUP_KEY] = Field(np.dtype(np.int64))
        self._layout = Layout.of(stored, (GROUP_KEY,) if GROUP_KEY in stored else ("obs", "action"))
        self._staging = Staging(self._layout, tuple(stored), key)
        self._stage = self._staging.stage
        self._plain = len(stored) == len(TRANSITION)
        self._use(self._new_memory(), Uniforms(np.random.default_rng(seed)))
        self._largest_batch = _LARGEST_BATCH_BYTES // self._memory.new_batch(1).plan.dtype.itemsize

    @classmethod
    def for_env(
        cls,
        env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
        capacity: int,
        strategy: Strategy,
        *,
        extra_fields: Mapping[str, Field] | None = None,
        key: Key | Literal["default"] = "default",
        seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> ReplayBuffer:
        """A buffer for an environment's transitions (a vector environment's: `extend` them)."""
        fields = {**fields_of_env(env), **(extra_fields or {})}
        return cls(fields, capacity, strategy, key=key, seed=seed)

    def _new_memory(self) -> Memory:
        return Memory(
            self._layout,
            self.capacity,
            grouped=self._key is not None,
            outcomes=self.strategy.needs_outcomes,
            floors=self.strategy.needs_floors,
        )

    def _use(self, memory: Memory, uniforms: Uniforms) -> None:
        """Take over a memory and a random stream. Batches drawn from another memory are refused."""
        self._memory = memory
        self._source = weakref.ref(memory)
        self._uniforms = uniforms
        self._filled = False  # known to hold an entry; a buffer never loses its last

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        *,
        group: int | None = None,
        **extra: Any,
    ) -> None:
        """Store one transition. It gets the largest priority assigned so far.

        `group` goes with key="given"; the buffer's own fields are given by name.
        """
        values: tuple[Any, ...] = (obs, action, reward, next_obs, terminated, truncated)
        if not self._plain or extra or group is not None:
            values += self._staging.further(extra, group, obs, action, many=False)
        append(self._memory.handle, self._stage(values), 1)

    def extend(
        self,
        obs: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        next_obs: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        *,
        group: ArrayLike | None = None,
        **extra: ArrayLike,
    ) -> None:
        """Store several transitions, given as columns, in order: a step of n environments, say."""
        values: tuple[Any, ...] = (obs, action, reward, next_obs, terminated, truncated)
        if not self._plain or extra or group is not None:
            values += self._staging.further(extra, group, obs, action, many=True)
        block, count = self._staging.stage_many(values)
        append(self._memory.handle, block, count)

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
        return self.strategy.draw(self._memory, batch_size, beta, self._uniforms)

    def update_priorities(self, batch: Batch, td_errors: ArrayLike) -> None:
        """Refresh priorities with the absolute TD errors, from before the optimizer step.

        Which entries are refreshed is the strategy's rule. Entries overwritten since the batch was
        drawn are skipped and counted in `dropped_updates`.
        """
        if type(batch) is not Batch:
            raise TypeError(f"expected the batch that the TD errors are of, not {batch!r}")
        plan = batch.plan
        if plan.source is not self._source:
            raise ValueError("this batch was not drawn from this buffer as it is now")
        given = td_errors_as_array(td_errors, plan.shape)
        self.strategy.refresh(self._memory, batch, given)

    def probabilities(self) -> Law:
        """The exact probabilities of the next draw over the live slots, in O(N)."""
        if len(self) == 0:
            raise ValueError("an empty buffer has no probabilities")
        return self.strategy.law(self.masses, self.groups)

    def transitions(self) -> dict[str, NDArray[Any]]:
        """Every stored transition, by slot, as columns (copies)."""
        return self._memory.read(np.arange(len(self)))

    def __len__(self) -> int:
        return self._memory.live

    @property
    def masses(self) -> F64:
        """priority^alpha of the live slots (a copy)."""
        return self._memory.masses.copy()

    @property
    def groups(self) -> I64:
        """The group of each live slot; -1 where the buffer keeps none."""
        if not self._memory.grouped:
            return np.full(len(self), -1, dtype=np.int64)
        return self._memory.groups

    @property
    def generations(self) -> I64:
        """How often each slot has been filled."""
        return self._memory.generations()

    @property
    def max_priority(self) -> float:
        """The largest raw priority ever assigned: what a new entry gets."""
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
        header = state["header"]
        compare_headers(header, self._header())
        memory = self._new_memory()
        fill_arrays(memory.arrays(), state)
        ok, why = memory.check_valid()
        if not ok:
            raise StateError(f"the state contradicts itself: {why}")
        self._use(memory, restored_uniforms(header.get("uniforms")))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically."""
        write_state(path, self._header(), self._memory.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: KeyFunction | None = None) -> ReplayBuffer:
        """The buffer in a file. A key function is code, so it is not in the file: give it again."""
        header, arrays = read_state(path)
        buffer = rebuilt(cls, path, header, arrays, key)
        buffer.load_state_dict({"header": header, **arrays})
        return buffer

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`. The kernels find their arrays by address, so a copy must make
        arrays of its own."""
        return {
            "arguments": (dict(self._fields), self.capacity, self.strategy),
            "key": self._key,
            "state": self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"], key=state["key"])  # type: ignore[misc]
        self.load_state_dict(state["state"])

    def _header(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "capacity": self.capacity,
            "strategy": type(self.strategy).__name__,
            "options": self.strategy.options(),
            "key": "function" if callable(self._key) else self._key,
            "key_form": form_of(self._layout.fields[GROUP_KEY]) if callable(self._key) else None,
            "fields": {name: form_of(field) for name, field in self._fields.items()},
            "uniforms": self._uniforms.state_dict(),
        }

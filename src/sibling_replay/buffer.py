"""The replay buffer people use: checked input, a strategy, and the stored memory behind them."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.checkpoint import (
    KEYS_WITHOUT_ACTION,
    SCHEMA_VERSION,
    StateError,
    read_state,
    rebuilt,
    write_state,
)
from sibling_replay.draw_statistics import DrawStatistics
from sibling_replay.grouping.auto import KeyChoice
from sibling_replay.grouping.key_map import Key, KeyFunction, KeyMap, PerRow, as_key
from sibling_replay.keying import (
    Fitting,
    Keying,
    SavedMap,
    refuse_mixed_actions,
    saved_map,
    take_saved_map,
    words_of_key,
)
from sibling_replay.replay.arrays import I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory, append
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.replay.regroup import group_anew, move_entries
from sibling_replay.rng import Uniforms, own_generator
from sibling_replay.sampling import Sampling, fill_memory
from sibling_replay.schema import (
    GROUP_KEY,
    TRANSITION,
    check_fields,
    fields_of_env,
    form_of,
)
from sibling_replay.slot_values import values_by_slot
from sibling_replay.staging import as_array
from sibling_replay.strategies import Strategy
from sibling_replay.strategies.over_memory import write_batch
from sibling_replay.strategies.replay_by import kept_for
from sibling_replay.strategies.scripted import ScriptedReplay


class ReplayBuffer(Sampling):
    """A ring of transitions, drawn by a strategy.

    fields: name -> Field(dtype, shape). The six of a transition (obs, action, reward, next_obs,
        terminated, truncated) and any of your own.
    capacity: entries kept; the oldest make room.
    strategy: one of Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel, or your own.
    key: what makes two transitions siblings. "exact": equal observation and action. A `KeyMap`, or
        a function key(obs, action) -> number or array: equal keys and equal action. "given": equal
        `group` handed to `add`. None: no groups. By default "exact" for sibling strategies and
        None for the others. A map that is not fitted, such as `Auto()` of `grouping`, is fitted
        to the buffer's first entries; a copy of it, so that several buffers may be given it.
    seed: of the buffer's own random stream. A Generator is copied as it stands, so what you draw
        from it later is no part of the stream.

    Siblings always share their action: the buffer adds it to the key, so a map or a function may
    look at the observation alone. (But maps of `grouping` bin actions that are real numbers. Groups
    given by number may mix actions for SiblingSample; the others, which train an entry toward
    outcomes of its siblings, refuse that.)
    A map gets observations and actions as they are stored, with an entry in each row, once a call
    of `add` or `extend`. A function is called row by row with one of each: arrays of the field's
    dtype and shape, and NumPy scalars where the shape is (), as for a Discrete space. Bins of
    CartPole's observation, by a map that fits them itself and by a function:

        ReplayBuffer.for_env(env, 50_000, SiblingSample(), key=Grid(4))
        ReplayBuffer.for_env(env, 50_000, SiblingSample(), key=lambda obs, action: obs.round(1))
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
        super().__init__(capacity, strategy)
        given = as_key(key, strategy.needs.groups, strategy.name)
        self._fields = check_fields(fields)
        self._fitting = Fitting.of(given, self.capacity)
        self._key_by(Keying(given, self._fields))
        self._use(self._new_memory(), Uniforms(own_generator(seed)))
        self._keeps = self._memory.keeps

    def _key_by(self, keying: Keying) -> None:
        """Make keys, and rows with them, in this way from now on."""
        self._keying = keying
        self._key, self._layout, self._staging = keying.key, keying.layout, keying.staging
        needs = self.strategy.needs
        self._one_action = self._key == "given" and (needs.other_outcomes or needs.averages)
        self._stage = self._staging.stage
        self._plain = len(self._layout.fields) == len(TRANSITION)
        self._takes_six = self._staging.takes_six
        self._statistics = DrawStatistics(
            self.strategy.name,
            warn=needs.groups and keying.awaited is None,
            mapped=isinstance(self._key, KeyMap),
            mixes=keying.maps and (needs.other_outcomes or needs.averages),
        )

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

    def _new_memory(self, layout: Layout | None = None) -> Memory:
        return Memory(
            self._layout if layout is None else layout,
            self.capacity,
            grouped=self._key is not None,
            outcomes=self.strategy.needs.outcomes,
            **kept_for(self.strategy),
        )

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
        if self._takes_six and not extra and group is None:
            block = self._stage(obs, action, reward, next_obs, terminated, truncated)
        else:
            further = self._staging.further(extra, group, obs, action, many=False)
            block = self._stage(obs, action, reward, next_obs, terminated, truncated, *further)
            if self._one_action:
                refuse_mixed_actions(self._memory, self.strategy.name, block, 1)
        append(self._memory.handle, block, 1, *self._keeps)
        if self._fitting.due is not None:
            self._fit_if_due()

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
        if self._one_action:
            refuse_mixed_actions(self._memory, self.strategy.name, block, count)
        append(self._memory.handle, block, count, *self._keeps)
        if self._fitting.due is not None:
            self._fit_if_due()

    def _fit_if_due(self) -> None:
        """Fit the map to what is stored, and group all of it anew, once there is enough."""
        if self._fitting.due is None or len(self) < self._fitting.due:
            return
        told = self._statistics.told
        try:
            self._regroup(self._fitting.fitted(self._memory, self.capacity))
            self._statistics.told = told  # once, however often it chooses
        except ValueError as error:  # NaN, say, which equal observations may have
            self._fitting.due = None
            warnings.warn(f"siblings stay those of {self._key!r}: {error}", stacklevel=3)

    def rekey(self, key: KeyMap | KeyFunction | Literal["exact"]) -> None:
        """Group everything that is stored anew, by another key, as if it had come with it.

        Slots, masses, a strategy's columns and the random stream stay as they are; batches drawn
        before refresh the slots they trained, not whole groups. The score of a group, where a
        strategy keeps any, is the mean of those its members had. An unfitted map is fitted first;
        `Auto` goes on choosing.
        """
        if self._key is None:
            raise ValueError("this buffer keeps no groups: there is nothing to group anew")
        given = as_key(key, True, self.strategy.name)
        if given == "given" or given is None:
            raise ValueError(f"a buffer can be grouped anew by a map or function, not by {key!r}")
        fitting = Fitting.of(given, self.capacity)
        if fitting.template is not None:
            if len(self) == 0:
                raise ValueError(f"{given!r} is not fitted, and there is nothing to fit it to")
            given = fitting.fitted(self._memory, self.capacity)
        self._regroup(given)
        self._fitting = fitting

    def _regroup(self, key: Literal["exact", "given"] | KeyMap | None) -> None:
        """Replace the memory by one with groups of another key. Nothing changes if that fails."""
        keying = Keying(key, self._fields)
        memory = self._new_memory(keying.layout)
        keying.write_rows(self._memory, memory)
        group_anew(self._memory, memory)
        self._key_by(keying)
        self._use_regrouped(memory)

    def batch_of(self, slots: ArrayLike) -> Batch:
        """The entries in slots of your choosing, as a batch with weights of one.

        For a host library that draws for itself. Such a batch can refresh priorities like any.
        """
        chosen = as_array("slots", slots)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or chosen.size == 0:
            raise ValueError(f"slots must be a list of whole numbers, not {slots!r}")
        if chosen.size > self._largest_batch:
            raise ValueError(f"slots must be at most {self._largest_batch}, got {chosen.size}")
        if len(self) == 0:
            raise ValueError("slots must be of entries, and this buffer is empty")
        if not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise ValueError(
                f"slots must be from 0 to {len(self) - 1}, got {chosen.min()} to {chosen.max()}"
            )
        batch = self._memory.new_batch(chosen.size)
        batch.set_outcomes(None)
        batch.set_draw(None)
        slots = chosen.astype(np.int64)
        write_batch(self._memory.handle, slots, slots, slots, np.ones(slots.size), batch.block)
        return batch

    def use_values(self, values: Callable[[Any, Any], ArrayLike]) -> None:
        """Let the strategy's sweeps ask for the learner's present values.

        values: of a batch of stored observations and actions, a number each. It is no part of a
            state: give it again to a buffer that was loaded or copied.
        """
        if not isinstance(self._replay, ScriptedReplay):
            raise TypeError(f"{self.strategy.name} asks for no values")
        mine = weakref.ref(self)  # not a cycle, which would hold a large buffer for a while
        self._replay.values = values_by_slot(lambda: mine()._memory, values)  # type: ignore[union-attr]

    def transitions(self) -> dict[str, NDArray[Any]]:
        """Every stored transition, by slot, as columns (copies)."""
        return self._memory.read(np.arange(len(self)))

    @property
    def generations(self) -> I64:
        """How often each slot has been filled."""
        return self._memory.generations()

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The columns of `transitions` that are equal in siblings."""
        return self._keying.key_fields

    @property
    def key_choices(self) -> tuple[KeyChoice, ...]:
        """What `Auto` has chosen so far, and why; the last is in use."""
        return tuple(self._fitting.choices)

    def _words_of_key(self) -> tuple[str, str]:
        return words_of_key(self._key)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically."""
        of_key = saved_map(self._key, self._fitting)[1]
        write_state(path, self._header(), {**self._memory.arrays(), **of_key})

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **saved_map(self._key, self._fitting)[1]}

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, key: KeyMap | KeyFunction | None = None
    ) -> ReplayBuffer:
        """The buffer in a file. Key functions, and maps that are your own code, are in no file:
        give them again."""
        header, arrays = read_state(path)
        saved = take_saved_map(header, arrays)
        if saved is not None and (key is None or saved.fitting.same_options(key)):
            key = saved.key
        buffer = rebuilt(cls, path, header, arrays, key)
        if saved is not None and key is saved.key:
            buffer._fitting = saved.fitting
        # In the new buffer's own memory: a second one would add the state's size to the peak.
        buffer._restore(header, arrays, buffer._memory)
        return buffer

    def _filled_memory(
        self, header: Mapping[str, Any], arrays: dict[str, Any], memory: Memory
    ) -> Memory:
        """States from before siblings shared their action have rows, and perhaps groups, of another
        form."""
        if not isinstance(self._key, PerRow) or header["version"] != KEYS_WITHOUT_ACTION:
            return super()._filled_memory(header, arrays, memory)
        stored = {**self._fields, GROUP_KEY: self._layout.fields[GROUP_KEY]}
        old = fill_memory(self._new_memory(Layout.of(stored, (GROUP_KEY,))), arrays)
        move_entries(old, memory, old.read(old.live_slots))
        return memory

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves the buffer as it is.

        Where `key` is a map, the groups of the state may also have been given by number, if they
        are the groups that the map makes. A map that this buffer fits itself is that of the state
        from then on.
        """
        header = state.get("header") if isinstance(state, Mapping) else None
        if isinstance(header, Mapping):
            arrays = {name: array for name, array in state.items() if name != "header"}
            saved = take_saved_map(header, arrays)
            state = {"header": header, **arrays}
            if saved is not None and saved.fitting.same_options(self._fitting.template):
                self._continue_from(state, saved)
                return
        given = isinstance(header, Mapping) and header.get("key") == "given"
        if not given or not isinstance(self._key, KeyMap) or isinstance(self._key, PerRow):
            super().load_state_dict(state)
            return
        old = ReplayBuffer(self._fields, self.capacity, self.strategy, key="given")
        old.load_state_dict(state)
        columns = old.transitions()
        if len(old):
            columns[GROUP_KEY] = np.asarray(self._key.keys(columns["obs"], columns["action"]))
        memory = self._new_memory()
        move_entries(old._memory, memory, columns)
        if not (np.array_equal(memory.groups, old.groups) and memory.check_valid()[0]):
            raise StateError(f"the state's groups were given, and {self._key!r} makes others")
        self._use(memory, old._uniforms)

    def _continue_from(self, state: Mapping[str, Any], saved: SavedMap) -> None:
        """Take over a state with the map in it."""
        other = ReplayBuffer(self._fields, self.capacity, self.strategy, key=saved.key)
        super(ReplayBuffer, other).load_state_dict(state)
        self._key_by(other._keying)
        self._use(other._memory, other._uniforms)
        self._fitting = saved.fitting

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`. The kernels find their arrays by address, so a copy must make
        arrays of its own."""
        return {
            "arguments": (dict(self._fields), self.capacity, self.strategy),
            "key": self._key if self._fitting.template is None else self._fitting.template,
            "state": self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"], key=state["key"])  # type: ignore[misc]
        self.load_state_dict(state["state"])

    def _header(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "capacity": self.capacity,
            "strategy": self.strategy.name,
            "options": self.strategy.options(),
            **self._keying.header(self._fitting),
            "fields": {name: form_of(field) for name, field in self._fields.items()},
            "bounds": {n: list(f.bounds) for n, f in self._fields.items() if f.bounds is not None},
            "uniforms": self._uniforms.state_dict(),
        }

    @property
    def key_kind(self) -> Literal["exact", "given", "function", "map"] | None:
        """What makes siblings, in a word; None without groups."""
        return self._keying.kind

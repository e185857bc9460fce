"""The replay buffer people use: checked input, a strategy, and the stored memory behind them."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from sibling_replay.draw_statistics import DrawStatistics
from sibling_replay.grouping.auto import KeyChoice
from sibling_replay.grouping.key_map import Key, KeyFunction, KeyMap, as_key
from sibling_replay.keying import Fitting, Keying, refuse_mixed_actions, words_of_key
from sibling_replay.n_step import n_step_of, with_discount
from sibling_replay.replay.arrays import I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory, append
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.replay.regroup import group_anew
from sibling_replay.rng import Uniforms, own_generator
from sibling_replay.saved_buffer import SavedBuffer
from sibling_replay.schema import TRANSITION, check_fields, fields_of_env
from sibling_replay.slot_values import values_by_slot
from sibling_replay.staging import as_array
from sibling_replay.strategies import Strategy
from sibling_replay.strategies.over_memory import write_batch
from sibling_replay.strategies.replay_by import kept_for
from sibling_replay.strategies.scripted import ScriptedReplay


class ReplayBuffer(SavedBuffer):
    """A ring of transitions, drawn by a strategy.

    fields: name -> Field(dtype, shape). The six of a transition (obs, action, reward, next_obs,
        terminated, truncated) and any of your own. Observations of several parts are
        Parts({"camera": Field(...), ...}) or Parts((Field(...), ...)): mappings and tuples go in,
        and a batch's obs and next_obs are such of arrays.
    capacity: entries kept; the oldest make room.
    strategy: one of Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel, or your own.
    key: what makes two transitions siblings. "exact": equal observation and action. A `KeyMap`, or
        a function key(obs, action) -> number or array: equal keys and equal action. "given": equal
        `group` handed to `add`. None: no groups. By default "exact" for sibling strategies and
        None for the others. A map that is not fitted, such as `Auto()` of `grouping`, is fitted
        to the buffer's first entries; a copy of it, so that several buffers may be given it.
    seed: of the buffer's own random stream. A Generator is copied as it stands, so what you draw
        from it later is no part of the stream.
    n_steps, gamma: what an outcome covers. Above 1, the reward of an entry is the discounted sum of
        up to n steps of its episode, next_obs and the ends are those of the last of them, and a
        field `discount` (written by the buffer) is gamma to their number: a target is
        reward + discount * ~terminated * value(next_obs). Siblings agree in the first observation
        and action. An entry is stored at once and grows with the steps that follow; the rows of
        `extend` are then environments.

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

    Examples:
        >>> env = gym.make("FrozenLake-v1")
        >>> buffer = ReplayBuffer.for_env(env, 10, SiblingSample(alpha=0.6), seed=0)
        >>> buffer.add(0, 1, 0.5, 4, False, False)
        >>> batch = buffer.sample(32, beta=0.4)
        >>> buffer.update_priorities(batch, batch.reward - 0.2)  # TD errors
        >>> len(buffer), buffer.groups.tolist()
        (1, [0])
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        capacity: int,
        strategy: Strategy,
        *,
        key: Key | Literal["default"] = "default",
        seed: int | np.random.SeedSequence | np.random.Generator | None = None,
        n_steps: int = 1,
        gamma: float | None = None,
    ) -> None:
        super().__init__(capacity, strategy)
        given = as_key(key, strategy.needs.groups, strategy.name)
        self._fields = check_fields(fields)
        self._n_step = n_step_of(n_steps, gamma, self.capacity, self._fields)
        if self._n_step is not None:
            self._fields = with_discount(self._fields)
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
        n_steps: int = 1,
        gamma: float | None = None,
    ) -> ReplayBuffer:
        """A buffer for an environment's transitions (a vector environment's: `extend` them)."""
        fields = {**fields_of_env(env), **(extra_fields or {})}
        return cls(fields, capacity, strategy, key=key, seed=seed, n_steps=n_steps, gamma=gamma)

    def _alike(self, key: Any) -> ReplayBuffer:
        options = self._n_step_options()
        return ReplayBuffer(self._fields, self.capacity, self.strategy, key=key, **options)

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
        env_id: int = 0,
        **extra: Any,
    ) -> None:
        """Store one transition. Its priority is what the strategy's `initial` says: unless given,
        the largest assigned so far.

        `group` goes with key="given"; the buffer's own fields are given by name. With n_steps above
        1, `env_id` is the number of the environment: steps of one continue each other.
        """
        if self._takes_six and not extra and group is None:
            block = self._stage(obs, action, reward, next_obs, terminated, truncated)
        else:
            if self._n_step is not None:
                extra = self._n_step.with_discount(extra, ())
                envs = self._n_step.environment(env_id)
            further = self._staging.extra_values(extra, group, obs, action, many=False)
            block = self._stage(obs, action, reward, next_obs, terminated, truncated, *further)
            if self._one_action:
                refuse_mixed_actions(self._memory, self.strategy.name, block, 1)
        if self._n_step is None:
            append(self._memory.handle, block, 1, *self._keeps)
        else:
            self._n_step.append(self._memory, block, 1, envs)
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
        env_ids: ArrayLike | None = None,
        **extra: ArrayLike,
    ) -> None:
        """Store several transitions, given as columns, in order: a step of n environments, say.

        With n_steps above 1 a row is a step of an environment: of all of them in order, or of those
        that `env_ids` numbers.
        """
        values: tuple[Any, ...] = (obs, action, reward, next_obs, terminated, truncated)
        if self._n_step is not None:
            extra = self._n_step.with_discount(extra, as_array("reward", reward).shape[:1])
        if not self._plain or extra or group is not None:
            values += self._staging.extra_values(extra, group, obs, action, many=True)
        block, count = self._staging.stage_many(values)
        if self._one_action:
            refuse_mixed_actions(self._memory, self.strategy.name, block, count)
        if self._n_step is None:
            append(self._memory.handle, block, count, *self._keeps)
        else:
            envs = self._n_step.environments(count, env_ids)
            self._n_step.append(self._memory, block, count, envs)
        if self._fitting.due is not None:
            self._fit_if_due()

    def end_episodes(self, env_id: int | None = None) -> None:
        """Say that the environments, or one of them, were reset in the middle of an episode, so
        that what comes next does not continue what is stored. Only with n_steps above 1 it makes a
        difference."""
        if self._n_step is not None:
            self._n_step.end_episodes(env_id)

    @property
    def n_steps(self) -> int:
        """Steps that an outcome covers at most."""
        return 1 if self._n_step is None else self._n_step.n_steps

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

    def transitions(self) -> dict[str, Any]:
        """Every stored transition, by slot, as columns (copies)."""
        columns = self._memory.read(np.arange(len(self)))
        return {name: self._layout.fields[name].opened(columns[name]) for name in columns}

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

    @property
    def key_kind(self) -> Literal["exact", "given", "function", "map"] | None:
        """What makes siblings, in a word; None without groups."""
        return self._keying.kind

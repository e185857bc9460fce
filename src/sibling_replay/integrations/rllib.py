"""A replay buffer for RLlib's DQN on the new API stack: its episodes and learners, our draws.

    config.training(replay_buffer_config={"type": BUFFER, "strategy": SiblingSample(alpha=0.6)})

It takes the place of `PrioritizedEpisodeReplayBuffer`: sampled episodes carry `weights`, and the
absolute TD errors that the learner hands back refresh priorities. `Uniform` leaves all to RLlib.
"""

from __future__ import annotations

import copy
import os
import sys
from itertools import chain, islice
from typing import Any

import numpy as np

from sibling_replay.checkpoint import StateError
from sibling_replay.grouping.key_map import Key
from sibling_replay.grouping.support import Support
from sibling_replay.integrations import host
from sibling_replay.integrations.host_export import NextValues, drawable_slots, export_columns
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.integrations.rllib_storage import (
    Pieces,
    SlottedEpisodes,
    check_batch_form,
    compared,
    one_by_one,
)
from sibling_replay.strategies import Strategy

with host("RLlib", "rllib"):
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.dqn import DQN
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils import force_list
    from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

# RLlib looks for a word in the type's name, so it wants the name of a class, not the class.
BUFFER = "sibling_replay.integrations.rllib.SiblingEpisodeReplayBuffer"
_SAVED = "local_replay_buffer"  # in the state of a SiblingDQN


class SiblingEpisodeReplayBuffer(SlottedEpisodes):
    """Steps of stored episodes, drawn by a strategy.

    capacity: steps. The oldest episodes leave to make room, whole; of an episode that is longer
        than that by itself, the oldest steps are no longer drawn.
    strategy: Uniform, Prioritized, SiblingSample, SiblingModel, RankBased, or your own if it needs
        no signed TD errors.
    beta: exponent of the importance weights, an attribute that may be scheduled. In
        `replay_buffer_config` it is constant: RLlib then asks for that value at every draw.
    n_step: the algorithm's. Siblings have equal observation and action at the first of the n steps,
        and their outcomes are what n steps led to. As in RLlib, a step is drawn once n steps are
        known from it on, so the last n - 1 of an episode never are.
    key: a `KeyMap`, or a function key(obs, action) -> number or array: steps with equal keys and
        equal action are siblings. By default equal observation and action. A map that is not
        fitted, such as `Auto()` of `grouping`, is fitted to the buffer's first steps.
    seed: of the draws; `Uniform` draws from RLlib's own `rng`.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        strategy: Strategy,
        beta: float = 0.4,
        n_step: int = 1,
        key: Key = None,
        seed: int | None = None,
        batch_size_B: int = 16,
        metrics_num_episodes_for_smoothing: int = 100,
    ) -> None:
        if type(n_step) is not int or n_step < 1:
            raise ValueError(f"n_step must be a positive whole number, got {n_step!r}")
        super().__init__(
            capacity,
            n_step,
            batch_size_B=batch_size_B,
            metrics_num_episodes_for_smoothing=metrics_num_episodes_for_smoothing,
        )
        self.replay = HostReplay("RLlib", capacity, strategy, key, seed, signed=False)
        self._learners_checked = False
        self.strategy, self.beta = strategy, beta
        self._whole_columns = strategy.needs.groups and not self.replay.row_by_row
        self._last_sampled_indices: list[int] = []
        self._host_draws = strategy.needs.host_may_draw
        if self._host_draws:
            self._indices = []

    def add(self, episodes: Any, weight: None = None) -> None:
        """Store episodes, or chunks that continue stored ones. The strategy says what priority new
        steps get (`initial`), so there is no `weight`."""
        if weight is not None:
            raise ValueError("the strategy gives new steps their priority: weight must be None")
        episodes = force_list(episodes)
        for episode in episodes:
            if not isinstance(episode, SingleAgentEpisode):
                raise TypeError(f"only episodes of a single agent can be stored, not {episode!r}")
        if self._whole_columns:
            check_batch_form(chain(islice(self.episodes, 1), episodes))
        if self._host_draws:
            EpisodeReplayBuffer.add(self, episodes)
        else:
            self._store(episodes)
            self.replay.fit_if_due(self._observations_and_actions)

    def _keys_of(self, pieces: Pieces) -> Any:
        if not self.strategy.needs.groups:
            return None
        obs: Any
        actions: Any
        if self._whole_columns:
            read = [compared(episode, slice(s.start, s.stop)) for episode, s in pieces]
            obs, actions = map(np.concatenate, zip(*read, strict=True))
        else:
            rows = [one_by_one(episode, steps) for episode, steps in pieces]
            obs, actions = (list(chain(*column)) for column in zip(*rows, strict=True))
        return self.replay.checked_keys(obs, actions, sum(len(steps) for _, steps in pieces))

    def _written(self, slots: list[int], keys: Any) -> None:
        self.replay.put_keys(np.array(slots), keys)

    def _emptied(self, slots: list[int]) -> None:
        self.replay.sampler.remove(np.array(slots))

    def sample(self, num_items: int | None = None, **options: Any) -> list[SingleAgentEpisode]:
        """Episodes of one step each (n steps in one, as RLlib does it), with their weights."""
        if self._host_draws:
            options = {"n_step": 1, "sample_episodes": True, **options}
            drawn: list[SingleAgentEpisode] = EpisodeReplayBuffer.sample(self, num_items, **options)
            return drawn
        if not self._learners_checked:
            self._learners_checked = True
            _refuse_several_learners(_config_of_caller())
        return self._draw(num_items, **options)

    def _draw(
        self,
        num_items: int | None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | None = None,
        beta: float | None = None,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        to_numpy: bool = False,
        **_: Any,
    ) -> list[SingleAgentEpisode]:
        if n_step not in (None, self.n_step):
            raise ValueError(
                f"the algorithm has n_step={n_step}, the buffer {self.n_step}: give it in "
                f"replay_buffer_config, too (one number; ranges only work with Uniform)"
            )
        if batch_length_T and batch_length_T > 1:
            raise ValueError("sequences, for stateful modules, can only be drawn with Uniform")
        size = num_items or batch_size_B or self.batch_size_B
        slots, weights = self.replay.draw(size, self.beta if beta is None else beta)
        self._last_sampled_indices = slots.tolist()
        places = [self._indices[slot] for slot in self._last_sampled_indices]
        drawn = [
            self._transition(number, t, weight, gamma, include_infos, include_extra_model_outputs)
            for (number, t), weight in zip(places, weights.tolist(), strict=True)
        ]
        for episode in drawn if to_numpy else ():
            episode.to_numpy()
        self._count_drawn(places)
        return drawn

    def update_priorities(self, priorities: Any, module_id: str | None = None) -> None:
        """Refresh with the TD errors of the last draw, by the strategy's rule."""
        if self._host_draws:
            return
        if self._last_sampled_indices:
            self.replay.refresh(np.array(self._last_sampled_indices), priorities)
        else:  # of a draw from before the state was set
            self.replay.unmatched_updates += np.size(priorities)

    def __repr__(self) -> str:
        held = f"{len(self):,} steps" if self._host_draws else self.replay.sampler.holding
        return f"<{type(self).__name__}: {held}, {self.strategy}>"

    def support(self) -> Support:
        """How well the groups are filled, what makes them and why."""
        return self.replay.support()

    @property
    def unmatched_updates(self) -> int:
        """TD errors that are of no draw that awaits them: dropped."""
        return self.replay.unmatched_updates

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs to go on where this was."""
        state = EpisodeReplayBuffer.get_state(self)
        state |= {"rng": self.rng.bit_generator.state, "beta": self.beta}
        if not self._host_draws:
            state |= {"n_step": self.n_step, "free": self._free, "replay": self.replay.state_dict()}
        return copy.deepcopy(state)

    def set_state(self, state: dict[str, Any]) -> None:
        drawn_with = None if self._host_draws else self.n_step
        if state.get("n_step") != drawn_with:
            raise StateError(f"n_step: expected {drawn_with}, got {state.get('n_step')}")
        state = copy.deepcopy(state)
        if not self._host_draws:
            self.replay.load_state_dict(state["replay"])
            self._use_slots(state["_indices"], state["free"])
        self.episodes.clear()  # else RLlib keeps them
        EpisodeReplayBuffer.set_state(self, state)
        self.rng.bit_generator.state = state["rng"]
        self.beta = state.get("beta", self.beta)  # states of older versions have none
        self._last_sampled_indices = []


def export(
    buffer: SiblingEpisodeReplayBuffer,
    path: str | os.PathLike[str],
    next_values: NextValues | None = None,
    *,
    gamma: float = 0.99,
) -> None:
    """Write a buffer to an .npz for `sibling-replay diagnose`.

    next_values: maps next observations, [n, ...], to their values, [n], for the column q_next.
    gamma: the discount per step, for the rewards of n steps.
    """
    slots = drawable_slots(buffer.replay)
    places = [buffer._indices[slot] for slot in slots.tolist()]
    steps = [buffer._transition(number, t, 1.0, gamma, False, False) for number, t in places]
    columns = {
        "obs": [step.get_observations(0) for step in steps],
        "action": [step.get_actions(0) for step in steps],
        "reward": [step.get_rewards(0) for step in steps],
        "next_obs": [step.get_observations(1) for step in steps],
        "terminated": [step.is_terminated for step in steps],
        "truncated": [step.is_truncated for step in steps],
    }
    export_columns(path, buffer.replay, slots, columns, next_values)


def _refuse_several_learners(config: Any) -> None:
    if config is not None and config.num_learners > 1:
        # each takes every other entry: errors come back in that order
        raise ValueError("num_learners must be at most 1: TD errors are refreshed by order")


def _config_of_caller() -> Any:
    """The configuration of the algorithm that is sampling, if one is. RLlib makes buffers from
    their own options alone, so that one cannot know its algorithm; but it can see who calls."""
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Algorithm):
            return caller.config
        frame = frame.f_back  # type: ignore[assignment]
    return None


class SiblingDQN(DQN):
    """RLlib's DQN with checkpoints that hold the replay buffer, which its own leave out."""

    def setup(self, config: Any) -> None:
        _refuse_several_learners(config)
        super().setup(config)

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **options: Any
    ) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state(
            components, not_components=not_components, **options
        )
        if self._check_component(_SAVED, components, not_components):
            state[_SAVED] = self.local_replay_buffer.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if _SAVED in state:
            self.local_replay_buffer.set_state(state[_SAVED])

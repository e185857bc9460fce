"""RLlib's storage of episodes with a slot for every step that can be drawn."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.integrations import host
from sibling_replay.replay.arrays import I64

with host("RLlib", "rllib"):
    from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer


Pieces: TypeAlias = list[tuple[SingleAgentEpisode, range]]  # steps of episodes, one after the other


class SlottedEpisodes(PrioritizedEpisodeReplayBuffer):
    """Episodes that grow at their end and leave whole, the oldest first, to make room.

    A step has a slot once `n_step` steps are known from it on: so the last n - 1 steps of an
    episode never have one. Of an episode that is longer than the capacity by itself the oldest
    steps lose theirs.
    """

    def __init__(self, capacity: int, n_step: int, **options: Any) -> None:
        # Not the constructor of the base class, which makes the segment trees.
        EpisodeReplayBuffer.__init__(self, capacity, **options)
        self.n_step = n_step
        self._use_slots({}, list(range(capacity))[::-1])

    def _use_slots(self, places: dict[int, tuple[int, int]], free: list[int]) -> None:
        # slot -> number of the episode and step in it; RLlib takes the length for the buffer's
        self._indices: Any = places
        self._free = free
        self._slots: dict[int, deque[int]] = {}  # of an episode, in the order of its steps
        for slot, (number, _) in places.items():
            self._slots.setdefault(number, deque()).append(slot)

    @abstractmethod
    def _keys_of(self, pieces: Pieces) -> Any:
        """What tells siblings of these steps, or an error, before anything has changed."""

    @abstractmethod
    def _written(self, slots: list[int], keys: Any) -> None:
        """These slots stand for the steps with these keys from now on."""

    @abstractmethod
    def _emptied(self, slots: list[int]) -> None:
        """These slots stand for nothing any more."""

    def _episode(self, number: int) -> SingleAgentEpisode:
        return self.episodes[number - self._num_episodes_evicted]

    def _observations_and_actions(self, slots: I64) -> tuple[NDArray[Any], NDArray[Any]]:
        """What slots hold, as it is compared, a row each."""
        rows: dict[int, tuple[list[int], list[int]]] = {}  # of an episode: places and steps
        for place, slot in enumerate(slots.tolist()):
            number, t = self._indices[slot]
            places, steps = rows.setdefault(number, ([], []))
            places.append(place)
            steps.append(t)
        order: list[int] = []
        parts = []
        for number, (places, steps) in rows.items():  # RLlib reads a slice far faster than steps
            start = min(steps)
            columns = compared(self._episode(number), slice(start, max(steps) + 1))
            parts.append([column[np.array(steps) - start] for column in columns])
            order += places
        back = np.argsort(order)
        obs, actions = (np.concatenate(column)[back] for column in zip(*parts, strict=True))
        return obs, actions

    def _transition(
        self, number: int, t: int, weight: float, gamma: float, infos: bool, outputs: bool
    ) -> SingleAgentEpisode:
        """n steps in an episode of one, as RLlib's learners take them."""
        episode, end = self._episode(number), t + self.n_step
        last = end == len(episode)
        names = episode.extra_model_outputs if outputs else ()
        rewards = episode.get_rewards(slice(t, end))
        return SingleAgentEpisode(
            observations=[episode.get_observations(t), episode.get_observations(end)],
            observation_space=episode.observation_space,
            actions=[episode.get_actions(t)],
            action_space=episode.action_space,
            rewards=[sum(gamma**k * reward for k, reward in enumerate(rewards))],
            infos=[episode.get_infos(t), episode.get_infos(end)] if infos else None,
            terminated=last and episode.is_terminated,
            truncated=last and episode.is_truncated,
            extra_model_outputs={
                **{name: [episode.get_extra_model_outputs(name, t)] for name in names},
                "weights": [weight],
                "n_step": [self.n_step],
            },
            t_started=t,
            len_lookback_buffer=0,
        )

    def _count_drawn(self, places: list[tuple[int, int]]) -> None:
        """RLlib's counters and metrics of a draw."""
        self.sampled_timesteps += len(places)
        self._update_sample_metrics(
            **_by_agent_and_module(
                num_env_steps_sampled=len(places),
                num_episodes_per_sample=len({number for number, _ in places}),
                num_env_steps_per_sample=len(set(places)),
                sampled_n_step=self.n_step,
                num_resamples=0,
            )
        )

    # RLlib's own `add` fails when the episode to evict is the one it has just extended, and goes
    # through all steps of the buffer for each episode it evicts.
    def _store(self, episodes: list[SingleAgentEpisode]) -> None:
        """Store episodes, and chunks that continue stored ones. One whose keys are refused is not
        stored, nor are those behind it."""
        stored, evicted, before = (
            len(self.episodes),
            self._num_episodes_evicted,
            self._num_timesteps,
        )
        taken = 0
        try:
            for episode in episodes:
                self._store_one(episode)
                taken += len(episode)
        finally:
            evicted = self._num_episodes_evicted - evicted
            self._update_add_metrics(
                **_by_agent_and_module(
                    num_episodes_added=len(self.episodes) + evicted - stored,
                    num_env_steps_added=taken,
                    num_episodes_evicted=evicted,
                    num_env_steps_evicted=before + taken - self._num_timesteps,
                )
            )

    def _store_one(self, given: SingleAgentEpisode) -> None:
        episode = copy.deepcopy(given)  # the giver may hold on to theirs
        number = self.episode_id_to_index.get(episode.id_)
        known = 0 if number is None else len(self._episode(number))
        steps = self._steps_to_give(number, known + len(episode))
        earlier = range(steps.start, min(steps.stop, known))
        later = range(max(steps.start - known, 0), max(steps.stop - known, 0))
        pieces = [] if number is None else [(self._episode(number), earlier)]
        pieces = [piece for piece in [*pieces, (episode, later)] if len(piece[1])]
        keys = self._keys_of(pieces) if pieces else None
        if number is None:
            number = self._num_episodes_evicted + len(self.episodes)
            self.episode_id_to_index[episode.id_] = number
            self.episodes.append(episode)
        else:
            self._episode(number).concat_episode(episode)
        self._num_timesteps += len(episode)
        self._num_timesteps_added += len(episode)
        while self._num_timesteps > self.capacity and len(self.episodes) > 1:
            self._evict_oldest()
        if pieces and number >= self._num_episodes_evicted:
            self._give_slots(number, steps, keys)

    def _evict_oldest(self) -> None:
        oldest = self.episodes.popleft()
        self._num_timesteps -= len(oldest)
        self._num_episodes_evicted += 1
        self._release(list(self._slots.pop(self.episode_id_to_index.pop(oldest.id_), ())))

    def _steps_to_give(self, number: int | None, length: int) -> range:
        """The steps of an episode that have no slot yet and can be drawn once it is so long."""
        mine = None if number is None else self._slots.get(number)
        end = length - self.n_step + 1
        start = self._indices[mine[-1]][1] + 1 if mine else 0
        return range(max(start, end - self.capacity), end)

    def _give_slots(self, number: int, steps: range, keys: Any) -> None:
        mine = self._slots.setdefault(number, deque())
        # Only an episode that is alone finds too little room.
        self._release([mine.popleft() for _ in range(len(steps) - len(self._free))])
        new = self._free[: -len(steps) - 1 : -1]
        self._written(new, keys)
        del self._free[-len(steps) :]
        self._indices.update((slot, (number, t)) for slot, t in zip(new, steps, strict=True))
        mine.extend(new)

    def _release(self, slots: list[int]) -> None:
        if slots:
            for slot in slots:
                del self._indices[slot]
            self._free.extend(slots)
            self._emptied(slots)


def compared(episode: SingleAgentEpisode, steps: int | slice) -> tuple[NDArray[Any], NDArray[Any]]:
    """Observations and actions as their bytes are compared. RLlib's modules choose int32 actions,
    other sources of episodes int64 ones."""
    actions = np.asarray(episode.get_actions(steps))
    if actions.dtype.kind in "iu":
        actions = actions.astype(np.int64)
    return np.asarray(episode.get_observations(steps)), actions


def one_by_one(episode: SingleAgentEpisode, steps: range) -> tuple[list[Any], list[Any]]:
    """Observations and actions as a key function gets them: NumPy scalars and arrays, whatever the
    episode keeps; dictionaries and tuples as they are."""
    obs = [_plain(episode.get_observations(t)) for t in steps]
    return obs, [_plain(episode.get_actions(t)) for t in steps]


def _plain(value: Any) -> Any:
    if isinstance(value, dict | tuple):
        return value
    array = np.asarray(value)
    return (array.astype(np.int64) if array.dtype.kind in "iu" and array.ndim == 0 else array)[()]


def check_batch_form(episodes: Iterable[SingleAgentEpisode]) -> None:
    """Refuse what cannot be compared: several parts, or not of the first episode's form."""
    first = None
    for episode in filter(len, episodes):
        step = episode.get_observations(0), episode.get_actions(0)
        if any(isinstance(each, dict | tuple) for each in step):
            raise TypeError(
                "observations or actions of several parts need a key function, or an environment "
                "in gymnasium.wrappers.FlattenObservation: a key map gets one array"
            )
        obs, action = compared(episode, 0)
        form = f"{obs.dtype} {obs.shape} and {action.dtype} {action.shape}"
        first = first or form
        if form != first:
            raise ValueError(f"observation and action must stay {first}, got {form}")


def _by_agent_and_module(**counts: float) -> dict[str, Any]:
    """RLlib's metrics, which it also wants by agent and by module: there is one of each."""
    all_counts: dict[str, Any] = dict(counts)
    for name, value in counts.items():
        part = name.replace("env_steps", "steps")
        all_counts[f"agent_to_{part}"] = {DEFAULT_AGENT_ID: value}
        all_counts[f"module_to_{part}"] = {DEFAULT_MODULE_ID: value}
    return all_counts

"""Environments as the loop sees them, beside a naive twin that steps each by itself."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sibling_replay.training.worlds import Envs, Transition, VectorWorld


class Counter(gym.Env[Any, Any]):
    """Observes [which, episode, step]; pays the step; terminates or is cut off by turns."""

    observation_space = gym.spaces.Box(0, 100, (3,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, which: int, length: int) -> None:
        self.which, self.length, self.episode = which, length, 0

    def _obs(self) -> np.ndarray:
        return np.array([self.which, self.episode, self.at], float)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.at = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        over = self.at == self.length
        cut = over and self.episode % 2 == 0
        return self._obs(), float(self.at), over and not cut, cut, {}


class InPlace(Counter):
    """The same, in one array that every step writes anew."""

    shown = np.zeros(3)

    def _obs(self) -> np.ndarray:
        self.shown[:] = super()._obs()
        return self.shown


def test_an_environment_may_write_over_its_observation() -> None:
    env = InPlace(0, 3)
    world = Envs([env], [env.reset()[0]])
    world.step([0])
    second = world.step([0])[0]
    assert second.obs.tolist() == [0, 1, 1] and second.next_obs.tolist() == [0, 1, 2]
    last = world.step([0])[0]  # its episode ends, and the next begins, before it is looked at
    assert last.ended and last.next_obs.tolist() == [0, 1, 3]
    assert world.observations[0].tolist() == [0, 2, 0]


LENGTHS = (1, 2, 5)


def alone(which: int, steps: int) -> list[tuple[Any, ...]]:
    """The transitions of one environment, one after the other."""
    env, found = Counter(which, LENGTHS[which]), []
    obs, _ = env.reset()
    for action in range(steps):
        after, reward, terminated, truncated, _ = env.step(action % 3)
        found.append((tuple(obs), action % 3, reward, tuple(after), terminated, truncated))
        obs = env.reset()[0] if terminated or truncated else after
    return found


def check(transitions: list[Transition], least: int) -> None:
    """Each environment's transitions are those of its twin that is stepped alone, in order."""
    for which in range(len(LENGTHS)):
        found = [
            (tuple(t.obs), t.reward, tuple(t.next_obs), t.terminated, t.truncated)
            for t in transitions
            if t.obs[0] == which
        ]
        twin = [(o, r, n, end, cut) for o, _, r, n, end, cut in alone(which, len(found))]
        assert found == twin and len(found) >= least
        assert all(t.next_obs[0] == t.obs[0] for t in transitions)


def test_several_side_by_side() -> None:
    envs = [Counter(which, length) for which, length in enumerate(LENGTHS)]
    world = Envs(envs, [env.reset()[0] for env in envs])
    found = [t for _ in range(12) for t in world.step([0, 1, 2])]
    check(found, 12)
    assert [t.action for t in found[:3]] == [0, 1, 2]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_of_gymnasiums_resets_in_any_way(mode: AutoresetMode) -> None:
    makers = [lambda w=w, n=n: Counter(w, n) for w, n in enumerate(LENGTHS)]
    env = SyncVectorEnv(makers, autoreset_mode=mode)
    world = VectorWorld(env, env.reset(seed=0)[0])
    found = [t for _ in range(12) for t in world.step([0, 1, 2])]
    check(found, 6)
    ends = sum(t.terminated or t.truncated for t in found)
    assert len(world.tally.finished) == ends
    assert {episode.length for episode in world.tally.finished} == set(LENGTHS)
    assert all(e.total == e.length * (e.length + 1) / 2 for e in world.tally.finished)


def test_actions_that_are_not_discrete_are_refused() -> None:
    env = gym.make("Pendulum-v1")
    with pytest.raises(TypeError, match="must have actions Discrete"):
        Envs([env], [env.reset()[0]])


def test_observations_that_are_no_numbers_are_refused() -> None:
    env = Counter(0, 5)
    world = Envs([env], [env.reset()[0]])
    env.which = np.nan  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"gave the observation \[nan"):
        world.step([0])

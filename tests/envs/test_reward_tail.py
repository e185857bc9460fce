"""The mean-preserving tail of rewards, on an environment that pays what it is told."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay.envs import MeanPreservingTail
from sibling_replay.testing.chi_square import LawRejected, check_counts


class Payer(gym.Env[Any, Any]):
    """Pays what the action says: rewards for the tail to act on."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Box(-10.0, 10.0, ())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(action), False, False, {}


def test_the_tail_preserves_the_mean_exactly() -> None:
    tail = MeanPreservingTail(Payer())
    p = tail.probability
    assert (p, tail.loss) == (0.02, 30.0)
    for reward in (0.25, 1.0, 7.0):
        mean = p * (reward - tail.loss) + (1 - p) * (reward + tail.gain)
        assert mean == pytest.approx(reward, rel=0, abs=1e-14)


def test_the_tail_is_a_two_point_law_on_positive_rewards_only() -> None:
    tail = MeanPreservingTail(Payer())
    tail.reset(seed=1)
    seen = np.array([tail.step(1.0)[1] for _ in range(50_000)])
    low, high = 1.0 - 30.0, 1.0 + 0.02 * 30.0 / 0.98
    assert set(seen) == {low, high}
    check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.02, 0.98])
    with pytest.raises(LawRejected):
        check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.025, 0.975])
    for reward in (0.0, -1.0, -29.0):
        assert {tail.step(reward)[1] for _ in range(500)} == {reward}


def test_the_tail_goes_on_from_its_state() -> None:
    tail, twin = MeanPreservingTail(Payer()), MeanPreservingTail(Payer())
    tail.reset(seed=1)
    [tail.step(1.0) for _ in range(100)]
    twin.load_state_dict(json.loads(json.dumps(tail.state_dict())))
    assert [tail.step(1.0)[1] for _ in range(500)] == [twin.step(1.0)[1] for _ in range(500)]


@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan")])
def test_a_bad_tail_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        MeanPreservingTail(Payer(), probability=probability)


def test_every_reward_can_have_a_tail() -> None:
    tail = MeanPreservingTail(Payer(), of_every_reward=True)
    tail.reset(seed=2)
    seen = np.array([tail.step(-1.0)[1] for _ in range(20_000)])
    low, high = -1.0 - 30.0, -1.0 + 0.02 * 30.0 / 0.98
    assert set(seen) == {low, high}
    check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.02, 0.98])

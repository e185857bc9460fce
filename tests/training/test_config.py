"""Run configurations: the paper's numbers, the schedules, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sibling_replay import Prioritized, register
from sibling_replay.strategies.registry import _KINDS
from sibling_replay.training.config import ENVIRONMENTS, METHODS, TabularConfig, paper_config
from sibling_replay.training.gym_config import gym_config
from sibling_replay.training.methods import draws_by_siblings, strategy_of


def test_settings_of_the_paper() -> None:
    """Spot checks against table `tab:grid-settings`, one a column and row."""
    bandit, chains, lake = (
        paper_config(env, "PER", 0) for env in ("OutlierBandit", "TwoChains", "FrozenLake-H50")
    )
    assert [c.steps for c in (bandit, chains, lake)] == [50_000, 100_000, 500_000]
    assert [c.capacity for c in (bandit, chains, lake)] == [5_000, 5_000, 50_000]
    assert [c.learning_starts for c in (bandit, chains, lake)] == [500, 1_000, 5_000]
    assert [c.learning_rate for c in (bandit, chains, lake)] == [7.5e-4, 7.5e-4, 3e-3]
    assert [c.gamma for c in (bandit, chains, lake)] == [0.0, 0.99, 0.99]
    assert [c.target_interval for c in (bandit, chains, lake)] == [500, 1_000, 1_000]
    assert [c.epsilon_end for c in (bandit, chains, lake)] == [0.02, 0.05, 0.05]
    assert [c.epsilon_decay_steps for c in (bandit, chains, lake)] == [10_000, 50_000, 500_000]
    assert [c.eval_episodes for c in (bandit, chains, lake)] == [500, 200, 50]
    assert [c.eval_every_episodes for c in (bandit, chains, lake)] == [500, 100, 20]
    assert all(c.beta_updates == c.steps for c in (bandit, chains, lake))
    assert (lake.alpha, lake.beta_start, lake.beta_end, lake.batch_size) == (0.6, 0.4, 1.0, 32)


@pytest.mark.parametrize(
    ("env", "method", "siblings", "all_siblings"),
    [
        ("OutlierBandit", "AVG", None, False),
        ("TwoChains", "AVG", None, True),
        ("FrozenLake-H100/H300", "AVG-g2", 2, True),
        ("FrozenLake-H100/H300", "AVG-g4", 4, True),
        ("TwoChains", "SAMPLE", None, False),
    ],
)
def test_averages_of_the_paper(
    env: str, method: str, siblings: int | None, all_siblings: bool
) -> None:
    config = paper_config(env, method, 0)
    assert (config.max_siblings, config.update_all_siblings) == (siblings, all_siblings)


def test_every_environment_has_every_method() -> None:
    for env in ENVIRONMENTS:
        for method in METHODS:
            assert paper_config(env, method, 1).method == method


def test_schedules() -> None:
    config = paper_config("OutlierBandit", "PER", 0)
    assert config.beta(0) == 0.4
    assert config.beta(25_000) == pytest.approx(0.7)
    assert config.beta(49_999) < 1.0  # toward 1
    assert config.beta(60_000) == 1.0
    assert config.epsilon(0) == 1.0
    assert config.epsilon(5_000) == pytest.approx(0.51)
    assert config.epsilon(10_000) == config.epsilon(40_000) == 0.02
    fixed = replace(config, beta_start=0.7, beta_end=0.7, beta_updates=0)
    assert fixed.beta(0) == fixed.beta(12_345) == 0.7


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"method": "PEER"}, "unknown method 'PEER'"),
        ({"method": "AVG-g0"}, "unknown method"),
        ({"method": "AVG-g2"}, "max_siblings=None does not fit"),
        ({"max_siblings": 2}, "max_siblings=2 does not fit"),
        ({"update_all_siblings": True}, "update_all_siblings is for AVG"),
        ({"env": ""}, "env must be"),
        ({"seed": -1}, "seed must be an int >= 0"),
        ({"seed": 1.0}, "seed must be an int >= 0"),
        ({"steps": 0}, "steps must be an int >= 1"),
        ({"steps": True}, "steps must be an int >= 1"),
        ({"capacity": 0}, "capacity must be an int >= 1"),
        ({"batch_size": 0}, "batch_size must be an int >= 1"),
        ({"eval_every_episodes": 0}, "eval_every_episodes must be"),
        ({"target_interval": 0}, "target_interval must be"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"grad_clip": float("inf")}, "grad_clip must be positive"),
        ({"gamma": 1.1}, "gamma must be between 0 and 1"),
        ({"beta_end": 1.5}, "beta_end must be between 0 and 1"),
        ({"epsilon_start": -0.1}, "epsilon_start must be between 0 and 1"),
        ({"alpha": float("nan")}, "alpha must be non-negative"),
        ({"diagnostics_every": -1}, "diagnostics_every must be"),
    ],
)
def test_bad_settings_are_refused(bad: dict[str, Any], message: str) -> None:
    good = paper_config("TwoChains", "PER", 0)
    with pytest.raises(ValueError, match=message):
        replace(good, **bad)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown settings: learning_rte"):
        paper_config("TwoChains", "PER", 0, learning_rte=1.0)


def test_a_config_is_hashable_and_compares_by_value() -> None:
    assert paper_config("TwoChains", "PER", 0) == paper_config("TwoChains", "PER", 0)
    assert len({paper_config("TwoChains", "PER", seed) for seed in (0, 0, 1)}) == 2
    assert isinstance(
        paper_config("Taxi-v3", "PER", 0), TabularConfig
    )  # borrows FrozenLake's column


def test_a_strategy_may_have_a_name_that_begins_as_ours_does() -> None:
    @register
    @dataclass(frozen=True, kw_only=True)
    class AVGmine(Prioritized):
        name = "AVGmine"

    try:
        found = strategy_of(gym_config("CartPole-v1", "AVGmine", 0))
        assert type(found) is AVGmine and draws_by_siblings("AVGmine") is False
    finally:
        _KINDS.pop("AVGmine")

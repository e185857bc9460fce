"""Runs of `DQN` as a study has them: repeatable, measured, taken up again to the same bytes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import Combined, LaBER, ReplayBuffer, SiblingSample, Uniform
from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.training import dqn
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.gym_run import train_gym
from sibling_replay.training.replay_measures import purity, replay_measures
from sibling_replay.training.results import RunResult

SHORT = GymConfig(
    env="CartPole-v1",
    method="SAMPLE",
    key="grid:4",
    condition="mp-tail",
    seed=7,
    steps=1_203,  # divides nothing
    learning_starts=200,
    epsilon_decay_steps=600,
    beta_updates=1_003,
    eval_every_steps=500,
    eval_episodes=3,
)


def check_same(one: RunResult, other: RunResult) -> None:
    for name in ("eval_step", "eval_episode", "eval_return"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name, values in one.diagnostics.items():
        assert np.array_equal(values, other.diagnostics[name], equal_nan=True), name
    assert (one.episodes, one.updates) == (other.episodes, other.updates)


def test_a_run_is_a_function_of_its_config() -> None:
    first = train_gym(SHORT)
    check_same(first, train_gym(SHORT))
    assert first.eval_step.tolist() == [500, 1_000, 1_203]
    assert first.updates == 1_203 - 199 and first.episodes > 10
    assert not np.array_equal(train_gym(replace(SHORT, seed=8)).eval_return, first.eval_return)


@pytest.mark.parametrize(("method", "low", "high"), [("DDQN", 1.0, 1.0), ("PER", 2.0, 30.0)])
def test_the_tail_is_measured_by_the_law(method: str, low: float, high: float) -> None:
    found = train_gym(replace(SHORT, method=method, key="")).diagnostics["tail_ratio"]
    assert low - 1e-9 <= found[-1] <= high + 1e-9


def test_groups_correct_the_tail() -> None:
    found = train_gym(SHORT).diagnostics
    assert found["groups_per_entry"][-1] < 0.2 and found["tail_ratio"][-1] < 2.5


def test_the_clean_environment_has_no_tail() -> None:
    assert np.isnan(train_gym(replace(SHORT, condition="clean")).diagnostics["tail_ratio"]).all()


class Stop(Exception):
    """In the middle of a run."""


@pytest.fixture
def a_second_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock by which checkpoints are written goes by looks at it, one a step."""
    seconds = itertools.count()
    monkeypatch.setattr(dqn, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


def stopped(config: GymConfig, at: int, checkpoint: Path) -> None:
    """Begin a run, with a checkpoint every 90 seconds, and stop it at a step."""

    def stop(model: Any) -> None:
        if model.steps == at:
            raise Stop

    with pytest.raises(Stop):
        train_gym(config, checkpoint=checkpoint, checkpoint_seconds=90.0, observe=stop)
    kept = RollingCheckpoint(checkpoint).load()
    assert kept is not None and at - 100 < kept[0]["steps"] < at


@pytest.mark.usefixtures("a_second_a_look")
@pytest.mark.parametrize("at", [500, 1_000])
def test_a_run_that_is_stopped_goes_on_to_the_same_result(at: int, tmp_path: Path) -> None:
    config = replace(SHORT, steps=1_500)
    stopped(config, at, tmp_path)
    check_same(train_gym(config, checkpoint=tmp_path), train_gym(config))


@pytest.mark.usefixtures("a_second_a_look")
def test_seconds_go_on_where_a_stopped_run_was(tmp_path: Path) -> None:
    config = replace(SHORT, steps=1_500, timed=True)
    stopped(config, 1_000, tmp_path)
    seconds = train_gym(config, checkpoint=tmp_path).diagnostics["cpu_seconds"]
    assert (np.diff(seconds) > 0).all()


def test_measures_are_of_the_batches_that_are_drawn() -> None:
    """Combined takes the newest once a batch; LaBER's second stage hangs on present errors."""
    for strategy, expected in ((Combined(), (1 / 32 + 31 / 32 * 0.1) / 0.1), (LaBER(), np.nan)):
        buffer = ReplayBuffer.for_env(gym.make("CartPole-v1"), 10, strategy, seed=0)
        for i in range(10):
            buffer.add(np.full(4, i, np.float32), 0, -30.0 * (i == 9), np.zeros(4), False, False)
        ratio = replay_measures(buffer, 30.0, 32)[0]
        np.testing.assert_allclose(ratio, expected)


def test_what_has_no_effect_is_refused() -> None:
    with pytest.raises(ValueError, match="diagnostics_every must be 0"):
        replace(SHORT, diagnostics_every=100)


def test_purity_is_the_share_of_variance_between_groups() -> None:
    env = gym.make("CartPole-v1")
    values = np.array([1.0, 3.0, 5.0, 7.0])
    obs = np.arange(16, dtype=np.float32).reshape(4, 4)

    def purity_by(key: Any) -> float:
        buffer = ReplayBuffer.for_env(env, 8, SiblingSample(), key=key, seed=0)
        ends = np.zeros(4, bool)
        buffer.extend(obs, np.zeros(4, int), np.zeros(4), obs, ends, ends)
        return purity(buffer, lambda obs, action: values[(obs[:, 0] // 4).astype(int)])

    assert purity_by("exact") == 1.0
    assert purity_by(lambda obs, action: 0) == pytest.approx(0.0)
    assert purity_by(lambda obs, action: obs[0] // 8) == pytest.approx(0.8)  # (1, 3) and (5, 7)
    alone = ReplayBuffer.for_env(env, 8, Uniform(), seed=0)
    alone.add(obs[0], 0, 0.0, obs[1], False, False)
    assert np.isnan(purity(alone, lambda obs, action: values[:1]))

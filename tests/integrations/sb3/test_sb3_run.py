"""Runs of a study in SB3: repeatable, measured exactly, and with the settings of their config."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sibling_replay.integrations.sb3_run import _control, _dqn, train_sb3
from sibling_replay.training.control_config import ControlConfig
from sibling_replay.training.gym_config import GymConfig

SHORT = GymConfig(
    learner="sb3",
    env="CartPole-v1",
    method="SAMPLE",
    key="grid:4",
    condition="mp-tail",
    seed=7,
    steps=1_203,  # divides nothing
    learning_starts=200,
    epsilon_decay_steps=600,
    beta_updates=1_203,
    eval_every_steps=500,
    eval_episodes=3,
)


def test_a_run_is_a_function_of_its_config() -> None:
    first, again = train_sb3(SHORT), train_sb3(SHORT)
    assert first.eval_step.tolist() == [500, 1_000, 1_203]
    assert first.updates == 1_203 - 200 and first.episodes > 10
    for name in ("eval_episode", "eval_return"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    for name, values in first.diagnostics.items():
        assert np.array_equal(values, again.diagnostics[name], equal_nan=True), name
    assert not np.array_equal(train_sb3(replace(SHORT, seed=8)).eval_return, first.eval_return)


@pytest.mark.parametrize(("method", "low", "high"), [("DDQN", 1.0, 1.0), ("PER", 2.0, 30.0)])
def test_the_tail_is_measured_by_the_law(method: str, low: float, high: float) -> None:
    """Uniform replay draws the rare outcome as often as it is stored; PER far more often."""
    found = train_sb3(replace(SHORT, method=method, key="")).diagnostics["tail_ratio"]
    assert low - 1e-9 <= found[-1] <= high + 1e-9


def test_groups_correct_the_tail() -> None:
    found = train_sb3(SHORT).diagnostics
    assert found["groups_per_entry"][-1] < 0.2
    assert found["tail_ratio"][-1] < 2.5


def test_settings_reach_the_model() -> None:
    model = _dqn(
        replace(SHORT, hidden_layers="32-16-8", train_every=4, updates_a_round=2, loss="huber")
    )
    sizes = [layer.out_features for layer in model.q_net.q_net if hasattr(layer, "out_features")]
    assert sizes == [32, 16, 8, 2]
    assert (model.train_freq.frequency, model.gradient_steps, model.loss) == (4, 2, "huber")
    assert model.exploration_schedule(1.0) == 1.0
    assert model.exploration_schedule(0.5) == pytest.approx(0.05, abs=2e-3)


def test_another_annealing_than_sb3s_is_refused() -> None:
    with pytest.raises(ValueError, match="beta_updates=1203, got 'sb3' and 100"):
        train_sb3(replace(SHORT, beta_updates=100))


CONTROL = ControlConfig(
    env="Pendulum-v1",
    method="SAMPLE",
    key="auto",
    condition="mp-tail",
    tail_magnitude=40.0,
    seed=7,
    steps=703,  # divides nothing
    learning_starts=200,
    beta_updates=703,
    batch_size=32,
    hidden_layers="16-16",
    eval_every_steps=300,
    eval_episodes=2,
)


@pytest.mark.parametrize("algorithm", ["SAC", "TD3"])
def test_a_run_of_control_is_a_function_of_its_config(algorithm: str) -> None:
    noise = 0.1 if algorithm == "TD3" else 0.0
    config = replace(CONTROL, algorithm=algorithm, action_noise=noise)
    first, again = train_sb3(config), train_sb3(config)
    assert first.eval_step.tolist() == [300, 600, 703]
    assert first.updates == 703 - 200 and first.episodes == 3
    assert np.array_equal(first.eval_return, again.eval_return)
    for name, values in first.diagnostics.items():
        assert np.array_equal(values, again.diagnostics[name], equal_nan=True), name
    assert first.diagnostics["groups_per_entry"][-1] < 0.5
    per = train_sb3(replace(config, method="PER", key=""))
    assert not np.array_equal(per.eval_return, first.eval_return)
    assert per.diagnostics["tail_ratio"][-1] > first.diagnostics["tail_ratio"][-1]


def test_settings_of_control_reach_the_model() -> None:
    model = _control(replace(CONTROL, algorithm="TD3", action_noise=0.2, gamma=0.9, tau=0.1))
    assert type(model).__name__ == "SiblingTD3"
    assert model.action_noise._sigma.tolist() == [0.2] and model.gamma == 0.9 and model.tau == 0.1
    assert model.actor.mu[0].out_features == 16
    assert type(_control(CONTROL)).__name__ == "SiblingSAC"

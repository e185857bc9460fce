"""DQN of n steps: what both learners are trained toward, and runs that go on."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingAverage, SiblingSample, Uniform
from sibling_replay.training import DQN
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.gym_run import train_gym

SMALL = dict(hidden=(16,), learning_starts=50, capacity=300, batch_size=16, seed=0)
LEARNERS = ["compiled", "torch"]


def new_model(strategy, learner="compiled", env="CartPole-v1", **options):
    if learner == "torch":
        pytest.importorskip("torch")
    key = "exact" if strategy.needs.groups else None
    return DQN(env, strategy=strategy, key=key, learner=learner, **{**SMALL, **options})


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("strategy", [Prioritized, SiblingAverage])
@pytest.mark.parametrize("learner", LEARNERS)
def test_errors_are_of_n_step_targets(learner, strategy, through):
    """R + gamma^k (1 - d) Q_target(s', argmax Q(s')), outcome by outcome, in float64 by hand."""
    model = new_model(
        strategy(), learner, "FrozenLake-v1", n_steps=3, gamma=0.8, through_time_limits=through
    )
    model.learn(120)
    batch = model.buffer.sample(64)
    outcomes = batch.outcomes
    online = model.values(outcomes.next_obs)
    frozen = model.learner.arrays()
    model.learner.move_target()  # so that `values` are those of the target network
    target = model.values(outcomes.next_obs)
    ended = outcomes.terminated | (outcomes.truncated & (not through))
    bootstrap = target[np.arange(len(target)), online.argmax(axis=1)]
    expected = batch.average(outcomes.reward + outcomes.discount * ~ended * bootstrap)
    before = model.values(batch.obs)[np.arange(64), batch.action]
    errors = model.learner.update(batch)
    np.testing.assert_allclose(errors, expected - before, atol=1e-5)
    assert np.unique(np.round(outcomes.discount, 4)).size > 1 and frozen


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_buffer_holds_what_n_steps_led_to(learner):
    """In three environments, by hand from the rounds that were played."""
    model = new_model(Uniform(), learner, n_envs=3, n_steps=4, gamma=0.5)
    model.learn(151)  # not a whole number of rounds: the last two are not kept
    model.learn(62)
    found = model.buffer.transitions()
    steps = np.round(np.log2(1 / found["discount"])).astype(int)
    assert set(steps) == {1, 2, 3, 4} and (steps == 4).sum() > 100
    np.testing.assert_allclose(found["reward"], 2 - 2.0 ** (1 - steps))  # CartPole pays 1 a step
    obs = {row.tobytes(): place for place, row in enumerate(found["obs"])}
    ended = found["terminated"] | found["truncated"]
    for place in np.flatnonzero((steps == 4) & ~ended):
        after = obs.get(found["next_obs"][place].tobytes())
        assert after is None or after - place <= 4 * 3 + 3  # the entry of four rounds later
    # Nothing continues over a step that was not kept.
    kept = {row.tobytes() for row in found["obs"]}
    full = [place for place in np.flatnonzero(steps == 4) if place < 135]
    assert all(found["next_obs"][p].tobytes() in kept or ended[p] for p in full)


def test_both_learners_walk_one_way():
    pytest.importorskip("torch")
    runs = [new_model(SiblingSample(), learner, n_steps=3).learn(70) for learner in LEARNERS]
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    np.testing.assert_allclose(runs[0].values(obs), runs[1].values(obs), rtol=1e-3, atol=1e-4)
    single = new_model(SiblingSample()).learn(70)
    assert np.abs(single.values(obs) - runs[0].values(obs)).max() > 1e-3


def test_a_run_of_n_steps_goes_on_from_a_checkpoint(tmp_path):
    def model():
        return new_model(SiblingSample(), n_envs=2, n_steps=3)

    whole = model().learn(200)
    model().learn(200, callback=lambda each: each.steps < 120, callback_every=10,
                  checkpoint=tmp_path, checkpoint_seconds=0.0)  # fmt: skip
    resumed = model().learn(200, checkpoint=tmp_path)
    assert resumed.steps == whole.steps == 200
    state, other = whole.buffer.state_dict(), resumed.buffer.state_dict()
    assert state["header"] == other["header"]
    assert all(np.array_equal(state[name], other[name]) for name in state if name != "header")


def test_a_loaded_model_does_not_continue_the_episode_it_was_saved_in(tmp_path):
    model = new_model(Uniform(), n_steps=5, gamma=0.5, learning_starts=3).learn(3)
    model.save(tmp_path / "model.npz", replay=True)
    other = DQN.load(tmp_path / "model.npz").learn(3)
    assert other.settings.n_steps == 5
    np.testing.assert_allclose(
        other.buffer.transitions()["discount"], [1 / 8, 1 / 4, 1 / 2, 1 / 8, 1 / 4, 1 / 2]
    )


def test_a_vector_environment_that_resets_at_the_next_step():
    env = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    model = new_model(Uniform(), env=env, n_steps=3, gamma=0.5).learn(200)
    found = model.buffer.transitions()
    steps = np.round(np.log2(1 / found["discount"])).astype(int)
    np.testing.assert_allclose(found["reward"], 2 - 2.0 ** (1 - steps))
    ended = found["terminated"] | found["truncated"]
    assert ended.any() and (steps[~ended] == 3).sum() >= (~ended).sum() - 2 * 3


def test_a_study_runs_n_steps_and_names_them_only_if_they_are_set():
    plain = dict(env="CartPole-v1", method="SAMPLE", seed=0, steps=150, eval_every_steps=50,
                 eval_episodes=2, learning_starts=50, key="exact")  # fmt: skip
    assert "n_steps" not in GymConfig(**plain).written()
    config = GymConfig(**plain, n_steps=3)
    assert config.written()["n_steps"] == 3 and GymConfig.of_written(config.written()) == config
    assert train_gym(config).updates == 101
    with pytest.raises(ValueError, match="n_steps must be an int >= 1"):
        GymConfig(**plain, n_steps=0)


def test_a_stop_within_a_round_ends_the_entries_of_those_not_stored():
    """Three environments stopped at step 4: two of the second round are lost, so what these come to
    after it is no continuation."""
    model = new_model(Uniform(), n_envs=3, n_steps=3, gamma=0.5, learning_starts=4)
    model.learn(30, callback=lambda each: each.steps < 4, callback_every=2)
    assert model.steps == 4
    model.learn(8)
    found = model.buffer.transitions()
    steps = np.round(np.log2(1 / found["discount"])).astype(int)
    assert steps.tolist() == [3, 1, 1, 3, 3, 3, 2, 2, 2, 1, 1, 1]
    np.testing.assert_allclose(found["reward"], 2 - 2.0 ** (1 - steps))  # CartPole pays 1 a step

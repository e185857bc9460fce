"""From SB3 to `sibling-replay diagnose`: our buffers and SB3's own."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from sb3_kit import BANDIT, SMALL, small_model
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sibling_replay import Prioritized, SiblingModel, SiblingSample, Uniform
from sibling_replay.cli.diagnose import diagnose
from sibling_replay.integrations.sb3 import export
from sibling_replay.microscope.transitions import Reading, read_transitions
from support.scenes import heavy_tailed, set_priorities

TRANSITION = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


def columns_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "header"}


def q_values(net, obs):
    with th.no_grad():
        return net(th.as_tensor(obs)).numpy()


def move_target_network(model):
    for parameter in model.q_net_target.parameters():  # or both networks choose the same action
        parameter.data += 0.3 * th.randn(parameter.shape, generator=th.Generator().manual_seed(1))


@pytest.mark.parametrize("double_q", [False, True])
def test_a_model_is_written_with_its_priorities_and_targets(double_q, tmp_path):
    model = small_model(SiblingSample(alpha=0.9), make_vec_env("FrozenLake-v1", 2, seed=1),
                        double_q=double_q, gamma=0.9).learn(150)  # fmt: skip
    move_target_network(model)
    storage = model.replay_buffer.storage
    set_priorities(storage, heavy_tailed(np.random.default_rng(1), len(storage)))
    export(model, tmp_path / "lake.npz")
    columns, stored = columns_of(tmp_path / "lake.npz"), storage.transitions()
    for name in TRANSITION:
        assert np.array_equal(columns[name], stored[name]), name
    assert "group" not in columns and stored["terminated"].any()
    target_values = q_values(model.q_net_target, stored["next_obs"].reshape(-1, 1))
    chosen = q_values(model.q_net, stored["next_obs"].reshape(-1, 1)) if double_q else target_values
    rows = np.arange(len(storage))
    q_next = target_values[rows, chosen.argmax(axis=1)]
    target = stored["reward"] + 0.9 * ~stored["terminated"] * q_next
    q = q_values(model.q_net, stored["obs"].reshape(-1, 1))[rows, stored["action"]]
    np.testing.assert_allclose(columns["q_next"], q_next, rtol=1e-5)
    np.testing.assert_allclose(columns["target"], target, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(columns["td_error"], target - q, rtol=1e-4, atol=1e-5)
    read = read_transitions(tmp_path / "lake.npz", Reading())
    np.testing.assert_allclose(read.masses, storage.masses, rtol=1e-9)  # alpha is in the file
    assert read.target_source == "target"


def test_the_stock_dqn_is_written_with_its_td_errors(tmp_path):
    """The same run as with `Uniform`, so the same file."""
    stock = DQN("MlpPolicy", gym.make("CartPole-v1"), **{**SMALL, "buffer_size": 60}).learn(150)
    ours = small_model(Uniform(), "CartPole-v1", buffer_size=60).learn(150)
    for model, name in ((stock, "stock"), (ours, "ours")):
        export(model, tmp_path / name)
    columns, twin = columns_of(tmp_path / "stock"), columns_of(tmp_path / "ours")
    assert set(columns) == {*TRANSITION, "q_next", "target", "td_error"} == set(twin)
    for name in columns:
        assert columns[name].shape == twin[name].shape and columns[name].dtype == twin[name].dtype
        np.testing.assert_array_equal(columns[name], twin[name], err_msg=name)
    assert len(columns["reward"]) == 60 and columns["obs"].shape == (60, 4)
    assert np.abs(columns["td_error"]).max() > 0.1


@pytest.mark.parametrize("steps", [40, 150], ids=["not full", "wrapped"])
def test_a_memory_efficient_stock_buffer(steps, tmp_path):
    """One array holds obs and next_obs; the entry that was overwritten by half is left out."""

    def run(**options):
        options = {**SMALL, "buffer_size": 60, "learning_starts": 500, **options}
        options["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
        export(DQN("MlpPolicy", gym.make("CartPole-v1"), **options).learn(steps), tmp_path / "file")
        return columns_of(tmp_path / "file")

    whole, small = run(), run(optimize_memory_usage=True)
    keep = np.arange(len(whole["reward"])) != (steps % 60 if steps > 60 else -1)
    for name in ("obs", "action", "reward"):
        np.testing.assert_array_equal(small[name], whole[name][keep], err_msg=name)
    going = ~small["terminated"]  # at an end the array holds the next episode's beginning
    np.testing.assert_array_equal(small["next_obs"][going], whole["next_obs"][keep][going])


def test_time_limits_are_no_end_in_targets(tmp_path):
    """As in training: `diagnose` reads the target, and is not left to guess from q_next."""
    lake = gym.make("FrozenLake-v1", max_episode_steps=3)
    model = small_model(SiblingSample(), lake, gamma=0.5).learn(100)
    with th.no_grad():
        model.q_net_target.q_net[-1].bias.fill_(4.0)
    export(model, tmp_path / "file")
    columns = columns_of(tmp_path / "file")
    cut = columns["truncated"]
    assert cut.sum() > 5 and not columns["terminated"][cut].any()
    expected = columns["reward"] + 0.5 * columns["q_next"] * ~columns["terminated"]
    np.testing.assert_allclose(columns["target"], expected, rtol=1e-6)
    assert np.abs(columns["target"][cut] - columns["reward"][cut]).min() > 1.0


def test_under_vec_normalize_transitions_are_raw_and_targets_as_learnt(tmp_path):
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=1), gamma=0.9)
    model = small_model(Prioritized(), env, gamma=0.9).learn(200)
    export(model, tmp_path / "file")
    columns, stored = columns_of(tmp_path / "file"), model.replay_buffer.storage.transitions()
    assert np.array_equal(columns["obs"], stored["obs"])
    assert np.array_equal(columns["reward"], stored["reward"])
    q_next = q_values(model.q_net_target, env.normalize_obs(stored["next_obs"])).max(axis=1)
    target = env.normalize_reward(stored["reward"]) + 0.9 * q_next * ~stored["terminated"]
    np.testing.assert_allclose(columns["target"], target, rtol=1e-5)


def test_groups_of_a_key_function_are_written(tmp_path):
    model = small_model(
        SiblingSample(), "CartPole-v1", key=lambda obs, action: (obs[2] > 0) * 2 + action
    )
    export(model.learn(100), tmp_path / "file")
    groups = model.replay_buffer.storage.groups
    assert np.array_equal(columns_of(tmp_path / "file")["group"], groups)
    assert np.unique(groups).size == 4
    read = read_transitions(tmp_path / "file", Reading())
    assert np.unique(read.groups).size == 4


def test_diagnose_finds_what_per_does_to_a_stock_run(tmp_path, capsys):
    """A stock DQN on OutlierBandit: its risky arm would be bent, and SAMPLE would not bend it."""
    model = DQN(
        "MlpPolicy", gym.make(BANDIT), **{**SMALL, "buffer_size": 2_000}, gamma=0.0,
        learning_rate=1e-3, exploration_fraction=1.0, exploration_final_eps=1.0,
    ).learn(2_000)  # fmt: skip
    export(model, tmp_path / "bandit.npz")
    assert diagnose(tmp_path / "bandit.npz", json=tmp_path / "found.json") == 0
    said = capsys.readouterr()
    assert "Distorted" in said.out and "Rewards stand in" not in said.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["summary"]["entries"] == 2_000 and found["summary"]["tv"] > 0.01


def test_a_buffer_alone_has_priorities_and_no_targets(tmp_path):
    model = small_model(SiblingModel()).learn(60)
    export(model.replay_buffer, tmp_path / "file")
    assert set(columns_of(tmp_path / "file")) == {*TRANSITION, "priority"}


def test_what_cannot_be_exported_is_named(tmp_path):
    stock = DQN("MlpPolicy", "FrozenLake-v1", **SMALL)
    steps = DQN("MlpPolicy", "FrozenLake-v1", n_steps=3, **SMALL).learn(40)
    uniform = small_model(Uniform()).learn(40)
    for source, error, match in (
        (stock, ValueError, "empty"),
        (small_model(SiblingSample()), ValueError, "empty"),
        (stock.replay_buffer, TypeError, "not ReplayBuffer"),
        (steps, TypeError, "not DQN with a NStepReplayBuffer"),
        (uniform.replay_buffer, ValueError, "Uniform has no priorities: export the model"),
    ):
        with pytest.raises(error, match=match):
            export(source, tmp_path / "file")
    assert not list(tmp_path.iterdir())

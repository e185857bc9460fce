"""Dict observations in SB3 (`MultiInputPolicy`): its own runs under Uniform, groups, files."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from algorithms_kit import ALGORITHMS, SMALL, STOCK, WITH_ACTOR, learnt, with_small
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.grouping import Auto, Entries
from sibling_replay.integrations.sb3 import export
from sibling_replay.microscope.transitions import Reading, read_transitions


class Rooms(gym.Env):
    """Five rooms in a row; a dial that says nothing."""

    def __init__(self, continuous=False):
        self.observation_space = spaces.Dict(
            {"room": spaces.Discrete(5), "dial": spaces.Box(-1, 1, (2,), np.float32)}
        )
        self.action_space = spaces.Box(-1, 1, (1,)) if continuous else spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.steps = 2, 0
        return self._obs(), {}

    def step(self, action):
        right = np.asarray(action).ravel()[0] > 0
        self.room += 1 if right and self.np_random.random() < 0.8 else -1
        self.room, self.steps = min(max(self.room, 0), 4), self.steps + 1
        ended = self.room == 4
        return self._obs(), float(ended), ended, self.steps >= 15 and not ended, {}

    def _obs(self):
        return {"room": self.room, "dial": self.np_random.uniform(-1, 1, 2).astype(np.float32)}


def env_of(name, n_envs=1):
    continuous = dict(continuous=name in WITH_ACTOR)
    return make_vec_env(Rooms, n_envs=n_envs, seed=1, env_kwargs=continuous)


def model_of(name, strategy, n_envs=1, env=None, **options):
    env = env_of(name, n_envs) if env is None else env
    return ALGORITHMS[name]("MultiInputPolicy", env, strategy=strategy, **with_small(name, options))


def stock_of(name, env):
    return STOCK[ALGORITHMS[name]]("MultiInputPolicy", env, **with_small(name, {}))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uniform_is_the_stock_run(name):
    for n_envs in (1, 3):
        stock = stock_of(name, env_of(name, n_envs))
        assert type(stock.replay_buffer) is DictReplayBuffer
        stock.learn(SMALL["learning_starts"] + 200 * n_envs)
        ours = model_of(name, Uniform(), n_envs).learn(SMALL["learning_starts"] + 200 * n_envs)
        assert np.array_equal(learnt(stock), learnt(ours)) and ours._n_updates >= 200


def test_uniform_is_the_stock_run_normalised():
    def env():
        return VecNormalize(env_of("SiblingSAC", 2), norm_obs_keys=["dial"])

    stock = stock_of("SiblingSAC", env()).learn(200)
    ours = model_of("SiblingSAC", Uniform(), env=env()).learn(200)
    assert np.array_equal(learnt(stock), learnt(ours))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_siblings_by_chosen_entries_train_and_are_saved(name, tmp_path):
    """Several environments and steps; no two dials are equal, but rooms are."""
    key = Entries("room") if name not in WITH_ACTOR else Entries("room", then=Auto(fit_after=40))
    model = model_of(name, SiblingSample(), 2, key=key, n_steps=2, gamma=0.9).learn(200)
    storage = model.replay_buffer.storage
    assert np.unique(storage.groups).size < 30 and np.unique(storage.masses).size > 20
    if name not in WITH_ACTOR:
        columns = storage.transitions()
        pairs = set(zip(columns["obs"]["room"], columns["action"], strict=True))
        assert np.unique(storage.groups).size == len(pairs)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = type(model).load(tmp_path / "model", env=env_of(name, 2), device="cpu")
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    for each in (model, twin):
        th.manual_seed(1)
        each.train(5, batch_size=16)
    assert np.array_equal(learnt(model), learnt(twin)) and np.isfinite(learnt(model)).all()


def test_a_key_function_sees_elements_of_the_space():
    seen = []
    model = model_of(
        "SiblingDQN", SiblingSample(), key=lambda obs, action: seen.append(obs) or obs["room"]
    )
    model.learn(30)
    assert type(seen[-1]["room"]) is np.int64 and seen[-1]["dial"].shape == (2,)


def test_a_dict_model_is_exported(tmp_path):
    model = model_of("SiblingDQN", Prioritized()).learn(60)
    export(model, tmp_path / "rooms.npz")
    read = read_transitions(tmp_path / "rooms.npz", Reading())
    assert read.columns["obs"].shape == (60, 3) and np.isfinite(read.targets).all()

"""Dict observations in Tianshou: its DQN and collector, with its buffer and with ours."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou_kit import check, run_training

from sibling_replay import SiblingSample, Uniform
from sibling_replay.grouping import Auto, Entries
from sibling_replay.integrations.tianshou import SiblingVectorReplayBuffer, export
from sibling_replay.microscope.transitions import Reading, read_transitions

ENVS, ROOMS = 2, 4


class Rooms(gym.Env):
    """A walk over rooms, with a dial of three positions that says nothing."""

    observation_space = spaces.Dict(
        {
            "room": spaces.Box(0, 1, (ROOMS,), np.float32),
            "dial": spaces.Dict({"turn": spaces.Box(0, 2, (1,), np.float32)}),
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = 1
        return self._obs(), {}

    def step(self, action):
        right = action and self.np_random.random() < 0.8
        self.room = min(max(self.room + (1 if right else -1), 0), 3)
        return self._obs(), float(self.room == 3), self.room == 3, False, {}

    def _obs(self):
        turn = np.float32([self.np_random.integers(3)])
        return {"room": np.eye(ROOMS, dtype=np.float32)[self.room], "dial": {"turn": turn}}


class Values(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(ROOMS + 1, 2)

    def forward(self, obs, state=None, info=None):
        rows = [torch.as_tensor(part) for part in (obs["room"], obs["dial"]["turn"])]
        return self.linear(torch.cat(rows, dim=1).float()), state


def train(buffer):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  Tianshou explores with it
    model = Values()
    policy = DiscreteQLearningPolicy(model=model, action_space=Rooms.action_space, eps_training=0.5)
    dqn = DQN(policy=policy, optim=AdamOptimizerFactory(lr=0.01), target_update_freq=20)
    envs = DummyVectorEnv([Rooms for _ in range(ENVS)])
    envs.seed(0)
    run_training(dqn, envs, buffer, 400)
    return model


def test_uniform_is_the_stock_buffer():
    stock = train(VectorReplayBuffer(1_000, ENVS, random_seed=5))
    ours = train(SiblingVectorReplayBuffer(1_000, ENVS, Uniform(), random_seed=5))
    assert torch.equal(stock.linear.weight, ours.linear.weight)


@pytest.mark.parametrize("key", [None, Entries("room"), Auto(fit_after=200)], ids=repr)
def test_siblings_of_dict_observations_train(key, tmp_path):
    buffer = SiblingVectorReplayBuffer(1_000, ENVS, SiblingSample(), key=key, random_seed=5)
    model = train(buffer)
    check(buffer)
    live = buffer.replay.sampler.live_slots
    obs, act = buffer.get(live, "obs"), buffer.act[live]
    told = [obs.room] if key is not None and "room" in repr(key) else [obs.room, obs.dial.turn]
    pairs = np.unique(np.column_stack([*told, act]), axis=0)
    if not isinstance(key, Auto):
        assert buffer.support().groups == len(pairs) and len(pairs) < 30
    assert np.unique(buffer.replay.sampler.masses[live]).size > 20  # refreshed
    with torch.no_grad():
        export(buffer, tmp_path / "rooms.npz", next_values=lambda obs: model(obs)[0].amax(dim=1))
    read = read_transitions(tmp_path / "rooms.npz", Reading(gamma=0.9))
    assert read.columns["obs"].shape == (len(live), ROOMS + 1) and np.ptp(read.targets) > 0

"""TorchRL's own parts put together: a DQN on the paper's bandit, with any sampler."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from tensordict import TensorDict
from torch import nn
from torchrl.collectors import Collector, RandomPolicy
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss, ValueEstimators

import sibling_replay.envs  # noqa: F401  registers the bandit


class ActionValues(nn.Module):
    """One weight an action: what is learnt is the value itself."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(2))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.values.expand(*observation.shape[:-1], 2)


def make_env() -> GymWrapper:
    bandit = gym.wrappers.FlattenObservation(gym.make("sibling_replay/OutlierBandit-v0"))
    return GymWrapper(bandit, categorical_action_encoding=True)


def make_loss(env: GymWrapper) -> tuple[DQNLoss, ActionValues]:
    model = ActionValues()
    actor = QValueActor(model, in_keys=["observation"], spec=env.action_spec)
    loss = DQNLoss(actor, loss_function="l2", delay_value=False)
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99)
    return loss, model


def train(sampler, seed: int, steps: int) -> np.ndarray:
    """Both arms tried equally often; an update of 32 every second step. Returns the action values
    after each 20 steps: [steps / 20, 2]."""
    torch.manual_seed(seed)
    env = make_env()
    env.set_seed(seed)
    loss, model = make_loss(env)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(steps), sampler=sampler, batch_size=32, priority_key="td_error"
    )
    values = []
    collector = Collector(
        env, RandomPolicy(env.action_spec), frames_per_batch=20, total_frames=steps
    )
    for data in collector:
        buffer.extend(data)
        for _ in range(10):
            sample = buffer.sample()
            error = loss(sample)["loss"]
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            buffer.update_tensordict_priority(sample)
        values.append(model.values.detach().numpy().copy())
    collector.shutdown()
    return np.array(values)


def entries(obs, actions, rewards=None) -> TensorDict:
    obs = torch.as_tensor(obs, dtype=torch.float32).reshape(-1, 1)
    count = len(obs)
    reward = torch.zeros(count, 1) if rewards is None else torch.as_tensor(rewards).reshape(-1, 1)
    done = torch.zeros(count, 1, dtype=torch.bool)
    return TensorDict(
        {
            "observation": obs,
            "action": torch.as_tensor(actions),
            "next": TensorDict(
                {
                    "observation": obs + 1,
                    "reward": reward.float(),
                    "done": done,
                    "terminated": done,
                },
                [count],
            ),
        },
        [count],
    )

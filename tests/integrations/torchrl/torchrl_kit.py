"""TorchRL's own parts put together: a DQN on the paper's bandit with any sampler; small buffers."""

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
from sibling_replay.integrations.torchrl import SiblingSampler

BETA = 0.7
CAPACITY = 40


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


def new_buffer(strategy, batch_size: int | None = None, **options) -> TensorDictReplayBuffer:
    prefetch = options.pop("prefetch", None)
    options.setdefault("errors", "squared")
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(CAPACITY),
        sampler=SiblingSampler(CAPACITY, strategy, BETA, **{"seed": 1, **options}),
        batch_size=batch_size,
        prefetch=prefetch,
    )


def fill(buffer, steps: int = 60, seed: int = 0) -> TensorDictReplayBuffer:
    """Single and several entries at a time, through several turns, refreshed in between."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        count = int(rng.integers(1, 4))
        new = entries(rng.geometric(0.4, count), rng.integers(0, 2, count), rng.normal(size=count))
        if step % 2:
            buffer.extend(new)
        else:
            buffer.add(new[0])
        sample = buffer.sample(8)
        sample["td_error"] = torch.as_tensor(np.exp(2 * rng.standard_normal(len(sample))))
        buffer.update_tensordict_priority(sample)
    buffer.sample(8)  # reads what was written last
    return buffer


def slots_of(buffer):
    return buffer.sampler.replay.sampler

"""Training steps of a TorchRL DQN with its samplers and with ours.

    .venv-torchrl/bin/python benchmarks/hosts/torchrl.py --out FILE

Its own prioritized sampler needs its compiled extension (`make .venv-torchrl/extension`).
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # else this file would hide the library of its name

from common import Piece, output_file, race, write  # first: it sets the number of threads

# isort: split

import torch
import torchrl
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import (
    PrioritizedSampler,
    RandomSampler,
    Sampler,
)
from torchrl.envs import GymEnv
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss

from sibling_replay import Prioritized, SiblingSample
from sibling_replay.integrations.torchrl import SiblingSampler

ENV = "CartPole-v1"
CAPACITY = 20_000
STEPS = 50  # a piece
BATCH = 32

SAMPLERS = {
    "DQN, its uniform replay": RandomSampler,
    "DQN, its own PER": lambda: PrioritizedSampler(CAPACITY, alpha=0.6, beta=0.4),
    "ours, PER": lambda: SiblingSampler(CAPACITY, Prioritized(alpha=0.6), errors="squared"),
    "ours, SAMPLE": lambda: SiblingSampler(CAPACITY, SiblingSample(alpha=0.6), errors="squared"),
}


def training(sampler: Sampler, filled: torch.Tensor) -> Piece:
    """Whole steps: act, step the environment, store, draw, update, refresh. The buffer is full."""
    env = GymEnv(ENV, categorical_action_encoding=True)
    actor = QValueActor(
        MLP(4, 2, num_cells=[64, 64]), in_keys=["observation"], spec=env.action_spec
    )
    loss = DQNLoss(actor, delay_value=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-4)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=BATCH
    )
    buffer.extend(filled)
    frames = iter(
        Collector(
            env, actor, frames_per_batch=1, total_frames=-1, auto_register_policy_transforms=True
        )
    )

    def piece() -> int:
        for _ in range(STEPS):
            buffer.extend(next(frames))
            sample = buffer.sample()
            optimizer.zero_grad()
            loss(sample)["loss"].backward()
            optimizer.step()
            buffer.update_tensordict_priority(sample)
        return STEPS

    return piece


def main() -> None:
    torch.set_num_threads(1)
    out = output_file()
    env = GymEnv(ENV, categorical_action_encoding=True)
    actor = QValueActor(MLP(4, 2), in_keys=["observation"], spec=env.action_spec)
    collector = Collector(
        env, actor, frames_per_batch=1_000, total_frames=1_000, auto_register_policy_transforms=True
    )
    first = next(iter(collector))
    filled = torch.cat([first] * (CAPACITY // len(first)))
    filled["observation"] += 0.01 * torch.randn_like(filled["observation"])  # groups of one
    figures = race({name: training(make(), filled.clone()) for name, make in SAMPLERS.items()})
    write(
        out,
        "TorchRL",
        torchrl.__version__,
        figures,
        f"{ENV}, two layers of 64, batch {BATCH}, full buffer of {CAPACITY:,}, one update an "
        "environment step; act, step, store, draw, update, refresh.",
    )


if __name__ == "__main__":
    main()

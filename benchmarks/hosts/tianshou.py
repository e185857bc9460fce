"""Training steps of Tianshou's DQN with its replay and with ours.

.venv-tianshou/bin/python benchmarks/hosts/tianshou.py --out FILE
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # else this file would hide the library of its name

from common import Piece, output_file, race, write  # first: it sets the number of threads

# isort: split

import gymnasium as gym
import tianshou
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedReplayBuffer, ReplayBuffer
from tianshou.utils.net.common import Net

from sibling_replay import Prioritized, SiblingSample
from sibling_replay.integrations.tianshou import SiblingReplayBuffer

ENV = "CartPole-v1"
CAPACITY = 20_000
STEPS = 50  # a piece
BATCH = 32

BUFFERS = {
    "DQN, its uniform replay": lambda: ReplayBuffer(CAPACITY),
    "DQN, its own PER": lambda: PrioritizedReplayBuffer(CAPACITY, alpha=0.6, beta=0.4),
    "ours, PER": lambda: SiblingReplayBuffer(CAPACITY, Prioritized(alpha=0.6)),
    "ours, SAMPLE": lambda: SiblingReplayBuffer(CAPACITY, SiblingSample(alpha=0.6)),
}


def training(buffer: ReplayBuffer) -> Piece:
    """Whole steps: act, step the environment, store, draw, update, refresh. The buffer is full."""
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=(64, 64)),
        action_space=gym.spaces.Discrete(2),
        eps_training=0.1,
    )
    dqn = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-4), target_update_freq=500)
    collector = Collector(dqn, gym.make(ENV), buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=CAPACITY, random=True)

    def piece() -> int:
        with policy_within_training_step(policy):
            for _ in range(STEPS):
                collector.collect(n_step=1)
                dqn.update(buffer, BATCH)
        return STEPS

    return piece


def main() -> None:
    torch.set_num_threads(1)
    out = output_file()
    figures = race({name: training(make()) for name, make in BUFFERS.items()})
    write(
        out,
        "Tianshou",
        tianshou.__version__,
        figures,
        f"{ENV}, two layers of 64, batch {BATCH}, full buffer of {CAPACITY:,}, one update an "
        "environment step; act, step, store, draw, update, refresh.",
    )


if __name__ == "__main__":
    main()

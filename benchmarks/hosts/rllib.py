"""Training steps of RLlib's DQN with its replay and with ours.

.venv-rllib/bin/python benchmarks/hosts/rllib.py --out FILE
"""

from __future__ import annotations

from common import Piece, output_file, race, write  # first: it sets the threads

# isort: split

import os
from collections.abc import Mapping
from typing import Any

from sibling_replay import Prioritized, SiblingSample
from sibling_replay.running.ray_cluster import LOOPBACK_ONLY, start_private

os.environ.update(LOOPBACK_ONLY, RAY_USAGE_STATS_ENABLED="0")  # read when Ray is imported

import gymnasium as gym
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from sibling_replay.integrations.rllib import BUFFER

ENV = "CartPole-v1"
CAPACITY = 20_000
STEPS = 10  # a piece
BATCH = 32
OBJECT_STORE_BYTES = 80 * 2**20

BUFFERS: dict[str, dict[str, Any]] = {
    "DQN, its uniform replay": {"type": "EpisodeReplayBuffer"},
    "DQN, its own PER": {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.6, "beta": 0.4},
    "ours, PER": {"type": BUFFER, "strategy": Prioritized(alpha=0.6), "beta": 0.4},
    "ours, SAMPLE": {"type": BUFFER, "strategy": SiblingSample(alpha=0.6), "beta": 0.4},
}


def random_episodes(steps: int) -> list[SingleAgentEpisode]:
    """What a random policy does, as environment runners hand it over."""
    env = gym.make(ENV)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    episodes: list[SingleAgentEpisode] = []
    while sum(map(len, episodes)) < steps:
        episode = SingleAgentEpisode(
            observation_space=env.observation_space, action_space=env.action_space
        )
        episode.add_env_reset(obs)
        while not episode.is_done:
            action = env.action_space.sample()
            obs, reward, terminated, truncated, _ = env.step(action)
            episode.add_env_step(
                obs, action, float(reward), terminated=terminated, truncated=truncated
            )
        episodes.append(episode.to_numpy())
        obs, _ = env.reset()
    return episodes


def training(buffer: Mapping[str, Any], episodes: list[SingleAgentEpisode]) -> Piece:
    """Whole steps: act, step the environment, store, draw, update, refresh. The buffer is full."""
    dqn = (
        DQNConfig()
        .environment(ENV)
        .env_runners(num_env_runners=0, rollout_fragment_length=1)
        .learners(num_learners=0)
        .rl_module(model_config={"fcnet_hiddens": [64, 64], "head_fcnet_hiddens": []})
        .training(
            replay_buffer_config={"capacity": CAPACITY, **buffer},
            train_batch_size_per_learner=BATCH,
            num_steps_sampled_before_learning_starts=0,
            dueling=False,
            epsilon=0.1,
        )
        .debugging(seed=0, log_level="ERROR")
        .build_algo()
    )
    for episode in episodes:  # RLlib's PER cannot take more than its capacity at once
        dqn.local_replay_buffer.add(episode)

    def piece() -> int:
        for _ in range(STEPS):
            dqn.training_step()
        return STEPS

    return piece


def main() -> None:
    torch.set_num_threads(1)
    out = output_file()
    start_private(ray, 1, object_store_memory=OBJECT_STORE_BYTES, logging_level="error")
    episodes = random_episodes(CAPACITY)
    figures = race({name: training(buffer, episodes) for name, buffer in BUFFERS.items()})
    write(
        out,
        "RLlib",
        ray.__version__,
        figures,
        f"{ENV}, two layers of 64, batch {BATCH}, full buffer of {CAPACITY:,}, one update an "
        "environment step, runner and learner in the driver: `DQN.training_step`.",
    )
    ray.shutdown()


if __name__ == "__main__":
    main()

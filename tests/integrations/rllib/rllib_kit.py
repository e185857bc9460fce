"""RLlib's own parts put together: episodes, and a DQN on the paper's bandit with any buffer."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import FlattenObservation
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.tune.registry import register_env

import sibling_replay.envs  # noqa: F401  registers the bandit
from sibling_replay.integrations.rllib import SiblingDQN

SAFE, RISKY = 0, 1
SPACE = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = gym.spaces.Discrete(2)

register_env(
    "bandit", lambda config: FlattenObservation(gym.make("sibling_replay/OutlierBandit-v0"))
)


def episode(observations, actions, rewards=None, terminated=True, truncated=False, **options):
    """An episode, from as many actions as steps and one observation more."""
    count = len(actions)
    return SingleAgentEpisode(
        observations=[np.full(2, obs, np.float32) for obs in observations],
        observation_space=SPACE,
        actions=[np.int64(action) for action in actions],
        action_space=ACTIONS,
        rewards=[1.0] * count if rewards is None else list(rewards),
        infos=[{"t": t} for t in range(count + 1)],
        terminated=terminated,
        truncated=truncated,
        len_lookback_buffer=0,
        **options,
    )


def random_episode(rng, length, **options):
    return episode(
        rng.geometric(0.4, length + 1),
        rng.integers(0, 2, length),
        rng.normal(size=length),
        **options,
    )


def bandit_dqn(seed: int, buffer: dict, **training):
    """One weight an action and the squared loss: what is learnt is the value itself."""
    config = (
        DQNConfig(algo_class=SiblingDQN)
        .environment("bandit")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8, rollout_fragment_length=1)
        .learners(num_learners=0)
        .debugging(seed=seed, log_level="ERROR")
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .rl_module(
            model_config={
                "fcnet_hiddens": [4],
                "fcnet_activation": "linear",
                "head_fcnet_hiddens": [],
            }
        )
        .training(
            **{
                "replay_buffer_config": buffer,
                "train_batch_size_per_learner": 32,
                "num_steps_sampled_before_learning_starts": 64,
                "epsilon": 1.0,  # both arms are tried equally often; what is compared is learning
                "lr": 0.01,
                "dueling": False,
                "double_q": True,
                "grad_clip": None,
                "td_error_loss_fn": "mse",
                "target_network_update_freq": 500,
            }
            | training
        )
    )
    return config.build_algo()


def action_values(algorithm) -> np.ndarray:
    module = algorithm.learner_group._learner.module["default_policy"]
    with torch.no_grad():
        return module.compute_q_values({"obs": torch.ones(1, 1)})["qf_preds"].numpy()[0].copy()

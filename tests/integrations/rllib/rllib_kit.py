"""RLlib's parts put together: episodes, our buffer full of them, a DQN on the paper's bandit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer
from ray.tune.registry import register_env

from sibling_replay.integrations.rllib import SiblingDQN, SiblingEpisodeReplayBuffer

BETA = 0.7
CAPACITY = 60
SPACE = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = gym.spaces.Discrete(2)

# Lambdas travel to a runner in another process as they are, without this file; "module:name" is
# registered there by importing the module. The one state is the float that RLlib's networks take.
register_env(
    "bandit",
    lambda config: gym.wrappers.TransformObservation(
        gym.make("sibling_replay.envs:sibling_replay/OutlierBandit-v0"),
        lambda obs: np.ones(1, np.float32),
        gym.spaces.Box(0.0, 1.0, (1,), np.float32),
    ),
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


def update(buffer, errors) -> None:
    """As DQN does it."""
    update_priorities_in_episode_replay_buffer(
        replay_buffer=buffer, td_errors={"default_policy": {TD_ERROR_KEY: errors}}
    )


def filled(strategy, **options) -> SiblingEpisodeReplayBuffer:
    """After many short and some long episodes, in chunks, and many refreshes."""
    buffer = SiblingEpisodeReplayBuffer(CAPACITY, strategy=strategy, beta=BETA, seed=1, **options)
    rng = np.random.default_rng(0)
    for turn in range(60):
        length = 12 if turn % 10 == 9 else int(rng.integers(1, 4))
        add_in_chunks(buffer, random_episode(rng, length, terminated=bool(turn % 3)), 5)
        buffer.sample(8, n_step=buffer.n_step)
        update(buffer, np.exp(rng.standard_normal(8)))
    return buffer


def add_in_chunks(buffer, whole, most: int) -> None:
    """An episode as it comes from an environment runner that is asked for `most` steps."""
    for start in range(0, len(whole), most):
        buffer.add([whole[start : start + most]])


def check(buffer) -> None:
    """Slots, episodes and the sampler agree with what is stored."""
    ok, why = buffer.replay.sampler.check_valid()
    assert ok, why
    live = buffer.replay.sampler.live_slots.tolist()
    assert sorted(buffer._indices) == live and len(buffer) == len(live)
    assert sorted(live + buffer._free) == list(range(buffer.capacity))
    drawable = {
        (number, t)
        for number, stored in enumerate(buffer.episodes, buffer.get_num_episodes_evicted())
        for t in range(len(stored) - buffer.n_step + 1)
    }
    found = set(buffer._indices.values())
    assert len(found) == len(live) and found <= drawable
    assert found == drawable or len(buffer.episodes) == 1
    assert buffer._num_timesteps == sum(map(len, buffer.episodes))
    for number, slots in buffer._slots.items():
        steps = [buffer._indices[slot] for slot in slots]
        assert steps == sorted(steps) and {n for n, _ in steps} <= {number}
    if buffer.replay.strategy.needs.groups:
        keys = {}
        for slot, (number, t) in buffer._indices.items():
            stored = buffer._episode(number)
            key = (*stored.get_observations(t), int(stored.get_actions(t)))
            assert keys.setdefault(buffer.replay.sampler.groups[slot], key) == key
        assert len(set(keys.values())) == len(keys)


def bandit_config(seed: int, buffer: dict, runners: int = 0, **training) -> DQNConfig:
    """The paper's network, rate and squared loss; an update after a step of eight environments."""
    return (
        DQNConfig(algo_class=SiblingDQN)
        .environment("bandit")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=8)
        .learners(num_learners=0)
        .debugging(seed=seed, log_level="ERROR")
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .rl_module(
            model_config={
                "fcnet_hiddens": [64, 64],
                "fcnet_activation": "relu",
                "head_fcnet_hiddens": [],
            }
        )
        .training(
            **{
                "replay_buffer_config": buffer,
                "train_batch_size_per_learner": 32,
                "num_steps_sampled_before_learning_starts": 64,
                "epsilon": 1.0,  # both arms are tried equally often; what is compared is learning
                "lr": 7.5e-4,
                "dueling": False,
                "double_q": True,
                "grad_clip": None,
                "td_error_loss_fn": "mse",
                "target_network_update_freq": 500,
            }
            | training
        )
    )


def bandit_dqn(*settings, **training):
    return bandit_config(*settings, **training).build_algo()


def action_values(algorithm) -> np.ndarray:
    module = algorithm.learner_group._learner.module["default_policy"]
    with torch.no_grad():
        return module.compute_q_values({"obs": torch.ones(1, 1)})["qf_preds"].numpy()[0].copy()

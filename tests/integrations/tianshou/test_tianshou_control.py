"""Tianshou's SAC, TD3 and DDPG with our buffers, on Pendulum."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from tianshou.algorithm import DDPG, SAC, TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.sac import SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou_kit import check, run_training

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.grouping import Auto
from sibling_replay.integrations.tianshou import SiblingVectorReplayBuffer
from support.works import check_row, learnt

ALGORITHMS = {"SAC": SAC, "TD3": TD3, "DDPG": DDPG}


def make_env():
    return gym.wrappers.TimeLimit(gym.make("Pendulum-v1").unwrapped, 20)


def make_algorithm(name, **options):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  Tianshou explores with it
    space = make_env().action_space

    def net(**more):
        return Net(state_shape=(3,), action_shape=(1,), hidden_sizes=(16,), **more)

    body = dict(preprocess_net=Net(state_shape=(3,), hidden_sizes=(16,)), action_shape=(1,))
    if name == "SAC":
        actor = ContinuousActorProbabilistic(**body, conditioned_sigma=True, unbounded=True)
        policy = SACPolicy(actor=actor, action_space=space)
    else:
        noise = GaussianNoise(sigma=0.3)
        policy = ContinuousDeterministicPolicy(
            actor=ContinuousActorDeterministic(**body), action_space=space, exploration_noise=noise
        )
    return ALGORITHMS[name](
        policy=policy,
        policy_optim=AdamOptimizerFactory(lr=1e-3),
        critic=ContinuousCritic(preprocess_net=net(concat=True)),
        critic_optim=AdamOptimizerFactory(lr=1e-3),
        **options,
    )


def train(name, buffer, steps=200, **options):
    """Weights of the critic before and after."""
    algorithm = make_algorithm(name, **options)
    before = weights(algorithm)
    envs = DummyVectorEnv([make_env for _ in range(buffer.buffer_num)])
    envs.seed(0)
    run_training(algorithm, envs, buffer, steps)
    return before, weights(algorithm)


def weights(algorithm):
    return torch.nn.utils.parameters_to_vector(algorithm.critic.parameters()).detach().numpy()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uniform_is_the_stock_buffer(name):
    stock = train(name, VectorReplayBuffer(1_000, 2, random_seed=5))
    ours = train(name, SiblingVectorReplayBuffer(1_000, 2, Uniform(), random_seed=5))
    learnt(*ours)
    assert np.array_equal(stock[1], ours[1])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_siblings_over_real_actions(name):
    """Weights reach the critics, TD errors the priorities, and `Auto` bins actions."""
    buffer = SiblingVectorReplayBuffer(
        1_000, 2, SiblingSample(), key=Auto(noise=0.1, fit_after=100), random_seed=5
    )
    learnt(*train(name, buffer, steps=300))
    check(buffer)
    assert buffer.replay.key_choices and buffer.support().groups < 150
    live = buffer.replay.sampler.live_slots
    assert np.unique(buffer.replay.sampler.masses[live]).size > 100  # refreshed
    assert buffer.unmatched_updates == 0
    prioritized = SiblingVectorReplayBuffer(1_000, 2, Prioritized(), random_seed=5)
    learnt(*train(name, prioritized))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_trains(name):
    def trial(strategy, variant):
        # With a map SiblingModel pairs entries of different slots, which hosts cannot read.
        mapped = strategy.needs.groups and not strategy.needs.other_outcomes
        key = Auto(fit_after=40) if mapped else None
        buffer = SiblingVectorReplayBuffer(500, 2 if variant == "V" else 1, strategy, key=key)
        learnt(*train(name, buffer, 60, n_step_return_horizon=3 if variant == "N" else 1))

    check_row(f"Tianshou `{name}`", trial, tried="1NV")

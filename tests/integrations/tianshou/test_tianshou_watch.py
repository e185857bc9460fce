"""Algorithms that drop importance weights or hand back no TD errors are found out."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from tianshou.algorithm import DDPG, DiscreteBCQ
from tianshou.algorithm.imitation.discrete_bcq import DiscreteBCQPolicy
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import to_torch
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor
from tianshou.utils.torch_utils import policy_within_training_step
from tianshou_kit import make_dqn, transition

from sibling_replay import Prioritized, Uniform
from sibling_replay.integrations.tianshou import SiblingReplayBuffer

OPTIM = AdamOptimizerFactory(lr=1e-3)


def filled(strategy, act=0) -> SiblingReplayBuffer:
    """Rewards 0 to 31, and unequal priorities, so that weights differ from one."""
    buffer = SiblingReplayBuffer(32, strategy, random_seed=0)
    for i in range(32):
        buffer.add(transition(np.ones(1, np.float32), act, float(i), terminated=True))
    return buffer


def with_weights(strategy, act=0) -> SiblingReplayBuffer:
    buffer = filled(strategy, act)
    buffer.replay.refresh(buffer.replay.draw(32, 0.4)[0], np.arange(32.0))
    return buffer


def update(algorithm, buffer, size: int = 16) -> None:
    with policy_within_training_step(algorithm.policy):
        algorithm.update(buffer=buffer, sample_size=size)


def discrete_bcq() -> DiscreteBCQ:
    net = Net(state_shape=(1,), hidden_sizes=[8])
    policy = DiscreteBCQPolicy(
        model=DiscreteActor(preprocess_net=net, action_shape=2, softmax_output=False),
        imitator=DiscreteActor(preprocess_net=net, action_shape=2, softmax_output=False),
        action_space=gym.spaces.Discrete(2),
    )
    return DiscreteBCQ(policy=policy, optim=OPTIM)


def ddpg(algorithm=DDPG) -> DDPG:
    actor = ContinuousActorDeterministic(
        preprocess_net=Net(state_shape=(1,), hidden_sizes=[8]), action_shape=(1,)
    )
    critic = ContinuousCritic(
        preprocess_net=Net(state_shape=(1,), action_shape=(1,), hidden_sizes=[8], concat=True)
    )
    policy = ContinuousDeterministicPolicy(
        actor=actor, action_space=gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    )
    return algorithm(policy=policy, policy_optim=OPTIM, critic=critic, critic_optim=OPTIM)


class Unweighted(DDPG):
    """A critic's loss that reads the weights and drops them."""

    @staticmethod
    def _minimize_critic_squared_loss(batch, critic, optimizer):
        batch.weight  # noqa: B018
        td = critic(batch.obs, batch.act).flatten() - batch.returns.flatten()
        loss = td.pow(2).mean()
        optimizer.step(loss)
        return td, loss


@pytest.mark.parametrize("make", [filled, with_weights])
def test_an_algorithm_that_writes_no_td_errors_is_refused(make):
    """Whether the weights are all one or not. Priorities stay as they were."""
    buffer = make(Prioritized())
    masses = buffer.replay.sampler.masses
    with pytest.raises(ValueError, match=r"handed back the importance weights.*BCQ.*Uniform\(\)"):
        update(discrete_bcq(), buffer)
    assert np.array_equal(masses, buffer.replay.sampler.masses)
    uniform = filled(Uniform())
    update(discrete_bcq(), uniform)


def test_td_errors_that_equal_the_weights_are_taken():
    """All weights are one, and so are all errors: DQN's are its own."""
    buffer = SiblingReplayBuffer(8, Prioritized(alpha=1.0))
    for _ in range(8):
        buffer.add(transition(np.ones(1, np.float32), 0, 1.0, terminated=True))
    dqn = make_dqn(0)
    with torch.no_grad():
        for parameter in dqn.policy.parameters():
            parameter.zero_()
    update(dqn, buffer)
    assert buffer._watch.satisfied and buffer.unmatched_updates == 0


@pytest.mark.parametrize("make", [filled, with_weights])
def test_weights_read_by_getattr_are_watched_and_td_errors_get_through(make):
    """DDPG, TD3, SAC and REDQ take them that way."""
    buffer = make(Prioritized(), np.zeros(1, np.float32))
    masses = buffer.replay.sampler.masses
    update(ddpg(), buffer)
    assert buffer._watch.satisfied
    assert (buffer.replay.sampler.masses != masses).sum() > 8


def test_a_critic_that_drops_weights_is_refused():
    buffer = with_weights(Prioritized(), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="did not use the importance weights"):
        update(ddpg(Unweighted), buffer)


def test_watched_batches_can_be_copied_pickled_and_converted():
    buffer = with_weights(Prioritized())
    for convert in (
        copy.copy,
        copy.deepcopy,
        lambda batch: pickle.loads(pickle.dumps(batch)),
        to_torch,
        lambda batch: batch.to_torch(),
        lambda batch: batch[:],
    ):
        batch, indices = buffer.sample(8)
        weights = batch.weight.copy()
        again = convert(batch)
        for take in (getattr, lambda batch, name: batch.pop(name)):
            np.testing.assert_array_equal(np.asarray(take(again, "weight")), weights)
        buffer.update_weight(indices, np.arange(8.0))  # nobody could see how they were used
    assert not buffer._watch.satisfied
    update(make_dqn(0), buffer)
    assert buffer._watch.satisfied

"""Strategies from outside the package, in NumPy, behind Tianshou's own DQN and trainer."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou_kit import ENVS, run_training, transition

from sibling_replay.integrations.tianshou import SiblingVectorReplayBuffer
from support.outside import OUTSIDE, STARTS, check_newcomer, check_refused, check_trained, watch

STEPS, CAPACITY = 800, 1_600  # nothing is overwritten
UPDATES = STEPS // 2


@pytest.fixture
def watched(monkeypatch):
    return watch(monkeypatch)


def make_env() -> gym.Env:
    return gym.wrappers.FlattenObservation(gym.make("FrozenLake-v1"))


def parameters(dqn: DQN) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(dqn.policy.parameters()).detach().clone()


def trained(strategy) -> tuple[DQN, SiblingVectorReplayBuffer]:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  Tianshou explores with it
    envs = DummyVectorEnv([make_env for _ in range(ENVS)])
    envs.seed(0)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(16,), action_shape=4, hidden_sizes=(32,)),
        action_space=gym.spaces.Discrete(4),
        eps_training=0.5,
    )
    dqn = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=50)
    before = parameters(dqn)
    buffer = SiblingVectorReplayBuffer(CAPACITY, ENVS, strategy, random_seed=1)
    run_training(dqn, envs, buffer, STEPS, updates_a_step=UPDATES / STEPS, batch=32)
    assert not torch.equal(parameters(dqn), before)
    ok, why = buffer.replay.sampler.check_valid()
    assert ok, why
    assert len(buffer) >= STEPS and buffer.unmatched_updates == 0
    return dqn, buffer


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_outside_strategy_trains_and_draws_by_its_law(name, watched):
    _, buffer = trained(OUTSIDE[name])
    assert len(watched.batches) == UPDATES
    keys = {
        int(slot): (int(buffer.obs[slot].argmax()), int(buffer.act[slot]))
        for slot in buffer.sample_indices(0)
    }
    check_trained(
        OUTSIDE[name],
        keys,
        watched,
        buffer.replay.sampler.probabilities().outcome,
        lambda: int(buffer.sample(1)[1][0]),
    )


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_loaded_buffer_goes_on_training_where_it_was(name, tmp_path):
    """Through Tianshou's HDF5 files and pickle: the same updates of the same network."""
    dqn, buffer = trained(OUTSIDE[name])
    path = str(tmp_path / "buffer.hdf5")
    buffer.save_hdf5(path)
    loaded = [pickle.loads(pickle.dumps(buffer)), type(buffer).load_hdf5(path), buffer]
    laws, networks = [], []
    for each in loaded:
        twin = copy.deepcopy(dqn)
        with policy_within_training_step(twin.policy):
            for _ in range(25):  # with two sweeps
                twin.update(each, sample_size=32)
        laws.append(each.replay.sampler.probabilities().outcome)
        networks.append(parameters(twin))
    for law, network in zip(laws[:2], networks[:2], strict=True):
        assert np.array_equal(law, laws[2]) and torch.equal(network, networks[2])
    assert not torch.equal(networks[2], parameters(dqn))


@pytest.mark.parametrize("initial", STARTS)
def test_newcomers_start_as_the_strategy_says(initial, watched):
    _, buffer = trained(STARTS[initial])
    new = transition(np.eye(16, dtype=buffer.obs.dtype)[3], 1)
    (added,), *_ = buffer.add(Batch.stack([new]), buffer_ids=[2])
    sampler = buffer.replay.sampler
    live = sampler.live_slots
    place = int(np.searchsorted(live, added))
    check_newcomer(STARTS[initial], watched, sampler.masses[live], place, sampler.max_priority)


def test_what_tianshou_cannot_give_is_refused():
    def make(strategy):
        return SiblingVectorReplayBuffer(8, 2, strategy)

    check_refused("Tianshou", make, gives={"signed"})

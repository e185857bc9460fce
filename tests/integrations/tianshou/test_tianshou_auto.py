"""Maps given unfitted to our Tianshou buffers: CartPole, whose observations never repeat."""

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
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou_kit import ENVS, run_training, transition

from sibling_replay import SiblingSample, Uniform
from sibling_replay.grouping import Auto, Grid, KMeans, SimHash
from sibling_replay.integrations.tianshou import SiblingReplayBuffer, SiblingVectorReplayBuffer
from support.fitted_maps import check_chosen, check_groups, check_same, check_sibling_sample

STEPS, CAPACITY = 2_400, 8_000
MAPS = {"auto": Auto(fit_after=1_000), "grid": Grid(4), "hash": SimHash(6), "means": KMeans(16)}


def new_dqn() -> DQN:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  Tianshou explores with it
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=(32,)),
        action_space=gym.spaces.Discrete(2),
        eps_training=0.5,
    )
    return DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=50)


def train(dqn: DQN, buffer: SiblingVectorReplayBuffer, steps: int, seed: int = 0) -> None:
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(ENVS)])
    envs.seed(seed)
    run_training(dqn, envs, buffer, steps, collected=40, updates_a_step=0.1, batch=32)


def trained(key, strategy=None) -> tuple[DQN, SiblingVectorReplayBuffer]:
    dqn, strategy = new_dqn(), strategy or SiblingSample(alpha=0.6)
    buffer = SiblingVectorReplayBuffer(CAPACITY, ENVS, strategy, key=key, random_seed=1)
    train(dqn, buffer, STEPS)
    return dqn, buffer


def stored(buffer):
    live = buffer.replay.sampler.live_slots
    return buffer.obs[live], buffer.act[live]


def test_auto_as_it_is():
    _, buffer = trained(Auto())
    check_chosen(buffer.replay)
    check_groups(buffer.replay, *stored(buffer))
    assert f"(G/N {buffer.support().groups_per_entry:.4f})" in repr(buffer)


def test_without_a_key_it_says_that_it_corrects_nothing():
    with pytest.warns(UserWarning, match=r"does nearly what Prioritized does.*key=Auto\(\)"):
        _, buffer = trained(None)
        for _ in range(40):  # so that 1,000 draws were looked at
            buffer.sample(32)
    assert buffer.support().groups_per_entry > 0.99 and "(G/N 1.0000)" in repr(buffer)


@pytest.mark.parametrize("key", MAPS.values(), ids=MAPS)
def test_groups_form_and_are_drawn_by_their_law(key):
    _, buffer = trained(key)
    check_groups(buffer.replay, *stored(buffer))
    check_sibling_sample(buffer.replay, *stored(buffer), buffer.sample_indices)
    support = buffer.support()
    assert support.entries == len(buffer) and support.groups_per_entry < 0.1
    assert not key.fitted
    if isinstance(key, Auto):
        counts = [choice.entries for choice in buffer.replay.key_choices]
        assert len(counts) == 2 and 1_000 <= counts[0] < 1_040 and counts[1] >= 2 * counts[0]
        assert support.key.endswith(f"chosen by {key!r}") and support.reason


@pytest.mark.parametrize("grown", [False, True], ids=["awaited", "fitted"])
def test_a_loaded_buffer_goes_on_where_it_was(grown, tmp_path):
    """Through HDF5 files and pickle: the same entries lead to the same fit, the same updates of
    the network."""
    key = Auto(fit_after=1_000 if grown else STEPS + 500)
    dqn, buffer = trained(key)
    assert len(buffer.replay.key_choices) == 2 * grown
    path = str(tmp_path / "buffer.hdf5")
    buffer.save_hdf5(path)
    twins = [buffer, pickle.loads(pickle.dumps(buffer)), type(buffer).load_hdf5(path)]
    check_same(twins[1].replay, buffer.replay)
    check_same(twins[2].replay, buffer.replay)
    rng = np.random.default_rng(0)
    new = [
        Batch.stack([transition(rng.normal(size=4).astype(np.float32), i % 2) for i in range(ENVS)])
        for _ in range(700)
    ]
    networks = []
    for each in twins:
        for batch in new:
            each.add(batch)
        mine = copy.deepcopy(dqn)
        with policy_within_training_step(mine.policy):
            for _ in range(10):
                mine.update(each, sample_size=32)
        networks.append(torch.nn.utils.parameters_to_vector(mine.policy.parameters()))
    assert len(buffer.replay.key_choices) == 1 + 2 * grown
    for each, network in zip(twins[1:], networks[1:], strict=True):
        check_same(each.replay, buffer.replay)
        assert torch.equal(network, networks[0])


def test_reset_awaits_the_next_entries():
    _, buffer = trained(Auto(fit_after=1_000))
    buffer.reset()
    assert buffer.replay.key_choices == ()
    train(new_dqn(), buffer, 400, seed=1)
    assert buffer.support().groups == 2
    train(new_dqn(), buffer, 1_000, seed=2)
    assert len(buffer.replay.key_choices) == 1


def test_a_buffer_of_one_environment_with_stacked_frames():
    buffer = SiblingReplayBuffer(1_200, SiblingSample(), key=Auto(fit_after=600), stack_num=3)
    rng = np.random.default_rng(0)
    for step in range(2_000):
        ended = bool(rng.random() < 0.05)
        buffer.add(transition(rng.normal(size=1).astype(np.float32), step % 2, terminated=ended))
        if step == 1_000:
            assert len(buffer.replay.key_choices) == 1
    live = buffer.replay.sampler.live_slots
    check_groups(buffer.replay, buffer.get(live, "obs"), buffer.act[live])


def test_observations_of_several_parts():
    buffer = SiblingReplayBuffer(1_000, SiblingSample(), key=Auto(0.1, 300))
    rng = np.random.default_rng(0)
    for step in range(500):
        obs = {"speed": rng.normal(size=2), "inner": {"gear": int(rng.integers(3))}}
        buffer.add(transition(obs, step % 2))
    assert len(buffer.replay.key_choices) == 1
    assert 2 < buffer.support().groups < 50


def test_real_actions_are_binned():
    buffer = SiblingReplayBuffer(3_000, SiblingSample(), key=Grid(3))
    rng = np.random.default_rng(0)
    for _ in range(2_500):
        obs, act = rng.normal(size=2).astype(np.float32), rng.normal(size=1).astype(np.float32)
        buffer.add(transition(obs, act))
    assert 9 < buffer.support().groups <= 27


def test_what_a_map_cannot_be_fitted_to_is_refused_at_the_first_entry():
    buffer = SiblingReplayBuffer(100, SiblingSample(), key=Grid(3, dims=(0, 7)))
    with pytest.raises(ValueError, match="7"):
        buffer.add(transition(np.zeros(2, np.float32), 0))
    buffer = SiblingReplayBuffer(100, SiblingSample(), key=Auto())
    with pytest.raises(ValueError, match="observations must be finite: dimension 1"):
        buffer.add(transition(np.array([0.0, np.nan], np.float32), 0))


def test_uniform_stays_the_stock_buffer():
    with pytest.warns(UserWarning, match="Uniform draws without groups"):
        ours = SiblingVectorReplayBuffer(80, 2, Uniform(), key=Auto(fit_after=10), random_seed=3)
    stock = VectorReplayBuffer(80, 2, random_seed=3)
    rng = np.random.default_rng(0)
    for _ in range(30):
        batch = Batch.stack([transition(rng.normal(size=2), 0) for _ in range(2)])
        for buffer in (ours, stock):
            buffer.add(batch)
        assert np.array_equal(ours.sample_indices(16), stock.sample_indices(16))


def test_an_entry_whose_key_is_refused_is_not_drawn_as_another():
    """Tianshou has written it by then: the entry that was in its slot is gone."""
    buffer = SiblingReplayBuffer(
        4, SiblingSample(), key=lambda obs, act: 1 / (int(obs[0]) - 5), random_seed=0
    )
    for value in range(4):
        buffer.add(transition(np.array([value, 0.0]), 0))
    with pytest.raises(ZeroDivisionError):
        buffer.add(transition(np.array([5, 0]), 0))
    assert buffer.replay.sampler.live_slots.tolist() == [1, 2, 3]
    assert set(buffer.sample_indices(200)) == {1, 2, 3}

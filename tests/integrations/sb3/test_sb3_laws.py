"""Every strategy's law, read off the tensors that SB3's own `sample` call returns."""

from __future__ import annotations

import numpy as np
import pytest
from sb3_kit import N_ENVS, POSITIONS, filled_buffer

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.integrations.sb3 import SiblingReplayBuffer
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.scenes import STRATEGIES

DRAWS = 6_000  # batches of one: independent draws
BETA = 0.7


def drawn_slots(buffer, draws=DRAWS):
    """The slot whose outcome each tensor row carries, known by its reward, and the batch's own."""
    slot_of = {reward: slot for slot, reward in enumerate(buffer.storage.transitions()["reward"])}
    outcomes, anchors, trained = [], [], []
    for _ in range(draws):
        samples = buffer.sample(1)
        outcomes += [slot_of[reward] for reward in samples.rewards.numpy().ravel()]
        anchors.append(samples.batch.anchors[0])
        trained.append(samples.batch.slots[0])
    return np.array(outcomes), np.array(anchors), np.array(trained)


@pytest.mark.parametrize("n_envs", [1, N_ENVS])
@pytest.mark.parametrize("name", STRATEGIES)
def test_sample_follows_the_law(name, n_envs):
    np.random.seed(11)  # the stream `Uniform` shares with SB3
    buffer = filled_buffer(STRATEGIES[name](alpha=0.8), n_envs)
    law = buffer.storage.probabilities()
    outcomes, anchors, trained = drawn_slots(buffer)
    check_draws(anchors, law.anchor)
    check_draws(trained, law.trained)
    if not name.startswith("average"):
        check_draws(outcomes, law.outcome)


def test_uniform_instead_of_prioritized_is_noticed():
    """The saboteur: the stock draw over the same entries."""

    class Saboteur(SiblingReplayBuffer):
        def sample(self, batch_size, env=None):
            return super(SiblingReplayBuffer, self).sample(batch_size, env)

    buffer = filled_buffer(Prioritized(alpha=0.8))
    buffer.__class__ = Saboteur
    np.random.seed(11)
    with pytest.raises(LawRejected):
        check_draws(drawn_slots(buffer)[0], buffer.storage.probabilities().outcome)


@pytest.mark.parametrize("name", STRATEGIES)
def test_tensors_are_the_stored_transitions(name):
    """Row by row, in the shapes and types of the stock buffer."""
    buffer = filled_buffer(STRATEGIES[name]())
    stored = buffer.storage.transitions()
    samples = buffer.sample(64)
    slots, outcomes = samples.batch.slots, samples.batch.outcomes
    sources = samples.batch.outcome_slots if outcomes is samples.batch else outcomes.slots
    assert np.array_equal(samples.observations.numpy()[:, 0], stored["obs"][slots])
    assert np.array_equal(samples.actions.numpy()[:, 0], stored["action"][slots])
    assert np.array_equal(samples.next_observations.numpy()[:, 0], stored["next_obs"][sources])
    assert np.array_equal(samples.rewards.numpy()[:, 0], stored["reward"][sources])
    assert np.array_equal(samples.dones.numpy()[:, 0], stored["terminated"][sources])
    assert samples.observations.shape == (64, 1) and samples.actions.shape == (64, 1)
    assert samples.weights.shape == (64, 1) and samples.discounts is None
    assert samples.rewards.shape == samples.dones.shape == (len(sources), 1)


@pytest.mark.parametrize("name", STRATEGIES)
def test_weights_are_exact(name):
    """(N u / S)^-beta, with the group's mean mass for sibling strategies, over the largest."""
    buffer = filled_buffer(STRATEGIES[name](alpha=0.8), beta=BETA)
    masses, groups = buffer.storage.masses, buffer.storage.groups
    if name == "uniform":
        masses = np.ones_like(masses)
    elif name != "prioritized":
        masses = (np.bincount(groups, masses) / np.maximum(np.bincount(groups), 1))[groups]
    samples = buffer.sample(40)
    expected = (masses[samples.batch.slots] * len(masses) / buffer.storage.masses.sum()) ** -BETA
    expected /= expected.max()
    np.testing.assert_allclose(samples.weights.numpy()[:, 0], expected, rtol=2e-6)
    assert name == "uniform" or expected.min() < 0.9  # not trivially one


def test_slots_are_position_times_environments_plus_environment():
    buffer = filled_buffer(SiblingSample(), steps=POSITIONS + 2)
    serial = buffer.storage.transitions()["reward"].reshape(POSITIONS, N_ENVS)
    newest = np.arange(POSITIONS)
    newest[:2] += POSITIONS  # the first two positions were filled again
    assert np.array_equal(serial, newest[:, None] * N_ENVS + np.arange(N_ENVS))
    assert (buffer.pos, buffer.full, buffer.size()) == (2, True, POSITIONS)


def test_batches_in_use_are_not_overwritten():
    """Tensors share memory with their batch; they must outlive the draws that follow."""
    buffer = filled_buffer(Uniform())
    first = buffer.sample(16)
    copies = [tensor.clone() for tensor in first[:5]]
    observations, rewards = first.observations, first.rewards
    del first
    for _ in range(20):
        buffer.sample(16)
    assert observations.equal(copies[0]) and rewards.equal(copies[4])

"""Strategies from outside the package, in NumPy, behind RLlib's own DQN."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.tune.registry import register_env
from rllib_kit import bandit_config, check

from sibling_replay.integrations.rllib import BUFFER, SiblingDQN, SiblingEpisodeReplayBuffer
from support.outside import STARTS, UNSIGNED, check_newcomer, check_refused, check_trained, watch

UPDATES = 150
CAPACITY = 5_000  # nothing is overwritten

pytestmark = pytest.mark.usefixtures("local_ray")

register_env(
    "lake",
    lambda config: gym.wrappers.DtypeObservation(
        gym.wrappers.FlattenObservation(gym.make("FrozenLake-v1")), np.float32
    ),
)


@pytest.fixture
def watched(monkeypatch):
    return watch(monkeypatch)


def parameters(dqn) -> np.ndarray:
    module = dqn.learner_group._learner.module["default_policy"]
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy()


def trained(strategy) -> SiblingDQN:
    replay = {"type": BUFFER, "capacity": CAPACITY, "strategy": strategy, "seed": 1}
    dqn = bandit_config(3, replay).environment("lake").build_algo()
    before = parameters(dqn)
    for _ in range(UPDATES + 6):  # so many without an update, while the first steps are collected
        dqn.training_step()
    assert not np.array_equal(parameters(dqn), before)
    buffer = dqn.local_replay_buffer
    check(buffer)
    assert buffer.get_num_episodes_evicted() == buffer.unmatched_updates == 0
    assert 500 < len(buffer) < 2_000
    return dqn


def state_action(buffer) -> dict[int, tuple[int, int]]:
    found = {}
    for slot, (number, t) in buffer._indices.items():
        stored = buffer._episode(number)
        found[slot] = int(stored.get_observations(t).argmax()), int(stored.get_actions(t))
    return found


@pytest.mark.parametrize("name", UNSIGNED)
def test_an_outside_strategy_trains_and_draws_by_its_law(name, watched):
    dqn = trained(UNSIGNED[name])
    buffer = dqn.local_replay_buffer
    assert len(watched.batches) == UPDATES

    def draw() -> int:
        buffer.sample(1)
        return buffer._last_sampled_indices[0]

    law = buffer.replay.sampler.probabilities().outcome
    check_trained(UNSIGNED[name], state_action(buffer), watched, law, draw)
    dqn.stop()


@pytest.mark.parametrize("name", UNSIGNED)
def test_a_checkpoint_restores_the_buffer_and_goes_on(name, tmp_path):
    """Through files of an algorithm: the same draws, weights and refreshes afterwards."""
    dqn = trained(UNSIGNED[name])
    dqn.save_to_path(tmp_path / "checkpoint")
    twin = SiblingDQN.from_checkpoint(tmp_path / "checkpoint")
    assert np.array_equal(parameters(twin), parameters(dqn))
    buffers = [dqn.local_replay_buffer, twin.local_replay_buffer]
    assert buffers[1].strategy == UNSIGNED[name]
    rng = np.random.default_rng(0)
    for _ in range(10):
        weights = [
            [item.get_extra_model_outputs("weights", 0) for item in buffer.sample(32)]
            for buffer in buffers
        ]
        assert weights[0] == weights[1] and len(set(weights[0])) > 1
        assert buffers[0]._last_sampled_indices == buffers[1]._last_sampled_indices
        errors = rng.exponential(size=32)
        for buffer in buffers:
            buffer.update_priorities(errors)
        laws = [buffer.replay.sampler.probabilities().outcome for buffer in buffers]
        assert np.array_equal(*laws)
    twin.training_step()  # and it trains
    for each in (dqn, twin):
        each.stop()


@pytest.mark.parametrize("initial", STARTS)
def test_newcomers_start_as_the_strategy_says(initial, watched):
    dqn = trained(STARTS[initial])
    buffer = dqn.local_replay_buffer
    before = set(buffer._indices)
    again = buffer.episodes[0][:1]  # a step of its own
    again.id_ = "new"
    buffer.add(again)
    (added,) = set(buffer._indices) - before
    sampler = buffer.replay.sampler
    live = sampler.live_slots
    place = int(np.searchsorted(live, added))
    check_newcomer(STARTS[initial], watched, sampler.masses[live], place, sampler.max_priority)
    dqn.stop()


def test_what_rllib_cannot_give_is_refused():
    def make(strategy):
        return SiblingEpisodeReplayBuffer(8, strategy=strategy)

    check_refused("RLlib", make, gives=set())

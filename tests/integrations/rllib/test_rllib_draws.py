"""Our buffer behind RLlib's own calls: draws, weights, refreshes, refusals."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from ray.rllib.utils.from_config import from_config
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer, ReplayBuffer
from rllib_kit import BETA, check, episode, filled, update

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample
from sibling_replay.integrations.rllib import BUFFER, SiblingEpisodeReplayBuffer
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.host_draws import HOST_STRATEGIES, Halves, missing_host_message, refreshed, weights_of

DRAWS = 4_000
GAMMA = 0.9

strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


def transitions(buffer) -> dict:
    """Discounted reward -> slot, observation, action, next observation, terminated: rewards are
    continuous, so that they tell a sampled step from all others."""
    table = {}
    for slot, (number, t) in buffer._indices.items():
        stored, n = buffer._episode(number), buffer.n_step
        reward = sum(GAMMA**k * stored.get_rewards(t + k) for k in range(n))
        table[round(float(reward), 9)] = (
            slot,
            stored.get_observations(t).tolist(),
            int(stored.get_actions(t)),
            stored.get_observations(t + n).tolist(),
            stored.is_terminated and t + n == len(stored),
        )
    assert len(table) == len(buffer)
    return table


def slots_of(buffer, sampled, table) -> list[int]:
    """The slots of sampled episodes, by their rewards; all else must be those slots' as well."""
    slots = []
    for item in sampled:
        assert len(item) == 1 and item.get_extra_model_outputs("n_step", 0) == buffer.n_step
        found = table[round(float(item.get_rewards(0)), 9)]
        slots.append(found[0])
        assert found[1:] == (
            item.get_observations(0).tolist(),
            int(item.get_actions(0)),
            item.get_observations(1).tolist(),
            item.is_terminated,
        )
    return slots


@strategies
@pytest.mark.parametrize("n_step", [1, 3])
def test_samples_follow_the_law(strategy, n_step):
    buffer = filled(strategy, n_step=n_step)
    check(buffer)
    law, table = buffer.replay.sampler.probabilities().outcome, transitions(buffer)
    assert law.max() > 3 * law[law > 0].min()
    draws = []
    for _ in range(DRAWS):
        draws += slots_of(buffer, buffer.sample(1, n_step=n_step, gamma=GAMMA), table)
    check_draws(draws, law)
    with pytest.raises(LawRejected):  # off by one slot
        check_draws((np.array(draws) + 1) % buffer.capacity, law)


@strategies
def test_batches_and_weights(strategy):
    buffer = filled(strategy)
    sampled = buffer.sample(num_items=16, gamma=GAMMA)
    slots = slots_of(buffer, sampled, transitions(buffer))
    assert slots == buffer._last_sampled_indices
    expected = weights_of(buffer.replay.sampler, slots, BETA)
    found = [item.get_extra_model_outputs("weights", 0) for item in sampled]
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    assert len({item.id_ for item in sampled}) == 16  # connectors put equal ids together
    # what the call says comes before the attribute
    for item in buffer.sample(16, beta=0.0):
        assert item.get_extra_model_outputs("weights", 0) == 1.0
    buffer.beta = 0.0
    for item in buffer.sample(16):
        assert item.get_extra_model_outputs("weights", 0) == 1.0
    assert buffer.get_sampled_timesteps() == 60 * 8 + 3 * 16
    assert len(buffer.sample()) == len(buffer.sample(batch_size_B=16)) == buffer.batch_size_B


def test_infos_and_model_outputs_come_along_if_asked_for():
    buffer = SiblingEpisodeReplayBuffer(8, strategy=Prioritized())
    buffer.add(episode([0, 1, 2], [0, 1], extra_model_outputs={"logp": [-1.0, -2.0]}))
    for item in buffer.sample(
        8, include_infos=True, include_extra_model_outputs=True, to_numpy=True
    ):
        t = item.t_started
        assert item.get_extra_model_outputs("logp", 0) == -1.0 - t
        assert [info["t"] for info in item.get_infos()] == [t, t + 1] and item.is_numpy
    assert "logp" not in buffer.sample(1)[0].extra_model_outputs


def test_the_drawn_steps_are_refreshed_and_the_last_duplicate_stays():
    buffer = filled(SiblingSample(alpha=0.8))
    masses = buffer.replay.sampler.masses
    buffer.sample(64)
    slots = buffer._last_sampled_indices
    assert len(set(slots)) < 64
    errors = np.random.default_rng(2).random(64).astype(np.float32)
    update(buffer, errors)
    expected = refreshed(masses, slots, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)
    with pytest.warns(UserWarning, match="64 TD errors were dropped"):  # once is enough
        update(buffer, errors)
    assert buffer.unmatched_updates == 64
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)


def test_model_refreshes_the_anchor_not_the_step_of_the_outcome():
    buffer = filled(SiblingModel(alpha=0.8))
    masses, groups = buffer.replay.sampler.masses, buffer.replay.sampler.groups
    buffer.sample(16)
    slots, anchors = buffer._last_sampled_indices, buffer.replay._open.rows()[-16:, 3]
    assert (anchors != slots).any() and np.array_equal(groups[anchors], groups[slots])
    errors = np.linspace(0.1, 2.0, 16)
    update(buffer, errors)
    expected = refreshed(masses, anchors, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)


def test_bad_errors_change_nothing():
    buffer = filled(Prioritized())
    masses = buffer.replay.sampler.masses
    buffer.sample(4)
    with pytest.raises(ValueError, match="TD error 1"):
        update(buffer, np.array([1.0, np.nan, 1.0, 1.0]))
    with pytest.raises(ValueError, match="expected 4 TD errors"):
        update(buffer, np.ones(3))
    assert np.array_equal(masses, buffer.replay.sampler.masses)
    update(buffer, np.ones(4))


def test_key_functions_define_siblings():
    buffer = filled(SiblingSample(), key=lambda obs, action: int(obs[0]) // 2)
    groups = buffer.replay.sampler.groups
    halves = {}  # and the action, which siblings always share
    for slot, (number, t) in buffer._indices.items():
        stored = buffer._episode(number)
        halves[slot] = (stored.get_observations(t)[0] // 2, int(stored.get_actions(t)))
    for i in halves:
        for j in halves:
            assert (halves[i] == halves[j]) == (groups[i] == groups[j])


def test_a_key_map_defines_siblings_by_one_call_an_episode():
    key = Halves()
    buffer = SiblingEpisodeReplayBuffer(8, strategy=SiblingSample(), key=key)
    buffer.add(episode([2, 3, 4, 2], [0, 0, 1]))
    buffer.add(episode([3, 4, 5], [0, 0]).to_numpy())
    int64 = np.dtype(np.int64)
    assert key.seen == [
        (np.ndarray, (3, 2), np.ndarray, (3,), int64),
        (np.ndarray, (2, 2), np.ndarray, (2,), int64),
    ]
    stored = defaultdict(list)
    for slot, (number, t) in buffer._indices.items():
        whole = buffer._episode(number)
        pair = (whole.get_observations(t)[0] // 2, int(whole.get_actions(t)))
        stored[pair].append(int(buffer.replay.sampler.groups[slot]))
    assert sorted(len(groups) for groups in stored.values()) == [1, 1, 3]
    assert len({groups[0] for groups in stored.values()}) == 3
    assert all(len(set(groups)) == 1 for groups in stored.values())


def test_a_key_function_gets_one_observation_and_one_action():
    """As `ReplayBuffer` hands them over: NumPy scalars of discrete actions, else arrays, whether
    the episode keeps lists or arrays."""
    seen = []

    def key(obs, action):
        seen.append((obs, action))
        return 0

    for whole in (episode([0, 1], [1]), episode([0, 1], [1]).to_numpy(), episode([0, 1], [1])):
        if len(seen) == 2:
            whole.actions.data = [np.int32(1)]
        SiblingEpisodeReplayBuffer(8, strategy=SiblingSample(), key=key).add(whole)
    assert len(seen) == 3
    for obs, action in seen:
        assert type(obs) is np.ndarray and obs.shape == (2,)
        assert type(action) is np.int64 and action == 1


def test_observations_of_several_parts_need_a_key():
    parts = episode([0, 1], [0])
    parts.observations.data = [{"a": np.zeros(2), "b": np.array([i])} for i in range(2)]
    parts._observation_space = None
    buffer = SiblingEpisodeReplayBuffer(4, strategy=SiblingSample())
    with pytest.raises(TypeError, match="key function"):
        buffer.add(parts)
    assert len(buffer) == len(buffer.episodes) == 0
    keyed = SiblingEpisodeReplayBuffer(
        4, strategy=SiblingSample(), key=lambda obs, action: int(obs["b"][0])
    )
    plain = SiblingEpisodeReplayBuffer(4, strategy=Prioritized())
    for buffer in (keyed, plain):
        buffer.add(parts)
        assert buffer.sample(1)[0].get_observations(1)["b"] == 1


def test_equal_actions_of_other_widths_are_siblings_and_other_observations_are_refused():
    """Runners hand over int32 actions; recorded episodes may have int64 ones."""
    buffer = SiblingEpisodeReplayBuffer(8, strategy=SiblingSample())
    buffer.add(episode([0, 1, 2], [0, 1]))
    narrow = episode([0, 1], [0])
    narrow.actions.data = [np.int32(0)]
    buffer.add(narrow)
    groups = buffer.replay.sampler.groups[buffer.replay.sampler.live_slots]
    assert groups[0] == groups[2] != groups[1]
    wide = episode([0, 1], [0])
    wide.observations.data = [np.zeros(3, np.float32)] * 2
    wide._observation_space = None
    for refused in (wide, [narrow, wide]):
        with pytest.raises(ValueError, match=r"must stay float32 \(2,\) .* got float32 \(3,\)"):
            buffer.add(refused)
        assert len(buffer) == 3 and len(buffer.episodes) == 2
    check(buffer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": SiblingAverage()}, "RLlib computes each target itself"),
        ({"strategy": SiblingModel(), "key": lambda o, a: 0}, "SiblingModel with a key function"),
        ({"strategy": Prioritized(), "n_step": 0}, "n_step"),
        ({"strategy": Prioritized(), "n_step": (1, 3)}, "n_step"),
        ({"strategy": Prioritized(), "capacity": 0}, "capacity"),
    ],
)
def test_what_cannot_be_expressed_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SiblingEpisodeReplayBuffer(**{"capacity": 8, **options})


def test_misuse_is_refused():
    buffer = SiblingEpisodeReplayBuffer(8, strategy=Prioritized())
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    with pytest.raises(TypeError, match="single agent"):
        buffer.add([object()])
    with pytest.raises(ValueError, match="weight must be None"):
        buffer.add(episode([0, 1], [0]), weight=0.5)
    buffer.add(episode([0, 1], [0]))
    for n_step in (2, (1, 3)):
        with pytest.raises(ValueError, match="replay_buffer_config"):
            buffer.sample(1, n_step=n_step)
    with pytest.raises(ValueError, match="stateful"):
        buffer.sample(1, batch_length_T=20)
    with pytest.raises(ValueError, match="beta"):
        buffer.sample(1, beta=2.0)
    with pytest.raises(TypeError, match="alpha"):  # it is the strategy's
        SiblingEpisodeReplayBuffer(8, strategy=Prioritized(), alpha=0.6)


def test_rllib_makes_it_from_its_name():
    made = from_config(
        ReplayBuffer, {"type": BUFFER, "capacity": 12, "strategy": SiblingSample(), "beta": 0.5}
    )
    assert type(made) is SiblingEpisodeReplayBuffer
    assert made.capacity == 12 and made.beta == 0.5 and made.strategy == SiblingSample()
    assert isinstance(made, PrioritizedEpisodeReplayBuffer)  # else RLlib does not refresh


def test_a_missing_host_names_the_extra():
    for missing in ("ray", "ray.rllib"):
        assert "sibling-replay[rllib]" in missing_host_message("rllib", missing)

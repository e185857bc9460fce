"""Our buffer behind RLlib's own calls: draws, weights, refreshes, eviction, state, refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ray.rllib.utils.from_config import from_config
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.replay_buffers import (
    EpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
    ReplayBuffer,
)
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer
from rllib_kit import episode, random_episode

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform
from sibling_replay.checkpoint import StateError
from sibling_replay.integrations.rllib import BUFFER, SiblingEpisodeReplayBuffer
from support.chi_square import LawRejected, check_draws
from support.host_draws import HOST_STRATEGIES, missing_host_message, refreshed, weights_of

BETA = 0.7
CAPACITY = 60
DRAWS = 4_000
GAMMA = 0.9

strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


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
    if buffer.replay.strategy.needs_groups:
        keys = {}
        for slot, (number, t) in buffer._indices.items():
            stored = buffer._episode(number)
            key = (*stored.get_observations(t), int(stored.get_actions(t)))
            assert keys.setdefault(buffer.replay.sampler.groups[slot], key) == key
        assert len(set(keys.values())) == len(keys)


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
    with pytest.raises(ValueError, match="none of the last"):  # once is enough
        update(buffer, errors)


def test_model_refreshes_the_anchor_not_the_step_of_the_outcome():
    buffer = filled(SiblingModel(alpha=0.8))
    masses, groups = buffer.replay.sampler.masses, buffer.replay.sampler.groups
    buffer.sample(16)
    slots, anchors = buffer._last_sampled_indices, buffer.replay._open[-1].anchors.copy()
    assert (anchors != slots).any() and np.array_equal(groups[anchors], groups[slots])
    errors = np.linspace(0.1, 2.0, 16)
    update(buffer, errors)
    expected = refreshed(masses, anchors, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)


def test_steps_evicted_before_their_errors_come_are_dropped():
    buffer = filled(Prioritized())
    buffer.sample(8)
    for _ in range(CAPACITY):
        buffer.add(random_episode(np.random.default_rng(0), 1))
    before = buffer.replay.sampler.dropped_updates
    update(buffer, np.ones(8))
    assert buffer.replay.sampler.dropped_updates == before + 8


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


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("strategy", [Prioritized(), SiblingSample()], ids=["per", "sample"])
def test_eviction_with_interleaved_chunks_of_any_length(strategy, n_step):
    """Four environments at once: chunks of running episodes, several in one call; many short
    episodes and a few that are longer than the whole buffer."""
    rng = np.random.default_rng(3)
    buffer = SiblingEpisodeReplayBuffer(25, strategy=strategy, n_step=n_step, seed=0)
    running, alone, evicted_while_running = [None] * 4, 0, 0
    for _ in range(400):
        chunks = []
        for place in range(4):
            if running[place] is None:
                length = 40 if rng.random() < 0.05 else int(rng.integers(1, 6))
                running[place] = [random_episode(rng, length, terminated=True), 0]
            whole, start = running[place]
            stop = min(start + int(rng.integers(1, 9)), len(whole))
            chunks.append(whole[start:stop])
            running[place][1] = stop
            if stop == len(whole):
                running[place] = None
            elif start and whole.id_ not in buffer.episode_id_to_index:
                evicted_while_running += 1
        buffer.add(chunks[: int(rng.integers(1, 5))] if rng.random() < 0.1 else chunks)
        check(buffer)
        alone += len(buffer.episodes) == 1
        if len(buffer):
            buffer.sample(4, n_step=n_step)
            update(buffer, rng.random(4))
            check(buffer)
    assert alone > 5 and evicted_while_running > 5 and buffer.get_num_episodes_evicted() > 300


def test_an_episode_longer_than_the_buffer_loses_its_oldest_steps():
    buffer = SiblingEpisodeReplayBuffer(10, strategy=SiblingSample())
    whole = random_episode(np.random.default_rng(0), 37, terminated=True)
    add_in_chunks(buffer, whole, 7)
    assert sorted(t for _, t in buffer._indices.values()) == list(range(27, 37))
    buffer.add(random_episode(np.random.default_rng(1), 30))  # at once
    assert sorted(t for _, t in buffer._indices.values()) == list(range(20, 30))
    check(buffer)


def test_the_buffer_keeps_what_it_was_given():
    """Neither does storing change an episode, nor changing it afterwards the buffer."""
    buffer = SiblingEpisodeReplayBuffer(10, strategy=Prioritized())
    whole = random_episode(np.random.default_rng(0), 4, terminated=True)
    first, second = whole[:2], whole[2:]
    buffer.add([first])
    buffer.add([second])
    assert len(first) == len(second) == 2 and len(buffer.episodes[0]) == 4
    assert buffer.episodes[0].get_rewards().tolist() == pytest.approx(whole.get_rewards())


def test_metrics_are_rllibs():
    """The same counts as the stock buffer's, of the same additions and draws."""
    stock = PrioritizedEpisodeReplayBuffer(20)
    ours = SiblingEpisodeReplayBuffer(20, strategy=Prioritized())
    rng = np.random.default_rng(0)
    whole = [random_episode(rng, int(rng.integers(1, 6))) for _ in range(20)]
    for buffer in (stock, ours):
        for i in range(0, 20, 2):
            buffer.add(whole[i : i + 2])
        buffer.sample(8)
    counts = [
        {str(key): value for key, value in _flat(buffer.metrics.peek()) if "_per_" not in str(key)}
        for buffer in (stock, ours)
    ]
    utilization = [key for key in counts[0] if "utilization" in key]
    for each in counts:
        for key in utilization:
            assert 0 < each.pop(key) <= 1
    assert counts[0] == counts[1] and len(counts[0]) > 20


def _flat(nested, path=()):
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, key))
        else:
            yield (*path, key), value


@pytest.mark.parametrize(
    "strategy", [*HOST_STRATEGIES.values(), Uniform()], ids=[*HOST_STRATEGIES, "uniform"]
)
def test_a_restored_buffer_goes_on_where_it_was(strategy):
    """Even one that has other content: same draws, weights and masses, and nothing is shared."""
    buffer = filled(strategy)
    state = pickle.loads(pickle.dumps(buffer.get_state()))
    twins = [
        SiblingEpisodeReplayBuffer(CAPACITY, strategy=strategy, beta=BETA),
        filled(strategy),
    ]
    twins[1].add(random_episode(np.random.default_rng(9), 20))
    for twin in twins:
        twin.set_state(state)
        assert len(twin) == len(buffer)
    rng = np.random.default_rng(4)
    for _ in range(12):
        drawn = [each.sample(8) for each in (buffer, *twins)]
        contents = [
            [(item.get_rewards(0), item.get_extra_model_outputs("weights", 0)) for item in items]
            for items in drawn
        ]
        assert contents[0] == contents[1] == contents[2]
        errors, new = rng.random(8), random_episode(rng, 7)
        for each in (buffer, *twins):
            update(each, errors)
            each.add(new)
    if not isinstance(strategy, Uniform):
        for twin in twins:
            check(twin)
            assert np.array_equal(twin.replay.sampler.masses, buffer.replay.sampler.masses)


def test_a_state_of_another_form_changes_nothing():
    buffer = filled(SiblingSample(alpha=0.8))
    for other in (
        SiblingEpisodeReplayBuffer(CAPACITY, strategy=SiblingSample(alpha=0.3)),
        SiblingEpisodeReplayBuffer(CAPACITY + 1, strategy=SiblingSample(alpha=0.8)),
        SiblingEpisodeReplayBuffer(CAPACITY, strategy=SiblingSample(alpha=0.8), n_step=2),
    ):
        other.add(random_episode(np.random.default_rng(0), 3))
        size = len(other)
        with pytest.raises((StateError, ValueError)):
            other.set_state(buffer.get_state())
        assert len(other) == size and len(other.episodes) == 1
        check(other)


def test_key_functions_define_siblings():
    buffer = filled(SiblingSample(), key=lambda obs, action: int(obs[0]) // 2)
    groups = buffer.replay.sampler.groups
    halves = {
        slot: buffer._episode(number).get_observations(t)[0] // 2
        for slot, (number, t) in buffer._indices.items()
    }
    for i in halves:
        for j in halves:
            assert (halves[i] == halves[j]) == (groups[i] == groups[j])


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


def test_uniform_draws_what_the_stock_buffer_draws():
    ours, stock = SiblingEpisodeReplayBuffer(30, strategy=Uniform()), EpisodeReplayBuffer(30)
    rng = np.random.default_rng(0)
    whole = [random_episode(rng, int(rng.integers(1, 6))) for _ in range(30)]
    drawn = []
    for buffer in (ours, stock):
        buffer.rng = np.random.default_rng(5)
        for each in whole:
            buffer.add(each)
        drawn.append(
            [
                (item.get_rewards(0), item.get_extra_model_outputs("weights", 0))
                for _ in range(20)
                for item in buffer.sample(8, n_step=1, sample_episodes=True)
            ]
        )
        if buffer is ours:
            update(buffer, np.ones(8))
    assert drawn[0] == drawn[1] and len(buffer) <= 30


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

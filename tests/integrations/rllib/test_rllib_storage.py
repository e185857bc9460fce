"""What is stored and drawn from as episodes come in chunks, leave, and are saved."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer
from rllib_kit import BETA, CAPACITY, add_in_chunks, check, episode, filled, random_episode, update

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.checkpoint import StateError
from sibling_replay.integrations.rllib import SiblingEpisodeReplayBuffer
from support.host_draws import HOST_STRATEGIES


def test_steps_evicted_before_their_errors_come_are_dropped():
    buffer = filled(Prioritized())
    buffer.sample(8)
    for _ in range(CAPACITY):
        buffer.add(random_episode(np.random.default_rng(0), 1))
    before = buffer.replay.sampler.dropped_updates
    update(buffer, np.ones(8))
    assert buffer.replay.sampler.dropped_updates == before + 8


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("strategy", [Prioritized(), SiblingSample()], ids=["per", "sample"])
def test_eviction_with_interleaved_chunks_of_any_length(strategy, n_step):
    """Four environments at once: chunks of running episodes, several in one call; many short
    episodes and a few that are longer than the whole buffer."""
    rng = np.random.default_rng(3)
    buffer = SiblingEpisodeReplayBuffer(25, strategy=strategy, n_step=n_step, seed=0)
    running, evicted_while_running = [None] * 4, 0
    for _ in range(200):
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
        several = int(rng.integers(1, 5))
        buffer.add(chunks[:several])
        buffer.add(chunks[several:])
        check(buffer)
        if len(buffer):
            buffer.sample(4, n_step=n_step)
            update(buffer, rng.random(4))
            check(buffer)
    assert evicted_while_running > 5 and buffer.get_num_episodes_evicted() > 150


def test_an_episode_longer_than_the_buffer_loses_its_oldest_steps():
    buffer = SiblingEpisodeReplayBuffer(10, strategy=SiblingSample())
    whole = random_episode(np.random.default_rng(0), 37, terminated=True)
    add_in_chunks(buffer, whole, 7)
    assert sorted(t for _, t in buffer._indices.values()) == list(range(27, 37))
    buffer.add(random_episode(np.random.default_rng(1), 30))  # at once
    assert sorted(t for _, t in buffer._indices.values()) == list(range(20, 30))
    check(buffer)


def _no_eight(obs, action):
    """A key that cannot tell of an observation of eight or more, and is wider for seven."""
    if obs[0] >= 8:
        raise ValueError("eight has no key")
    return obs if obs[0] < 7 else np.zeros(5, np.float32)


def _content(buffer):
    return [(each.id_, np.array(each.get_observations()).tolist()) for each in buffer.episodes]


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("odd", [8, 7])
@pytest.mark.parametrize("goes_on", [False, True], ids=["new", "goes on"])
def test_an_episode_whose_key_is_refused_is_not_stored(goes_on, odd, n_step):
    """Not a part of it: nothing is evicted for it, no step counted; what came before it stays."""
    buffer = SiblingEpisodeReplayBuffer(
        20, strategy=SiblingSample(), n_step=n_step, key=_no_eight, seed=0
    )
    numbers = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]
    for _ in range(2):
        buffer.add(episode(numbers[:9], [0] * 8))
    first, fits = episode(numbers, [1] * 11, terminated=False), episode([1, 2], [0])
    wrong = episode([4, 5, odd, 3, 3, 3, 3], [0] * 6)
    if goes_on:
        first, wrong = first[:4], episode([5, odd, 1, 1, 1], [0] * 4, id_=first.id_, t_started=4)
    buffer.add(first)
    buffer.add(fits)
    before, held, counts = buffer.get_state(), _content(buffer), repr(buffer.metrics.peek())
    with pytest.raises(ValueError, match=r"no key|shape|bytes"):
        buffer.add(wrong)
    check(buffer)
    after = buffer.get_state()
    for same in ("_num_timesteps_added", "_indices", "free", "rng"):
        assert after[same] == before[same]
    assert _content(buffer) == held
    with pytest.raises(ValueError, match=r"no key|shape|bytes"):
        buffer.add([episode([3, 2], [1]), wrong, episode([2, 1], [1])])
    check(buffer)
    assert buffer.get_added_timesteps() == before["_num_timesteps_added"] + 1
    assert repr(buffer.metrics.peek()) != counts
    buffer.add(episode(numbers, [0] * 11))  # and it goes on
    check(buffer)


def test_an_episode_that_cannot_be_copied_leaves_no_trace():
    buffer = SiblingEpisodeReplayBuffer(20, strategy=SiblingSample(), seed=0)
    first, second = episode([1, 2, 3], [0, 1]), episode([4, 5], [1])
    buffer.add(first)
    second.infos[0] = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match="lock"):
        buffer.add(second)
    buffer.add(episode([6, 7, 8], [0, 0]))
    second.infos[0] = {}
    buffer.add(second)
    check(buffer)
    assert len(buffer) == 5 and buffer.episode_id_to_index[second.id_] == 2


def test_the_buffer_keeps_what_it_was_given():
    """Neither does storing change an episode, nor changing it afterwards the buffer."""
    buffer = SiblingEpisodeReplayBuffer(10, strategy=Prioritized())
    whole = random_episode(np.random.default_rng(0), 4, terminated=True)
    first, second = whole[:2], whole[2:]
    buffer.add([first])
    buffer.add([second])
    assert len(first) == len(second) == 2 and len(buffer.episodes[0]) == 4
    assert buffer.episodes[0].get_rewards() == whole.get_rewards()
    stored = np.array(buffer.episodes[0].get_observations())
    for given in (first, second):
        for obs in given.observations.data:
            obs[...] = -1.0
    assert np.array_equal(stored, buffer.episodes[0].get_observations()) and (stored > 0).all()


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


def test_beta_and_open_draws_are_part_of_the_state():
    buffer = filled(SiblingSample(alpha=0.8))
    buffer.beta = 0.9
    state = pickle.loads(pickle.dumps(buffer.get_state()))
    twin = SiblingEpisodeReplayBuffer(CAPACITY, strategy=SiblingSample(alpha=0.8), beta=0.4)
    twin.set_state(state)
    assert twin.beta == 0.9
    update(twin, np.ones(8))  # of a draw from before
    assert twin.unmatched_updates == 8
    del state["beta"]
    twin.set_state(state)
    assert twin.beta == 0.9


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

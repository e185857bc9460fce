"""Maps given unfitted to our RLlib buffer: CartPole, whose observations never repeat."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer
from ray.tune.registry import register_env
from rllib_kit import bandit_config

from sibling_replay import SiblingSample, Uniform
from sibling_replay.grouping import Auto, Grid, KMeans, SimHash
from sibling_replay.integrations.rllib import BUFFER, SiblingDQN, SiblingEpisodeReplayBuffer
from support.fitted_maps import check_chosen, check_groups, check_same, check_sibling_sample

STEPS, CAPACITY = 2_400, 8_000
MAPS = {"auto": Auto(fit_after=1_000), "grid": Grid(4), "hash": SimHash(6), "means": KMeans(16)}

register_env("cart", lambda config: gym.make("CartPole-v1"))


def trained(key) -> SiblingDQN:
    replay = {
        "type": BUFFER,
        "capacity": CAPACITY,
        "strategy": SiblingSample(alpha=0.6),
        "key": key,
        "seed": 1,
    }
    dqn = bandit_config(3, replay).environment("cart").build_algo()
    while len(dqn.local_replay_buffer) < STEPS:
        dqn.training_step()
    return dqn


def stored(buffer) -> tuple[np.ndarray, np.ndarray]:
    """One by one, as RLlib reads them."""
    places = [buffer._indices[slot] for slot in buffer.replay.sampler.live_slots.tolist()]
    steps = [(buffer._episode(number), t) for number, t in places]
    obs = np.stack([each.get_observations(t) for each, t in steps])
    return obs, np.array([int(each.get_actions(t)) for each, t in steps])


def drawn(buffer, size: int) -> np.ndarray:
    buffer.sample(size, n_step=buffer.n_step)
    return np.array(buffer._last_sampled_indices)


@pytest.mark.usefixtures("local_ray")
def test_auto_as_it_is():
    dqn = trained(Auto())
    buffer = dqn.local_replay_buffer
    check_chosen(buffer.replay)
    check_groups(buffer.replay, *stored(buffer))
    assert f"(G/N {buffer.support().groups_per_entry:.4f})" in repr(buffer)
    dqn.stop()


@pytest.mark.usefixtures("local_ray")
def test_without_a_key_it_says_that_it_corrects_nothing():
    with pytest.warns(UserWarning, match=r"does nearly what Prioritized does.*key=Auto\(\)"):
        dqn = trained(None)
        for _ in range(20):  # so that 1,000 draws were looked at
            dqn.training_step()
    buffer = dqn.local_replay_buffer
    assert buffer.support().groups_per_entry > 0.99 and "(G/N 1.0000)" in repr(buffer)
    dqn.stop()


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("key", MAPS.values(), ids=MAPS)
def test_groups_form_and_are_drawn_by_their_law(key):
    dqn = trained(key)
    buffer = dqn.local_replay_buffer
    assert buffer.unmatched_updates == 0
    check_groups(buffer.replay, *stored(buffer))
    check_sibling_sample(buffer.replay, *stored(buffer), lambda size: drawn(buffer, size))
    support = buffer.support()
    assert support.entries == len(buffer) and support.groups_per_entry < 0.15
    assert not key.fitted
    if isinstance(key, Auto):
        counts = [choice.entries for choice in buffer.replay.key_choices]
        assert len(counts) == 2 and 1_000 <= counts[0] < 1_100 and counts[1] >= 2 * counts[0]
        assert support.key.endswith(f"chosen by {key!r}") and support.reason
    dqn.stop()


def random_episodes(seed: int, steps: int) -> list:
    """Of observations that hardly repeat, in the form of CartPole's."""
    rng = np.random.default_rng(seed)
    found = []
    while steps > 0:
        length = int(rng.integers(5, 40))
        found.append(
            SingleAgentEpisode(
                observations=list(rng.normal(size=(length + 1, 4)).astype(np.float32)),
                actions=list(rng.integers(0, 2, length)),
                rewards=[1.0] * length,
                terminated=True,
                len_lookback_buffer=0,
            )
        )
        steps -= length
    return found


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("grown", [False, True], ids=["awaited", "fitted"])
def test_a_checkpoint_goes_on_where_it_was(grown, tmp_path):
    """Through files of an algorithm: the same steps lead to the same fit and the same draws."""
    dqn = trained(Auto(fit_after=1_000 if grown else STEPS + 500))
    dqn.save_to_path(tmp_path / "checkpoint")
    twin = SiblingDQN.from_checkpoint(tmp_path / "checkpoint")
    buffers = [dqn.local_replay_buffer, twin.local_replay_buffer]
    assert len(buffers[0].replay.key_choices) == 2 * grown
    check_same(buffers[1].replay, buffers[0].replay)
    rng = np.random.default_rng(0)
    for seed in range(6):
        for buffer in buffers:
            buffer.add(random_episodes(seed, 500))
        assert np.array_equal(*(drawn(buffer, 32) for buffer in buffers))
        errors = rng.exponential(size=32)
        for buffer in buffers:
            buffer.update_priorities(errors)
    assert len(buffers[0].replay.key_choices) == 1 + 2 * grown
    check_same(buffers[1].replay, buffers[0].replay)
    check_groups(buffers[1].replay, *stored(buffers[1]))
    twin.training_step()  # and it trains
    for each in (dqn, twin):
        each.stop()


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_buffer_that_lets_episodes_go_before_it_is_full_fits_what_it_holds(n_step):
    """Whole episodes leave, so it never holds `capacity` steps that can be drawn."""
    buffer = SiblingEpisodeReplayBuffer(
        600, strategy=SiblingSample(), key=Auto(0.1), n_step=n_step, seed=0
    )
    for each in random_episodes(0, 3_000):
        buffer.add(each)
    assert len(buffer.replay.key_choices) == 1
    assert 400 < buffer.replay.key_choices[0].entries < 600
    check_groups(buffer.replay, *stored(buffer))


def test_what_a_map_cannot_be_fitted_to_is_refused_at_the_first_episode():
    (first,) = random_episodes(0, 1)
    buffer = SiblingEpisodeReplayBuffer(100, strategy=SiblingSample(), key=Grid(3, dims=(0, 7)))
    with pytest.raises(ValueError, match="7"):
        buffer.add(first)
    parts = SingleAgentEpisode(
        observations=[{"a": 0.0, "b": np.ones(2)}] * 3,
        actions=[0, 1],
        rewards=[0.0, 0.0],
        len_lookback_buffer=0,
    )
    buffer = SiblingEpisodeReplayBuffer(100, strategy=SiblingSample(), key=Auto())
    with pytest.raises(TypeError, match=r"several parts.*FlattenObservation: a key map gets one"):
        buffer.add(parts)
    assert len(buffer) == 0


def test_uniform_stays_the_stock_buffer():
    with pytest.warns(UserWarning, match="Uniform draws without groups"):
        ours = SiblingEpisodeReplayBuffer(300, strategy=Uniform(), key=Auto(fit_after=10))
    stock = EpisodeReplayBuffer(300)
    found = []
    for buffer in (ours, stock):
        buffer.rng = np.random.default_rng(5)
        for each in random_episodes(1, 500):
            buffer.add(each)
        sample = buffer.sample(16, n_step=1, sample_episodes=True)
        found.append([each.get_observations(0).tolist() for each in sample])
    assert found[0] == found[1]

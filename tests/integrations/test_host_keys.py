"""Unfitted maps in a storage that a host owns: awaited, fitted to what it holds, saved."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingSample, SlotSampler, StateError
from sibling_replay.grouping import Auto, Grid, KMeans, SimHash
from sibling_replay.integrations.host_replay import HostReplay
from support.fitted_maps import check_groups, check_same, check_sibling_sample, fitted_map

FIT_AFTER = 300
MAPS = {"auto": Auto(0.1, FIT_AFTER), "grid": Grid(3), "hash": SimHash(5), "means": KMeans(9)}
maps = pytest.mark.parametrize("key", MAPS.values(), ids=MAPS)


class Host:
    """A storage of arrays, written in any order, and its replay."""

    def __init__(self, capacity: int, key: Any, continuous: bool = False, **options: Any) -> None:
        self.replay = HostReplay("Host", capacity, SiblingSample(), key, seed=0, **options)
        self.obs = np.zeros((capacity, 3), dtype=np.float32)
        self.act: Any = np.zeros(capacity, np.float32 if continuous else np.int64)
        self.rng = np.random.default_rng(1)
        self.read_counts: list[int] = []

    def read(self, slots):
        self.read_counts.append(len(slots))
        return self.obs[slots], self.act[slots]

    def write(self, slots) -> None:
        slots = np.asarray(slots)
        self.obs[slots] = self.rng.normal(size=(slots.size, 3))
        actions = self.rng.integers(0, 2, slots.size)
        self.act[slots] = (
            actions if self.act.dtype.kind == "i" else self.rng.normal(size=slots.size)
        )
        self.replay.put(slots, self.obs[slots], self.act[slots])
        self.replay.fit_if_due(self.read)

    def train(self, size: int = 32) -> np.ndarray:
        slots, _ = self.replay.draw(size, 0.4)
        self.replay.refresh(slots, np.abs(self.obs[slots, 0]))
        return slots

    @property
    def live(self):
        return self.read(self.replay.sampler.live_slots)


@maps
def test_siblings_share_the_action_alone_until_there_are_enough(key):
    host = Host(4_000, key)
    due = key.fit_after
    host.write(np.arange(due - 1))
    support = host.replay.support()
    assert (support.groups, support.reason[:31]) == (2, "siblings are entries with equal")
    for _ in range(10):
        host.train()
    masses = host.replay.sampler.masses
    drawn, _ = host.replay.draw(16, 0.4)  # still open when groups change
    host.write([due - 1])
    assert np.array_equal(host.replay.sampler.masses[: due - 1], masses[: due - 1])
    check_groups(host.replay, *host.live)
    host.replay.refresh(drawn, np.full(16, 7.0))
    assert host.replay.unmatched_updates == 0
    np.testing.assert_allclose(host.replay.sampler.masses[drawn], (7.0 + 1e-6) ** 0.6)
    for _ in range(10):
        host.train()
    check_sibling_sample(host.replay, *host.live, lambda size: host.replay.draw(size, 0.4)[0])


def test_the_random_stream_does_not_notice_the_fit():
    """The uniforms of the draws that follow are those of a buffer that fits at another time."""
    states = []
    for fit_after in (200, 400):
        host = Host(1_000, Auto(fit_after=fit_after))
        for start in range(0, 500, 100):
            host.write(np.arange(start, start + 100))
            host.train()
        states.append(host.replay.sampler.state_dict()["header"]["uniforms"])
    assert states[0] == states[1]


def test_auto_chooses_again_when_entries_have_doubled_and_at_no_other_time():
    host = Host(2_000, Auto(0.1, 300))
    for slot in range(0, 2_000, 50):
        host.write(np.arange(slot, slot + 50))
        host.train()
    assert [choice.entries for choice in host.replay.key_choices] == [300, 600, 1_200]
    host.write(np.arange(0, 2_000, 7))
    assert len(host.replay.key_choices) == 3
    assert host.replay.key_choices[-1].reason == host.replay.support().reason
    check_groups(host.replay, *host.live)


def test_other_maps_are_fitted_once():
    host = Host(8_000, Grid(3))
    host.write(np.arange(2_000))
    digest = fitted_map(host.replay).digest
    host.write(np.arange(2_000, 8_000))
    assert fitted_map(host.replay).digest == digest
    assert len(host.read_counts) == 3  # a row for its size, the fit, and keys of all


def test_the_givers_map_stays_unfitted():
    key = Auto(fit_after=100)
    hosts = [Host(500, key), Host(500, key)]
    hosts[0].write(np.arange(200))
    assert not key.fitted
    key.fit(np.zeros((3, 3)))  # nor does it matter what they do with it
    twin = pickle.loads(pickle.dumps(hosts[1].replay))
    assert twin._keys.fitting.due == 100


def test_a_storage_that_is_never_full_fits_what_it_holds():
    """One that lets whole episodes go, say."""
    host = Host(400, Auto(0.1, 1_000))
    for start in range(0, 360, 40):
        host.write(np.arange(start, start + 40))
    assert host.replay.key_choices == ()
    host.replay.sampler.remove(np.arange(40))
    host.write(np.arange(40))
    assert [choice.entries for choice in host.replay.key_choices] == [360]
    check_groups(host.replay, *host.live)


def test_an_emptied_storage_awaits_its_next_entries():
    host = Host(1_000, Auto(fit_after=100))
    host.write(np.arange(150))
    assert len(host.replay.key_choices) == 1
    host.replay.clear()
    assert host.replay.key_choices == ()
    host.write(np.arange(99))
    assert host.replay.support().groups == 2
    host.write([500])
    assert [choice.entries for choice in host.replay.key_choices] == [100]


def test_real_actions_are_binned_not_compared():
    host = Host(3_000, Grid(3), continuous=True)
    host.write(np.arange(1_000))
    assert host.replay.support().groups == 1
    host.write(np.arange(1_000, 3_000))
    support = host.replay.support()
    assert 27 < support.groups <= 81 and support.singletons == 0.0
    given = Host(3_000, Grid(3).fit(host.obs, host.act), continuous=True)
    given.write(np.arange(3_000))
    assert 27 < given.replay.support().groups <= 81


def test_observations_of_several_parts():
    replay = HostReplay("Host", 500, SiblingSample(), Auto(fit_after=100), seed=0)
    rng = np.random.default_rng(0)
    obs = {"a": rng.normal(size=(200, 2)), "b": rng.integers(0, 3, 200)}
    act = np.zeros(200, np.int64)
    replay.put(np.arange(200), obs, act)
    replay.fit_if_due(lambda s: ({name: part[s] for name, part in obs.items()}, act[s]))
    assert 1 < replay.support().groups < 40


# ------------------------------------------------------------------------ saved and loaded


def twins(replay: HostReplay, key: Any) -> list[HostReplay]:
    by_state = HostReplay("Host", replay.sampler.capacity, SiblingSample(), key, seed=5)
    by_state.load_state_dict(replay.state_dict())
    return [pickle.loads(pickle.dumps(replay)), by_state]


@maps
@pytest.mark.parametrize("entries", [100, 2_500])
def test_a_state_goes_on_bit_for_bit_with_its_map(key, entries):
    host = Host(8_000, key)
    for start in range(0, entries, 100):
        host.write(np.arange(start, start + 100))
        host.train()
    replays = [host.replay, *twins(host.replay, key)]
    rng = np.random.default_rng(3)
    for start in range(entries, 6_000, 500):
        slots = np.arange(start, start + 500)
        host.obs[slots] = rng.normal(size=(500, 3))
        host.act[slots] = rng.integers(0, 2, 500)
        drawn = []
        for replay in replays:
            replay.put(slots, host.obs[slots], host.act[slots])
            replay.fit_if_due(host.read)
            found, weights = replay.draw(64, 0.5)
            drawn.append((found.copy(), weights.copy()))
            replay.refresh(drawn[-1][0], host.obs[drawn[-1][0], 1])
        for found, weights in drawn[1:]:
            assert np.array_equal(found, drawn[0][0]) and np.array_equal(weights, drawn[0][1])
    fitted_map(host.replay)
    for replay in replays[1:]:
        check_same(replay, host.replay)


def test_states_of_other_keys_and_tampered_maps_are_refused():
    host = Host(1_000, Auto(fit_after=200))
    host.write(np.arange(500))
    state = host.replay.state_dict()
    assert state["header"]["key_map"]["fits"] is True

    def load(state, key) -> None:
        replay = HostReplay("Host", 1_000, SiblingSample(), key)
        before = replay.state_dict()
        try:
            replay.load_state_dict(state)
        finally:
            assert replay.state_dict()["header"].get("key_map") == before["header"].get("key_map")

    for other in (Auto(noise=0.5), Grid(4), None, Grid(3).fit(host.obs)):
        with pytest.raises(StateError, match="was saved with the key Auto"):
            load(state, other)
    exact = HostReplay("Host", 1_000, SiblingSample())
    with pytest.raises(StateError, match=r"no key map, and this buffer fits Auto\("):
        load(exact.state_dict(), Auto())
    with pytest.raises(StateError, match=r"no key map, and this buffer fits Grid\("):
        load(exact.state_dict(), Grid(2).fit(host.obs))
    name = next(name for name in state if name.startswith("key_map/") and state[name].size)
    state[name] = state[name].copy()
    state[name].flat[0] *= 1.5
    with pytest.raises(StateError, match="digest"):
        load(state, Auto(fit_after=200))


def test_a_state_of_a_fitted_map_is_of_that_map():
    rng = np.random.default_rng(0)
    one, other = (Grid(3).fit(rng.normal(size=(50, 3))) for _ in range(2))
    host = Host(100, one)
    host.write(np.arange(100))
    HostReplay("Host", 100, SiblingSample(), one).load_state_dict(host.replay.state_dict())
    with pytest.raises(StateError, match="of another fit"):
        HostReplay("Host", 100, SiblingSample(), other).load_state_dict(host.replay.state_dict())


# --------------------------------------------------------------------- what is said and refused


def test_what_the_fit_would_refuse_is_refused_at_the_first_entry():
    host = Host(100, Grid(3, dims=(0, 7)))
    with pytest.raises(ValueError, match="7"):
        host.write([0])
    assert len(host.replay.sampler) == 0
    host = Host(100, Auto(fit_after=10))
    with pytest.raises(ValueError, match="must be finite"):
        host.replay.put(np.arange(2), np.array([[0.0, np.nan]] * 2), np.zeros(2, np.int64))
    assert len(host.replay.sampler) == 0


def test_a_storage_that_cannot_be_fitted_warns_and_goes_on():
    host = Host(1_000, Auto(fit_after=200))
    host.write(np.arange(199))
    host.obs[3] = np.nan  # behind our back
    with pytest.warns(UserWarning, match="siblings stay those of .* must be finite"):
        host.write([199])
    host.write(np.arange(200, 400))
    assert host.replay.support().groups == 2 and host.replay.key_choices == ()


def test_nearly_one_group_is_said_of_a_map_but_not_while_one_is_awaited():
    host = Host(4_000, Auto(fit_after=3_000), continuous=True)
    host.write(np.arange(2_000))
    for _ in range(400):
        host.train()  # one group, for now
    host = Host(4_000, Grid(1))
    host.write(np.arange(2_500))
    host.act[:] = 0
    host.replay.put(np.arange(2_500), host.obs[:2_500], host.act[:2_500])
    with pytest.warns(UserWarning, match="does nearly what Uniform does"):
        for _ in range(400):
            host.train()


def test_a_strategy_without_groups_fits_nothing():
    with pytest.warns(UserWarning, match="Prioritized draws without groups: the key Auto"):
        replay = HostReplay("Host", 100, Prioritized(), Auto(fit_after=10))
    replay.put(np.arange(50), None, None)
    replay.fit_if_due(lambda slots: pytest.fail("there is nothing to read"))
    assert "key_map" not in replay.state_dict()["header"]


def test_a_key_described_again_warns_once():
    """A host that chooses anew says what makes siblings anew; what was told stays told."""
    sampler = SlotSampler(2_000, SiblingSample(), seed=0)
    sampler.put(np.arange(2_000), keys=np.arange(2_000))  # nobody has siblings
    told = []
    for _ in range(3):
        sampler.describe_key("Grid(9)", mapped=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(400):
                sampler.sample(32)
        told.append(len(caught))
    assert told == [1, 0, 0]


def test_forgotten_slots_are_not_drawn():
    host = Host(100, None)
    host.write(np.arange(50))
    host.replay.forget(np.array([3, 3, 70]))
    assert len(host.replay.sampler) == 49 and not host.replay.sampler.holds([3])[0]

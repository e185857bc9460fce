"""Dict and Tuple observations in the buffer: parts in, parts out, equal parts are siblings."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from buffer_kit import STRATEGIES, assert_refused, assert_valid, differences, snapshot
from gymnasium import spaces

from sibling_replay import (
    Batch,
    Field,
    KeyMap,
    Parts,
    Prioritized,
    ReplayBuffer,
    SiblingSample,
    Uniform,
)
from sibling_replay.diagnostics import examine
from sibling_replay.grouping import Auto, Entries, Exact, Grid, SimHash, map_from_state
from support.averaging import averaged

DICT = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (3, 2), np.uint8),
        "arm": spaces.Dict(
            {"speed": spaces.Box(-9, 9, (3,), np.float32), "on": spaces.Discrete(2)}
        ),
        "bits": spaces.MultiBinary(5),
    }
)
TUPLE = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float64), spaces.Dict(a=DICT)))


class Env(gym.Env):
    def __init__(self, space, actions=None):
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(2)


def buffer_for(space, strategy, capacity=16, **options):
    return ReplayBuffer.for_env(Env(space), capacity, strategy, **options)


def elements(space, count, kinds=3, seed=0):
    """Elements of a space, some of them equal."""
    space.seed(seed)
    known = [space.sample() for _ in range(kinds)]
    rng = np.random.default_rng(seed)
    return [copy.deepcopy(known[i]) for i in rng.integers(kinds, size=count)]


def stacked(rows):
    if isinstance(rows[0], dict):
        return {name: stacked([row[name] for row in rows]) for name in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(stacked(part) for part in zip(*rows, strict=True))
    return np.stack(rows)


def assert_equal(found, expected):
    if isinstance(expected, dict):
        assert isinstance(found, dict) and list(found) == list(expected)
        for name in expected:
            assert_equal(found[name], expected[name])
    elif isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert_equal(mine, theirs)
    else:
        assert np.array_equal(found, expected) and found.shape == expected.shape


def rows_of(tree, places):
    if isinstance(tree, dict):
        return {name: rows_of(part, places) for name, part in tree.items()}
    return tuple(rows_of(p, places) for p in tree) if isinstance(tree, tuple) else tree[places]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("space", [DICT, TUPLE], ids=["dict", "tuple"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_parts_come_out_as_they_went_in(name, space, many):
    """Over the ring's seam; groups are those of equal parts and action; every column of a batch is
    of the entries in its slots."""
    count, capacity = 23, 16
    obs, next_obs = elements(space, count), elements(space, count, seed=1)
    action = np.random.default_rng(2).integers(2, size=count)
    reward, no = np.arange(count, dtype=np.float32), np.zeros(count, dtype=bool)
    buffer = buffer_for(space, STRATEGIES[name], capacity, seed=0)
    if many:
        buffer.extend(stacked(obs), action, reward, stacked(next_obs), no, no)
    else:
        for i in range(count):
            buffer.add(obs[i], int(action[i]), float(reward[i]), next_obs[i], False, False)
    assert_valid(buffer)
    kept = sorted(range(count - capacity, count), key=lambda i: i % capacity)
    found = buffer.transitions()
    assert_equal(found["obs"], stacked([obs[i] for i in kept]))
    assert_equal(found["next_obs"], stacked([next_obs[i] for i in kept]))
    if buffer.groups[0] >= 0:
        keys = [(repr(obs[i]), action[i]) for i in kept]
        same = [[one == other for other in keys] for one in keys]
        assert (np.equal.outer(buffer.groups, buffer.groups) == same).all()
        assert len(set(buffer.groups)) < capacity
    batch = averaged(buffer.sample(8))
    assert_equal(batch.obs, rows_of(found["obs"], batch.slots))
    assert_equal(batch.outcomes.next_obs, rows_of(found["next_obs"], np.asarray(
        batch.outcome_slots if batch.outcomes is batch else batch.outcomes.slots
    )))  # fmt: skip
    buffer.update_priorities(batch, np.ones(8))


def test_views_are_of_the_batch_and_keep_its_memory():
    """A held part is not overwritten by the next draw, and a batch that nobody holds is reused."""
    buffer = buffer_for(DICT, Uniform(), seed=0)
    for i, obs in enumerate(elements(DICT, 12, kinds=12)):
        buffer.add(obs, 0, float(i), obs, False, False)
    held = buffer.sample(4).obs["arm"]["speed"]
    before = held.copy()
    for _ in range(6):
        buffer.sample(4)
    assert np.array_equal(held, before)
    assert held.dtype == np.float32 and held.flags.aligned
    del held
    addresses = set()
    for _ in range(8):
        addresses.add(buffer.sample(4).block.ctypes.data)
    assert len(addresses) <= 2


def test_a_batch_is_copied_pickled_and_made_tensors_of():
    torch = pytest.importorskip("torch")
    buffer = buffer_for(TUPLE, SiblingSample(), seed=0)
    for obs in elements(TUPLE, 12):
        buffer.add(obs, 0, 1.0, obs, False, False)
    batch = buffer.sample(4)
    for twin in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert isinstance(twin, Batch)
        assert_equal(twin.obs, batch.obs)
        assert_equal(twin.outcomes.next_obs, batch.next_obs)
    tensors = batch.to_torch()
    speed = tensors["obs"][2]["a"]["arm"]["speed"]
    assert isinstance(speed, torch.Tensor) and speed.shape == (4, 3)
    assert np.array_equal(speed.numpy(), batch.obs[2]["a"]["arm"]["speed"])


def test_equal_values_are_siblings_whatever_their_bytes():
    buffer = buffer_for(DICT, SiblingSample(), seed=0)
    obs = elements(DICT, 1)[0]
    obs["arm"]["speed"] = np.array([0.0, 1.0, 2.0], dtype=np.float32)
    other = copy.deepcopy(obs)
    other["arm"]["speed"][0] = -0.0
    third = copy.deepcopy(obs)
    third["camera"][0, 0] ^= 1
    for each in (obs, other, third):
        buffer.add(each, 0, 1.0, each, False, False)
    assert buffer.groups[0] == buffer.groups[1] != buffer.groups[2]
    buffer.add(dict(reversed(obs.items())), 0, 1.0, obs, False, False)  # order does not matter
    assert buffer.groups[3] == buffer.groups[0]


def test_n_steps_of_parts():
    buffer = buffer_for(DICT, Uniform(), n_steps=3, gamma=0.5, seed=0)
    obs = elements(DICT, 6, kinds=6)
    for i in range(5):
        buffer.add(obs[i], 0, 1.0, obs[i + 1], False, False)
    found = buffer.transitions()
    assert_equal(rows_of(found["next_obs"], 0), obs[3])
    assert_equal(rows_of(found["next_obs"], 4), obs[5])
    np.testing.assert_allclose(found["reward"], [1.75, 1.75, 1.75, 1.5, 1.0])


# -------------------------------------------------------------------------- keys


def filled(key, space=DICT, count=60, **options):
    buffer = buffer_for(space, SiblingSample(), count, key=key, seed=0, **options)
    for i, obs in enumerate(elements(space, count, kinds=9)):
        buffer.add(obs, i % 2, float(i % 3), obs, False, False)
    return buffer


def test_key_functions_and_maps_see_parts():
    seen = []

    def by_arm(obs, action):
        seen.append(obs)
        return obs["arm"]["on"]

    buffer = filled(by_arm)
    assert len(set(buffer.groups)) == 4  # two of each action
    assert_equal(seen[-1], rows_of(buffer.transitions()["obs"], len(buffer) - 1))
    assert isinstance(seen[-1]["arm"]["on"], np.int64) and seen[-1]["camera"].shape == (3, 2)

    class On(KeyMap):
        def keys(self, obs, action):
            return obs["arm"]["on"]

    assert np.array_equal(filled(On()).groups, buffer.groups)
    assert len(set(filled(Grid(2)).groups)) > 2
    assert filled(Auto(fit_after=50)).key_choices


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("arm.on",), lambda obs: int(obs["arm"]["on"])),
        (("arm",), lambda obs: (int(obs["arm"]["on"]), *obs["arm"]["speed"])),
        (("camera", "arm.on"), lambda obs: (*obs["camera"].ravel(), int(obs["arm"]["on"]))),
    ],
)
def test_entries_group_by_the_chosen_ones_alone(names, chosen, tmp_path):
    buffer = filled(Entries(names))
    rows = [rows_of(buffer.transitions()["obs"], i) for i in range(len(buffer))]
    keys = [(chosen(obs), i % 2) for i, obs in enumerate(rows)]
    same = [[one == other for other in keys] for one in keys]
    assert (np.equal.outer(buffer.groups, buffer.groups) == same).all()
    buffer.save(tmp_path / "buffer.npz")
    twin = ReplayBuffer.load(tmp_path / "buffer.npz")
    obs = elements(DICT, 1, seed=7)[0]
    for each in (buffer, twin):
        each.add(obs, 0, 1.0, obs, False, False)
    assert differences(snapshot(buffer), snapshot(twin)) == []


def test_entries_of_a_tuple_by_a_fitted_map():
    buffer = filled(Entries(("1",), then=Grid(2)), TUPLE)
    position = buffer.transitions()["obs"][1]
    expected = Grid(2).fit(position).keys(position)
    for one in range(len(buffer)):
        for other in range(len(buffer)):
            same = expected[one] == expected[other] and (one - other) % 2 == 0
            assert (buffer.groups[one] == buffer.groups[other]) == same
    key = Entries(("1",), then=SimHash(4)).fit(buffer.transitions()["obs"])
    twin = map_from_state(*key.state())
    assert twin.digest == key.digest and repr(twin) == repr(key)
    obs = stacked(elements(TUPLE, 9, kinds=9))
    assert np.array_equal(twin.keys(obs), key.keys(obs))
    assert Entries("0").names == ("0",) and Entries("0").fitted
    assert not Entries("0", then=Grid(2)).fitted


def test_entries_that_are_not_there_are_named():
    with pytest.raises(ValueError, match=r"no entry 'spee'; there are arm\.on, arm\.speed, bits"):
        buffer_for(DICT, SiblingSample(), key=Entries("spee"))
    with pytest.raises(ValueError, match="one array"):
        ReplayBuffer.for_env(gym.make("CartPole-v1"), 10, SiblingSample(), key=Entries("speed"))
    for wrong, match in ((dict(names=()), "names"), (dict(names="a", then=4), "then")):
        with pytest.raises((TypeError, ValueError), match=match):
            Entries(**wrong)
    assert Exact().fitted


# ------------------------------------------------------------------------- state


@pytest.mark.parametrize("space", [DICT, TUPLE], ids=["dict", "tuple"])
@pytest.mark.parametrize("key", ["exact", Grid(2)], ids=["exact", "grid"])
def test_saved_and_copied_buffers_continue_bit_for_bit(key, space, tmp_path):
    buffer = filled(key, space)
    buffer.save(tmp_path / "buffer.npz")
    twins = [ReplayBuffer.load(tmp_path / "buffer.npz"), copy.deepcopy(buffer)]
    obs = elements(space, 1, seed=5)[0]
    for each in (buffer, *twins):
        each.add(obs, 0, 1.0, obs, True, False)
        each.update_priorities(each.sample(8), np.arange(8.0))
    for twin in twins:
        assert differences(snapshot(buffer), snapshot(twin)) == []
        assert_equal(twin.transitions()["obs"], buffer.transitions()["obs"])
    buffer.rekey(Entries("0" if space is TUPLE else "bits"))
    assert_valid(buffer)


def test_a_state_of_other_parts_is_refused():
    state = filled("exact").state_dict()
    other = buffer_for(
        spaces.Dict({**DICT.spaces, "bits": spaces.MultiBinary(6)}), SiblingSample(), 60
    )
    assert_refused(other, lambda: other.load_state_dict(state), "fields")


def test_the_microscope_looks_at_parts(tmp_path):
    """The same findings as of the same buffer with its parts in one array."""
    buffer = buffer_for(DICT, Prioritized(), 60, seed=0)
    obs = elements(DICT, 60, kinds=4)
    flat = spaces.flatten_space(DICT)
    other = ReplayBuffer.for_env(Env(flat), 60, Prioritized(), seed=0)
    for i, each in enumerate(obs):
        rest = 0, float(i % 3)
        buffer.add(each, *rest, each, False, False)
        row = spaces.flatten(DICT, each)
        other.add(row, *rest, row, False, False)
    mine, theirs = examine(buffer), examine(other)
    assert mine.tv.tolist() == theirs.tv.tolist() and mine.tv.size == 4
    mapped = examine(buffer, key=Grid(2).fit(buffer.transitions()["obs"]))
    assert mapped.entries == 60
    pytest.importorskip("polars")  # which reads tables of transitions, an extra
    from sibling_replay.microscope.transitions import Reading, read_transitions

    buffer.save(tmp_path / "buffer.npz")
    read = read_transitions(tmp_path / "buffer.npz", Reading())
    assert np.unique(read.groups).size == 4
    assert read_transitions(tmp_path / "buffer.npz", Reading(key="grid:2")).groups.size == 60


# -------------------------------------------------------------------- bad input


def test_bad_parts_are_named_and_leave_no_trace():
    buffer = filled("exact")
    good = elements(DICT, 1)[0]

    def with_(**changed):
        return {**good, **changed}

    for wrong, match in (
        (with_(extra=1), "obs: expected a mapping of .*arm.*, got .*extra"),
        ({"camera": good["camera"]}, "obs: expected a mapping"),
        (np.zeros(3), "obs: expected a mapping"),
        (np.zeros(64, dtype=np.uint8), "obs: expected a mapping"),
        (with_(arm=(1, 2)), r"obs\['arm'\]: expected a mapping"),
        (
            with_(arm={**good["arm"], "speed": np.zeros(4)}),
            r"obs\['arm'\]\['speed'\].*\(3,\).*\(4,\)",
        ),
        (with_(camera=np.full((3, 2), 300)), r"obs\['camera'\].*out of range"),
        (with_(camera=np.full((3, 2), 0.5)), r"obs\['camera'\].*dtype"),
    ):
        assert_refused(
            buffer, lambda wrong=wrong: buffer.add(wrong, 0, 1.0, good, False, False), match
        )
        assert_refused(
            buffer, lambda wrong=wrong: buffer.add(good, 0, 1.0, wrong, False, False),
            match.replace("obs", "next_obs", 1) if match.startswith("obs") else match,
        )  # fmt: skip
    two = stacked([good, good])
    columns = [0, 0], [1.0, 1.0], two, [False] * 2, [False] * 2
    for wrong, match in (
        (good, "obs"),
        ({**two, "bits": two["bits"][:1]}, r"obs\['bits'\]: expected shape \(2, 5\)"),
        ({**two, "bits": np.int8(1)}, "obs"),
    ):
        assert_refused(buffer, lambda wrong=wrong: buffer.extend(wrong, *columns), match)
    several = buffer_for(TUPLE, Uniform())
    with pytest.raises(TypeError, match="obs: expected a tuple of 3 parts, got 2"):
        several.add((0, np.zeros(2)), 0, 1.0, (0, np.zeros(2)), False, False)


def test_what_cannot_be_a_field_of_parts():
    number = Field(np.dtype(np.float32))
    for tree in ({}, (), {"a": {}}):
        with pytest.raises(ValueError, match="at least one"):
            Parts(tree)
    for tree, match in (
        ({"a": 3}, "part 'a'"),
        ({1: number}, "named by a text"),
        ({"a": Parts((number,))}, "own parts"),
    ):
        with pytest.raises(TypeError, match=match):
            Parts(tree)
    with pytest.raises(TypeError, match=r"observation\['text'\].*Text"):
        buffer_for(spaces.Dict(text=spaces.Text(3)), Uniform())
    with pytest.raises(TypeError, match="an action must be one array"):
        ReplayBuffer.for_env(Env(DICT, spaces.Tuple((spaces.Discrete(2),))), 10, Uniform())
    assert Parts({"a": number}) == Parts({"a": Field(np.dtype(np.float32))})
    assert Parts({"a": number}) != Parts({"b": number})

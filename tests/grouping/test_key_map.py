"""Key maps: one call a batch, integers out, the action added, and one meaning wherever they go."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from sibling_replay import (
    Field,
    KeyMap,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    StateError,
)
from sibling_replay.grouping.key_map import PerRow, as_key, checked_keys

FLAG = Field(np.dtype(np.bool_))
FIELDS = {
    "obs": Field(np.dtype(np.float32), (2,)),
    "action": Field(np.dtype(np.int64)),
    "reward": Field(np.dtype(np.float32)),
    "next_obs": Field(np.dtype(np.float32), (2,)),
    "terminated": FLAG,
    "truncated": FLAG,
}


class Cells(KeyMap):
    """Squares of a plane, in one integer or in two, and a note of every call."""

    def __init__(self, width: float = 0.5, apart: bool = False) -> None:
        self.width, self.apart = width, apart
        self.calls: list[tuple[Any, Any]] = []

    def keys(self, obs: Any, action: Any) -> Any:
        self.calls.append((obs, action))
        cells = np.floor(obs / self.width).astype(np.int64)
        return cells if self.apart else 1_000 * cells[:, 0] + cells[:, 1]

    @property
    def digest(self) -> str:
        return f"cells of {self.width}"


def one_by_one(obs: Any, action: Any) -> Any:
    """The same as a function."""
    return np.floor(obs / 0.5)


def new(key: Any, strategy: Any = None, capacity: int = 40) -> ReplayBuffer:
    return ReplayBuffer(FIELDS, capacity, strategy or SiblingSample(), key=key, seed=0)


def transitions(count: int, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    obs = rng.random((count, 2)).astype(np.float32) * 1.5
    action, ends = rng.integers(2, size=count), np.zeros(count, np.bool_)
    return obs, action, action.astype(np.float32), obs, ends, ends


def partition(labels: Any) -> list[int]:
    """Equal labels numbered as they first appear."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingAverage(), SiblingModel()])
def test_siblings_have_equal_keys_and_equal_action(strategy, apart) -> None:
    buffer, values = new(Cells(apart=apart), strategy), transitions(30)
    buffer.extend(*values)
    labels = [(*np.floor(o / 0.5), a) for o, a in zip(values[0], values[1], strict=True)]
    assert partition(buffer.groups.tolist()) == partition(labels)
    assert 5 < len(set(labels)) < 25
    batch = buffer.sample(200)
    np.testing.assert_allclose(batch.average(batch.outcomes.reward), batch.action, rtol=1e-12)
    assert batch.group_key.dtype == np.int64


def test_a_batch_is_mapped_by_one_call_with_what_is_stored() -> None:
    key = Cells()
    buffer = new(key)
    assert len(key.calls) == 1  # for the form of its keys
    obs, action, *rest = transitions(7)
    obs[0, 0] = -0.0
    buffer.extend(obs.tolist(), action.tolist(), *rest)
    assert len(key.calls) == 2
    seen, done = key.calls[1]
    assert seen.dtype == np.float32 and seen.shape == (7, 2) and done.shape == (7,)
    assert np.array_equal(seen, obs) and not np.signbit(seen).any()
    buffer.add(obs[3], int(action[3]), 0.0, obs[3], False, False)
    assert len(key.calls) == 3 and key.calls[2][0].shape == (1, 2)
    assert buffer.groups[7] == buffer.groups[3]
    function = new(one_by_one)
    for empty in (buffer, function):
        empty.extend(*(column[:0] for column in (obs, action, *rest)))
    assert len(key.calls) == 3 and len(buffer) == 8 and len(function) == 0


def test_one_at_a_time_and_as_a_function_the_groups_are_the_same() -> None:
    together, apart, function = new(Cells()), new(Cells(apart=True)), new(one_by_one)
    values = transitions(60, seed=3)
    for row in zip(*values, strict=True):
        apart.add(*row)
    together.extend(*values)
    function.extend(*values)
    drawn = together.sample(64).slots
    for other in (apart, function):
        assert np.array_equal(together.groups, other.groups)
        assert np.array_equal(drawn, other.sample(64).slots)


def test_what_users_give_becomes_a_map() -> None:
    key = Cells()
    assert as_key(key, True, "x") is key
    found = as_key(one_by_one, False, "x")
    assert isinstance(found, PerRow) and found.function is one_by_one and found.digest == ""
    assert (as_key("default", True, "x"), as_key("default", False, "x")) == ("exact", None)
    assert [as_key(word, False, "x") for word in ("exact", "given", None)] == [
        "exact", "given", None,
    ]  # fmt: skip
    obs, action = transitions(4)[:2]
    assert [found(o, a).tolist() for o, a in zip(obs, action, strict=True)] == [
        row.tolist() for row in found.keys(obs, action)
    ]
    assert [key(o, a) for o, a in zip(obs, action, strict=True)] == key.keys(obs, action).tolist()
    with pytest.raises(ValueError, match="SiblingSample needs groups: give it a key"):
        new(None)
    for wrong in ("exactly", 3, {}, ["exact"]):
        with pytest.raises(
            ValueError,
            match='key must be "exact", "given", a KeyMap such as Auto\\(\\), a function',
        ):
            new(wrong)
    with pytest.raises(TypeError, match="key is the class Cells: give a map that was made of it"):
        new(Cells)


class Returns(KeyMap):
    def __init__(self, make: Any) -> None:
        self.make = make

    def keys(self, obs: Any, action: Any) -> Any:
        return self.make(len(action))

    def __repr__(self) -> str:
        return "Returns()"


@pytest.mark.parametrize(
    "make",
    [
        np.zeros,  # floats
        lambda n: np.zeros(n, np.bool_),
        lambda n: np.zeros(n, np.uint64),
        lambda n: np.zeros(n + 1, np.int64),
        lambda n: np.zeros((n, 0), np.int64),
        lambda n: np.zeros((n, 2, 2), np.int64),
        lambda n: 7,
        lambda n: None,
        lambda n: ["a"] * n,
    ],
)
def test_maps_that_return_anything_else_are_refused_by_name(make) -> None:
    with pytest.raises(TypeError, match=r"Returns\(\): keys of 1 entries must be whole numbers"):
        new(Returns(make))
    with pytest.raises(TypeError, match=r"Returns\(\): keys of 3 entries must be whole numbers"):
        checked_keys(Returns(make), *transitions(3)[:2])


def test_a_map_that_changes_its_mind_leaves_no_trace() -> None:
    key = Returns(lambda n: np.zeros(n, np.int64))
    buffer, values = new(key), transitions(3)
    buffer.extend(*values)
    for make, match in (
        (np.zeros, r"the key by Returns\(\): expected dtype int64, got float64"),
        (
            lambda n: np.zeros(n + 1, np.int64),
            r"the key by .*: expected 3 entries, as many as of obs",
        ),
        (
            lambda n: np.zeros((n, 2), np.int64),
            r"the key by .*: expected a column of entries",
        ),
    ):
        key.make = make
        with pytest.raises((TypeError, ValueError), match=match):
            buffer.extend(*values)
        assert len(buffer) == 3 and buffer.check_valid() == (True, "")
    key.make = lambda n: np.arange(n, dtype=np.int16)
    buffer.extend(*values)
    assert len(buffer) == 6


def test_files_name_the_map_and_refuse_another(tmp_path) -> None:
    buffer = new(Cells())
    buffer.extend(*transitions(30))
    header = buffer.state_dict()["header"]
    assert header["key"] == "map" and header["key_digest"] == "cells of 0.5"
    assert header["key_form"] == ["<i8", []]
    path = tmp_path / "cells.npz"
    buffer.save(path)
    again = ReplayBuffer.load(path, key=Cells())
    for twin in (again, copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        twin.extend(*transitions(20, seed=1))
        assert twin.check_valid() == (True, "")
    buffer.extend(*transitions(20, seed=1))
    assert np.array_equal(again.groups, buffer.groups)
    assert np.array_equal(again.sample(64).slots, buffer.sample(64).slots)
    with pytest.raises(StateError, match="saved with a key map: give it to `load`"):
        ReplayBuffer.load(path)
    with pytest.raises(StateError, match=r"key_digest is 'cells of 0.5' there and 'cells of 0.7'"):
        ReplayBuffer.load(path, key=Cells(0.7))
    with pytest.raises(StateError, match="key is 'map' there and 'function' here"):
        ReplayBuffer.load(path, key=one_by_one)
    with pytest.raises(StateError, match="key_form"):
        ReplayBuffer.load(path, key=Cells(apart=True))


@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingAverage(), Prioritized()])
def test_groups_given_by_number_become_those_of_a_map(strategy) -> None:
    """As states of MinAtar runs had them: nothing a draw reads changes."""
    key = Cells()

    def filled(buffer: ReplayBuffer, seeds: range, given: bool) -> ReplayBuffer:
        for seed in seeds:
            values = transitions(15, seed)
            group = 2 * key.keys(*values[:2]) + values[1]
            buffer.extend(*values, **({"group": group} if given else {}))
            batch = buffer.sample(8)
            batch.average(np.ones(len(batch.outcomes)))
            buffer.update_priorities(batch, 1.0 + np.arange(8.0))
        return buffer

    given, mapped = new("given", strategy), new(key, strategy)
    filled(given, range(5), True)
    mapped.load_state_dict(given.state_dict())
    assert mapped.check_valid() == (True, "")
    assert np.array_equal(mapped.groups, given.groups)
    stored = mapped.transitions()
    assert np.array_equal(stored["group_key"], key.keys(stored["obs"], stored["action"]))
    assert mapped.state_dict()["header"]["key"] == "map"
    filled(given, range(5, 9), True)
    filled(mapped, range(5, 9), False)
    assert np.array_equal(mapped.groups, given.groups)
    assert np.array_equal(mapped.masses, given.masses)
    assert np.array_equal(mapped.sample(64).slots, given.sample(64).slots)
    empty = new(key, strategy)
    empty.load_state_dict(new("given", strategy).state_dict())
    assert len(empty) == 0 and empty.check_valid() == (True, "")


@pytest.mark.parametrize("width", [0.25, 1.0])
def test_groups_that_a_map_does_not_make_are_refused(width) -> None:
    """Finer or coarser: neither is what was trained with."""
    given, values = new("given"), transitions(30)
    given.extend(*values, group=2 * Cells().keys(*values[:2]) + values[1])
    buffer = new(Cells(width))
    buffer.extend(*transitions(5, seed=2))
    before = buffer.groups
    with pytest.raises(StateError, match=r"the state's groups were given, and .* makes others"):
        buffer.load_state_dict(given.state_dict())
    assert np.array_equal(buffer.groups, before)
    with pytest.raises(StateError, match="key is 'given' there and 'function' here"):
        new(one_by_one).load_state_dict(given.state_dict())

"""Columns, their sums by group, scores, the tree over groups, sweeps, and how newcomers start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sibling_replay import (
    Draw,
    ExpectedTD,
    GroupPrioritized,
    Law,
    Needs,
    Prioritized,
    Refresh,
    ReplayBuffer,
    SiblingAverage,
    SiblingSample,
    SlotSampler,
    StateError,
    Strategy,
    View,
    register,
)
from support.averaging import averaged
from support.scenes import add_entries, heavy_tailed, new_buffer


@register
@dataclass(frozen=True, kw_only=True)
class Noting(Strategy):
    """Draws uniformly and notes what it is given."""

    name = "noting"
    grouped: bool = True
    kappa: float = 0.5

    @property
    def needs(self):
        columns = {"error": np.nan, "seen": 0.0, "first": np.inf}
        return Needs(groups=self.grouped, scores=self.grouped, kappa=self.kappa, columns=columns)

    def draw(self, view, size, stream, beta):
        return Draw(slots=view.slots[(stream.take(size) * view.size).astype(np.int64)])

    def refresh(self, view, draw, td_errors, signals):
        seen = view.column("seen")[draw.slots] + 1.0
        said = {"slots": draw.slots, "columns": {"error": td_errors, "seen": seen}}
        if self.grouped:
            said |= {"groups": view.groups(draw.slots), "scores": np.abs(td_errors) + 0.1}
        return Refresh(**said)

    def law(self, view, size):
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)


def check_by_recomputation(sampling) -> None:
    """Every sum and leaf from the columns and groups alone."""
    view = View(sampling._memory)
    assert sampling.check_valid() == (True, "")
    slots = view.slots
    groups = view.groups(slots)
    total = 0.0
    for group in view.group_ids:
        members = slots[groups == group]
        for name in ("error", "seen", "first"):
            values = view.column(name)[members]
            values = values[np.isfinite(values)]
            found = np.array(view.column_sums(name, np.array([group]))).ravel()
            expected = [values.size, values.sum(), (values**2).sum()]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        leaf = members.size**0.5 * view.scores(np.array([group]))[0] ** 0.6
        np.testing.assert_allclose(view.group_leaves(np.array([group])), leaf, rtol=1e-12)
        total += leaf
    np.testing.assert_allclose(view.group_total, total, rtol=1e-9)


def test_notes_follow_adds_evictions_and_refreshes() -> None:
    buffer = new_buffer(Noting(), 37, seed=2)
    rng = np.random.default_rng(2)
    for turn in range(150):
        count = int(rng.integers(1, 6))
        add_entries(buffer, turn // 20 + rng.integers(0, 7, count), rng.integers(0, 4, count))
        batch = buffer.sample(9)
        if turn % 4 == 0:  # late
            add_entries(buffer, rng.integers(0, 7, 3), rng.integers(0, 4, 3))
        buffer.update_priorities(batch, rng.normal(size=9) * 10.0 ** rng.integers(-3, 4))
        if turn % 10 == 0:
            check_by_recomputation(buffer)
    check_by_recomputation(buffer)


def test_notes_of_slots_in_any_order() -> None:
    sampler = SlotSampler(40, Noting(), seed=3)
    rng = np.random.default_rng(3)
    for turn in range(120):
        slots = rng.permutation(40)[: rng.integers(1, 6)]
        sampler.put(slots, rng.integers(0, 6, slots.size))
        if turn % 3 == 2 and len(sampler) > 5:
            sampler.remove(rng.choice(sampler.live_slots, 3, replace=False))
        batch = sampler.sample(8)
        sampler.update_priorities(batch, rng.normal(size=8))
        if turn % 10 == 0:
            check_by_recomputation(sampler)


def test_newcomers_have_the_initial_numbers_and_the_largest_score() -> None:
    buffer = new_buffer(Noting(), 20, seed=1)
    add_entries(buffer, np.zeros(10, int), np.arange(10))
    buffer.update_priorities(buffer.sample(64), np.full(64, 7.0))
    add_entries(buffer, [5], [0])
    view = View(buffer._memory)
    assert np.isnan(view.column("error")[10]) and view.column("seen")[10] == 0.0
    assert view.column("first")[10] == np.inf
    assert view.scores(view.groups(np.array([10]))) == [7.1]
    assert view.newest == 10


def test_columns_without_groups() -> None:
    buffer = new_buffer(Noting(grouped=False), 20, seed=1, key=None)
    add_entries(buffer, np.arange(33), np.arange(33))
    buffer.update_priorities(buffer.sample(32), np.arange(32.0))
    view = View(buffer._memory)
    assert np.isfinite(view.column("error")).any()
    with pytest.raises(ValueError, match="no groups are kept"):
        view.column_sums("error", np.array([0]))
    with pytest.raises(KeyError, match="no column 'nothing'"):
        view.column("nothing")


def test_scores_need_groups() -> None:
    with pytest.raises(ValueError, match="needs groups"):
        Needs(scores=True)


@pytest.mark.parametrize("initial", ["recent", "median"])
def test_state_of_notes_goes_on_bit_for_bit(tmp_path, initial) -> None:
    buffer = new_buffer(Noting(initial=initial), 37, seed=2)
    rng = np.random.default_rng(4)
    for _ in range(30):
        add_entries(buffer, rng.integers(0, 7, 3), rng.integers(0, 4, 3))
        buffer.update_priorities(buffer.sample(9), rng.normal(size=9))
    buffer.save(tmp_path / "state")
    twin = ReplayBuffer.load(tmp_path / "state")
    for _ in range(20):
        keys, outcomes, errors = rng.integers(0, 7, 3), rng.integers(0, 4, 3), rng.normal(size=9)
        for each in (buffer, twin):
            add_entries(each, keys, outcomes)
            each.update_priorities(each.sample(9), errors)
    one, other = buffer.state_dict(), twin.state_dict()
    assert one.pop("header") == other.pop("header")
    assert one.keys() == other.keys() and "notes.sums" in one
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


REFRESHES = {
    "column": (dict(columns={"other": np.ones(4)}), "columns ['other']"),
    "short column": (dict(columns={"error": np.ones(3)}), "3 column error, expected 4"),
    "nan column": (dict(columns={"error": np.full(4, np.nan)}), "column error with nan"),
    "dead group": (dict(groups=np.array([30]), scores=np.ones(1)), "group 30, which has no"),
    "outside": (dict(groups=np.array([99]), scores=np.ones(1)), "group 99, which has no"),
    "no scores": (dict(groups=np.array([0])), "scores"),
    "zero score": (dict(groups=np.array([0]), scores=np.zeros(1)), "scores with 0.0"),
}


@pytest.mark.parametrize("name", REFRESHES)
def test_notes_that_are_wrong_are_refused(name) -> None:
    said, message = REFRESHES[name]

    class Saboteur(Noting):
        def refresh(self, view, draw, td_errors, signals):
            return Refresh(slots=draw.slots, **said)

    buffer = new_buffer(Saboteur(), 37, seed=2)
    add_entries(buffer, np.zeros(10, int), np.arange(10))
    before = {name: array.tobytes() for name, array in buffer._memory.arrays().items()}
    with pytest.raises(ValueError) as raised:
        buffer.update_priorities(buffer.sample(4), np.ones(4))
    assert message in str(raised.value)
    after = {name: array.tobytes() for name, array in buffer._memory.arrays().items()}
    assert before == after


def test_a_sweep_comes_every_so_many_refreshes_and_across_a_save(tmp_path) -> None:
    swept = []

    class Sweeping(Noting):
        name = "sweeping"

        @property
        def needs(self):
            return Needs(sweep=3)

        def refresh(self, view, draw, td_errors, signals):
            return None

        def rescore(self, view, values):
            swept.append(view.size)
            return Refresh(slots=view.slots, priorities=np.arange(1.0, view.size + 1))

    buffer = new_buffer(Sweeping(alpha=1.0), 30, seed=1, key=None)
    add_entries(buffer, np.arange(5), np.arange(5))
    for _ in range(4):
        buffer.update_priorities(buffer.sample(2), np.ones(2))
    assert swept == [5]
    np.testing.assert_allclose(buffer.masses, [1, 2, 3, 4, 5])
    state = buffer.state_dict()
    other = new_buffer(Sweeping(alpha=1.0), 30, seed=9, key=None)
    other.load_state_dict(state)
    other.update_priorities(other.sample(2), np.ones(2))
    assert swept == [5]
    other.update_priorities(other.sample(2), np.ones(2))
    assert swept == [5, 5]


# --------------------------------------------------------------------------- newcomers


@pytest.mark.parametrize("kind", [Prioritized, SiblingSample, SiblingAverage])
def test_newcomers_start_as_the_option_says(kind) -> None:
    rng = np.random.default_rng(7)
    buffers = {
        initial: new_buffer(kind(alpha=0.8, initial=initial), 50, seed=1)
        for initial in ("largest", "recent", "median")
    }
    for buffer in buffers.values():
        add_entries(buffer, np.arange(40) % 9, np.arange(40))
        batch = averaged(buffer.sample(64))
        buffer.update_priorities(batch, np.full(64, 100.0))
        for _ in range(600):
            batch = averaged(buffer.sample(16))
            buffer.update_priorities(batch, heavy_tailed(rng, 16) * 1e-3)
    starts = {}
    for initial, buffer in buffers.items():
        before = np.median(buffer.masses)
        add_entries(buffer, [3], [3])
        starts[initial] = buffer.masses[40]
        if initial == "median":
            np.testing.assert_allclose(starts[initial], before, rtol=1e-12)
    np.testing.assert_allclose(starts["largest"], 100.0**0.8, rtol=1e-6)
    assert starts["median"] < starts["recent"] < 0.1 * starts["largest"]


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(ValueError, match="initial must be one of largest, recent, median"):
        Prioritized(initial="mean")
    for kind in (ExpectedTD, GroupPrioritized):  # by scores of groups: it would do nothing
        with pytest.raises(ValueError, match="a new group has the largest"):
            kind(initial="recent")


@pytest.mark.parametrize("initial", ["recent", "median"])
def test_newcomers_start_as_the_option_says_where_a_host_refreshes_slots(initial) -> None:
    sampler = SlotSampler(60, Prioritized(alpha=1.0, initial=initial), seed=1)
    sampler.put(np.arange(50))
    sampler.update_slots(np.arange(50), np.full(50, 100.0), sampler.clock)
    for _ in range(900):
        sampler.update_slots(np.arange(50), np.full(50, 0.1), sampler.clock)
    sampler.put([50])
    assert 0.1 <= sampler.masses[50] < 1.0


# --------------------------------------------------------------------------- states


TAMPERED = {
    "a clock that runs backwards": ("clock", 0, -1, "-1 refreshes"),
    "no largest score": ("peaks", 0, 0.0, "largest score is 0.0"),
    "an endless start": ("peaks", 1, np.inf, "mass of newcomers inf"),
    "a count of a group": ("sums", 0, 99.0, "sum of a column"),
    "a leaf": ("tree", 0, 5.0, "a leaf of the tree over groups"),
    "a node": ("tree", -1, 5.0, "a node of the tree over groups"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_with_wrong_notes_is_refused(name) -> None:
    array, place, value, message = TAMPERED[name]
    buffer = new_buffer(Noting(), 37, seed=2)
    add_entries(buffer, np.arange(20) % 6, np.arange(20))
    buffer.update_priorities(buffer.sample(16), np.arange(16.0))
    state = buffer.state_dict()
    wrong = {**state, f"notes.{array}": state[f"notes.{array}"].copy()}
    wrong[f"notes.{array}"].flat[place] = value
    with pytest.raises(StateError, match=message):
        new_buffer(Noting(), 37).load_state_dict(wrong)
    new_buffer(Noting(), 37).load_state_dict(state)


# --------------------------------------------------------------------------- values


class Valued(Noting):
    """Sweeps at every refresh, with priorities of the learner's values."""

    name = "valued"

    @property
    def needs(self):
        return Needs(sweep=1)

    def refresh(self, view, draw, td_errors, signals):
        return None

    def rescore(self, view, values):
        return None if values is None else Refresh(slots=view.slots, priorities=values(view.slots))


def test_sweeps_get_the_learners_values() -> None:
    buffer = new_buffer(Valued(alpha=1.0), 30, seed=1, key=None)
    add_entries(buffer, np.arange(5), np.arange(5))
    buffer.update_priorities(buffer.sample(2), np.ones(2))
    assert buffer.masses.tolist() == [1.0] * 5  # nobody said what values are
    buffer.use_values(lambda obs, action: 1.0 + 10.0 * obs + action)
    buffer.update_priorities(buffer.sample(2), np.ones(2))
    np.testing.assert_allclose(buffer.masses, [1.0, 2.0, 11.0, 12.0, 21.0], rtol=1e-12)


@pytest.mark.parametrize(
    "values, message",
    [
        (lambda obs, action: [1.0], "expected 5 values"),
        (lambda obs, action: np.full(len(obs), np.nan), "values must be finite, got nan"),
        (lambda obs, action: ["a"] * len(obs), "expected 5 values"),
    ],
)
def test_values_that_are_none_are_refused(values, message) -> None:
    buffer = new_buffer(Valued(alpha=1.0), 30, seed=1, key=None)
    add_entries(buffer, np.arange(5), np.arange(5))
    buffer.use_values(values)
    with pytest.raises(ValueError, match=message):
        buffer.update_priorities(buffer.sample(2), np.ones(2))
    assert buffer.masses.tolist() == [1.0] * 5


def test_values_nobody_asks_for_are_refused() -> None:
    with pytest.raises(TypeError, match="Prioritized asks for no values"):
        new_buffer(Prioritized(), 30).use_values(lambda obs, action: obs)

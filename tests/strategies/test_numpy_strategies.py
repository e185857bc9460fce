"""Strategies written in NumPy, outside the package: guarded, dated, saved, refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from sibling_replay import (
    Draw,
    Law,
    Needs,
    Prioritized,
    ReplayBuffer,
    SlotSampler,
    StateError,
    Strategy,
    Terms,
    find_strategy,
    register,
)
from sibling_replay.strategies import registry
from support.numpy_strategies import PlainPER
from support.scenes import add_entries, churned_buffer, heavy_tailed, new_buffer


def state_of(buffer):
    state = buffer.state_dict()
    return {name: np.array(value, dtype=object if name == "header" else None).tobytes()
            if name != "header" else str(value) for name, value in state.items()}  # fmt: skip


def filled(strategy, capacity=40, count=60, **options):
    buffer = new_buffer(strategy, capacity, seed=3, **options)
    rng = np.random.default_rng(3)
    add_entries(buffer, rng.integers(0, 5, count), rng.integers(0, 4, count))
    return buffer


@pytest.mark.parametrize("normalize", ["batch", "buffer", None])
def test_per_in_numpy_is_the_compiled_one(normalize) -> None:
    """Same slots, weights, masses and drops, also for errors that come late."""
    buffers = [filled(kind(normalize=normalize, alpha=0.7)) for kind in (PlainPER, Prioritized)]
    rng = np.random.default_rng(0)
    for turn in range(200):
        batches = [buffer.sample(16, 0.5) for buffer in buffers]
        np.testing.assert_array_equal(batches[0].slots, batches[1].slots)
        np.testing.assert_allclose(batches[0].weights, batches[1].weights, rtol=1e-6)
        np.testing.assert_array_equal(batches[0].reward, batches[1].reward)
        if turn % 3 == 0:  # some of what was drawn has gone when its errors come
            groups, outcomes = rng.integers(0, 4, (2, 9))
            for buffer in buffers:
                add_entries(buffer, groups, outcomes)
        errors = heavy_tailed(rng, 16) * rng.choice([-1.0, 1.0], 16)
        for buffer, batch in zip(buffers, batches, strict=True):
            buffer.update_priorities(batch, errors)
        np.testing.assert_allclose(buffers[0].masses, buffers[1].masses, rtol=1e-12)
        assert buffers[0].dropped_updates == buffers[1].dropped_updates
        assert buffers[0].max_priority == buffers[1].max_priority
    assert buffers[0].dropped_updates > 50
    assert buffers[0].check_valid() == (True, "")


def test_a_batch_is_dated_and_its_columns_are_the_users() -> None:
    buffer = filled(PlainPER())
    batch = buffer.sample(8)
    assert batch.added == 60
    drawn = batch.slots.copy()
    batch.slots[:] = 39  # what the user writes there decides nothing
    buffer.update_priorities(batch, np.full(8, 7.0))
    assert set(np.flatnonzero(np.isclose(buffer.masses, 7.0**0.6, rtol=1e-5))) == set(drawn)


def test_a_file_names_a_strategy_that_is_not_known(tmp_path, monkeypatch) -> None:
    buffer = filled(PlainPER())
    buffer.save(tmp_path / "state")
    known = {name: kind for name, kind in registry.registered().items() if name != "plain-per"}
    monkeypatch.setattr(registry, "_KINDS", known)
    imported = []
    monkeypatch.setattr(registry, "entry_points", lambda **_: imported.append(1) or [])
    with pytest.raises(StateError, match="'plain-per', which is not known here: import"):
        ReplayBuffer.load(tmp_path / "state")
    assert imported == []  # a file causes no import


def test_names(monkeypatch) -> None:
    assert find_strategy("SiblingSample").__name__ == "SiblingSample"
    with pytest.raises(LookupError, match="no strategy is called 'nothing': known are"):
        find_strategy("nothing")

    class Other(PlainPER):
        name = "SiblingSample"

    with pytest.raises(ValueError, match="the name 'SiblingSample' belongs to"):
        register(Other)
    with pytest.raises(TypeError, match="only a class derived from Strategy"):
        register(Prioritized())

    class Announced(PlainPER):
        name = "announced"

    class Point:
        load = staticmethod(lambda: Announced)

    monkeypatch.setattr(registry, "_KINDS", registry.registered())

    def announced(group, name):
        return [Point] if (group, name) == ("sibling_replay.strategies", "announced") else []

    monkeypatch.setattr(registry, "entry_points", announced)
    assert find_strategy("announced") is Announced


# ---------------------------------------------------------------------------- saboteurs

DRAWS = {
    "nothing": (lambda d: None, "returned None, expected a Draw"),
    "too few": (lambda d: replace(d, slots=d.slots[:-1]), "7 slots, expected 8"),
    "floats": (lambda d: replace(d, slots=d.slots * 1.0), "slots of float64"),
    "outside": (lambda d: replace(d, slots=d.slots + 1000), "which holds no entry"),
    "negative": (lambda d: replace(d, slots=d.slots * 0 - 1), "slot -1, which holds no entry"),
    "anchors": (lambda d: replace(d, anchors=d.slots + 40), "anchors with slot"),
    "shape": (lambda d: replace(d, slots=d.slots[None]), "shape (1, 8)"),
    "nan weights": (lambda d: replace(d, weights=d.weights * np.nan), "weights with nan"),
    "negative weights": (lambda d: replace(d, weights=-d.weights), "weights with -"),
    "few weights": (lambda d: replace(d, weights=d.weights[:3]), "3 weights, expected 8"),
    "terms": (
        lambda d: replace(d, terms=Terms(np.arange(9), d.slots, np.ones(8))),
        "terms, but its `needs` do not say so",
    ),
    "shift": (lambda d: replace(d, shift=np.ones(8)), "shift, but its `needs`"),
    "other outcomes": (lambda d: replace(d, outcome_slots=d.slots[::-1] * 0), "other_outcomes"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_that_is_wrong_is_refused_and_leaves_the_buffer_as_it_was(name) -> None:
    change, message = DRAWS[name]

    class Saboteur(PlainPER):
        def draw(self, view, size, stream, beta):
            return change(super().draw(view, size, stream, beta))

    buffer = filled(Saboteur())
    before = state_of(buffer)
    with pytest.raises(ValueError) as raised:
        buffer.sample(8)
    assert message in str(raised.value) and "Saboteur.draw returned" in str(raised.value)
    assert state_of(buffer) == before


TERMS = {
    "starts": lambda n: Terms(np.arange(n), np.arange(n), np.ones(n)),
    "an empty row": lambda n: Terms(np.r_[0, 0, np.arange(2, n + 1)], np.arange(n), np.ones(n)),
    "shares": lambda n: Terms(np.arange(n + 1), np.arange(n), np.full(n, 0.5)),
    "dead slots": lambda n: Terms(np.arange(n + 1), np.arange(n) + 990, np.ones(n)),
    "not terms": lambda n: (np.arange(n + 1), np.arange(n)),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_that_are_wrong_are_refused(name) -> None:
    class Saboteur(PlainPER):
        needs = Needs(averages=True)

        def draw(self, view, size, stream, beta):
            return replace(super().draw(view, size, stream, beta), terms=TERMS[name](size))

    buffer = filled(Saboteur())
    before = state_of(buffer)
    with pytest.raises(ValueError, match="Nothing was changed"):
        buffer.sample(8)
    assert state_of(buffer) == before


REFRESHES = {
    "an array": lambda r: r.priorities,
    "dead slots": lambda r: replace(r, slots=r.slots + 500),
    "too few": lambda r: replace(r, priorities=r.priorities[1:]),
    "nan": lambda r: replace(r, priorities=r.priorities * np.nan),
    "infinite": lambda r: replace(r, priorities=r.priorities + np.inf),
    "zero": lambda r: replace(r, priorities=r.priorities * 0.0),
    "negative": lambda r: replace(r, priorities=-r.priorities),
    "strings": lambda r: replace(r, priorities=np.array(["a"] * 8)),
}


@pytest.mark.parametrize("make", [filled, None], ids=["buffer", "sampler"])
@pytest.mark.parametrize("name", REFRESHES)
def test_a_refresh_that_is_wrong_is_refused_and_leaves_all_as_it_was(name, make) -> None:
    class Saboteur(PlainPER):
        def refresh(self, view, draw, td_errors, signals):
            return REFRESHES[name](super().refresh(view, draw, td_errors, signals))

    if make is None:
        buffer = SlotSampler(100, Saboteur(), seed=1)
        buffer.put(np.arange(0, 100, 2))
    else:
        buffer = filled(Saboteur())
    batch = buffer.sample(8)
    if make is not None:
        add_entries(buffer, np.arange(9), np.arange(9))  # some rows are stale: not yet counted
    before = state_of(buffer)
    with pytest.raises(ValueError, match="Nothing was changed"):
        buffer.update_priorities(batch, np.ones(8))
    assert state_of(buffer) == before


def test_a_view_cannot_be_written_and_reads_what_is() -> None:
    seen = {}

    class Nosy(PlainPER):
        def draw(self, view, size, stream, beta):
            seen.update(view=view)
            return super().draw(view, size, stream, beta)

    buffer = churned_buffer(Nosy(), adds=137)
    buffer.sample(4)
    view = seen["view"]
    with pytest.raises(ValueError, match="read-only"):
        view.masses[0] = 1.0
    slots = view.slots
    np.testing.assert_array_equal(view.masses[slots], buffer.masses)
    assert view.age(np.array([view.newest])) == [0]
    newest_first = slots[np.argsort(view.age(slots))]
    assert newest_first[0] == view.newest and len(set(view.age(slots))) == view.size
    with pytest.raises(ValueError, match="must be from 0"):
        view.find(np.array([-0.1]))


def test_siblings_in_a_view() -> None:
    seen = {}

    class Nosy(PlainPER):
        needs = Needs(groups=True)

        def draw(self, view, size, stream, beta):
            seen.update(view=view)
            return super().draw(view, size, stream, beta)

    buffer = churned_buffer(Nosy(), adds=137)
    buffer.sample(4)
    view, groups = seen["view"], buffer.groups
    assert set(view.group_ids) == set(groups)
    for group in view.group_ids:
        members = np.flatnonzero(groups == group)
        assert sorted(view.members(group)) == members.tolist()
        assert view.group_sizes([group]) == [members.size]
        np.testing.assert_allclose(view.group_masses([group]), buffer.masses[members].sum())
        everyone = np.full(members.size, group)
        picked = view.pick(everyone, (np.arange(members.size) + 0.5) / members.size)
        assert sorted(picked) == members.tolist()


def test_what_is_stale_is_taken_out_of_what_a_refresh_sees() -> None:
    seen = []

    class Averaging(PlainPER):
        needs = Needs(averages=True, other_outcomes=True, groups=True, signals=("target",))

        def draw(self, view, size, stream, beta):
            return Draw(
                slots=np.array([10, 0, 11, 1]),
                anchors=np.array([0, 10, 12, 13]),
                outcome_slots=np.array([10, 11, 2, 13]),
                terms=Terms(np.array([0, 2, 3, 6, 7]), np.array([10, 0, 11, 1, 12, 13, 2]),
                            np.array([0.5, 0.5, 1.0, 0.2, 0.3, 0.5, 1.0])),
                shift=None,
            )  # fmt: skip

        def refresh(self, view, draw, td_errors, signals):
            seen.append((draw, td_errors, signals))
            return super().refresh(view, draw, td_errors, signals)

    buffer = new_buffer(Averaging(), 20, seed=1)
    add_entries(buffer, np.arange(20) % 4, np.arange(20))
    batch = buffer.sample(4)
    batch.average(np.zeros(7))
    add_entries(buffer, [0, 0, 0], [1, 2, 3])  # slots 0, 1 and 2 hold others now
    errors = np.array([1.0, -2.0, 3.0, -4.0])
    with pytest.raises(TypeError, match=r"missing \['target'\], unknown \[\]"):
        buffer.update_priorities(batch, errors)
    with pytest.raises(TypeError, match=r"unknown \['value'\]"):
        buffer.update_priorities(batch, errors, target=errors, value=errors)
    with pytest.raises(ValueError, match="signal target has nan"):
        buffer.update_priorities(batch, errors, target=errors * np.nan)
    buffer.update_priorities(batch, errors, target=errors * 10)
    draw, given, signals = seen[0]
    assert draw.slots.tolist() == [10, 11] and given.tolist() == [1.0, 3.0]
    assert draw.anchors.tolist() == [-1, 12] and draw.outcome_slots.tolist() == [10, -1]
    assert draw.terms.starts.tolist() == [0, 1, 3] and draw.terms.slots.tolist() == [10, 12, 13]
    assert draw.terms.shares.tolist() == [0.5, 0.3, 0.5]
    assert signals["target"].tolist() == [10.0, 30.0]
    assert buffer.dropped_updates == 2


def test_a_strategy_that_needs_signs_says_when_it_sees_none() -> None:
    class Signed(PlainPER):
        needs = Needs(signed=True)

    for sign in (1.0, -1.0):
        buffer = filled(Signed())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(200):
                batch = buffer.sample(8)
                buffer.update_priorities(batch, sign * np.arange(8.0))
        assert len(caught) == (sign > 0)
        if caught:
            assert "none of the first 1,000 was negative" in str(caught[0].message)


def test_a_shift_is_for_the_loss_alone() -> None:
    class Shifted(PlainPER):
        needs = Needs(shifts=True)

        def draw(self, view, size, stream, beta):
            return replace(super().draw(view, size, stream, beta), shift=np.arange(size) * 1.0)

    batch = filled(Shifted()).sample(4)
    assert batch.shift.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert batch.average(np.ones(4)).tolist() == [1.0] * 4
    assert filled(PlainPER()).sample(4).shift is None


@pytest.mark.parametrize("wrong", ["shape", "sum", "kind"])
def test_a_law_that_is_none_is_refused(wrong) -> None:
    class Lawless(PlainPER):
        def law(self, view, size):
            each = {"shape": np.ones(3) / 3, "sum": np.ones(view.size), "kind": 0}[wrong]
            return each if wrong == "kind" else Law(each, each, each)

    with pytest.raises((ValueError, TypeError), match=r"Lawless\.law"):
        filled(Lawless()).probabilities()


def test_methods_that_a_compiled_strategy_would_never_call_are_refused() -> None:
    with pytest.raises(TypeError, match="Mine defines draw, and what it derives from is compiled"):

        class Mine(Prioritized):
            def draw(self, view, size, stream, beta):
                return Draw(slots=view.slots[:size])

    class Known(Prioritized):  # says that it is in NumPy
        recipe = None

        def draw(self, view, size, stream, beta):
            return Draw(slots=np.full(size, view.slots[-1]))

    sampler = SlotSampler(4, Known(), seed=0)
    sampler.put([0, 1, 2])
    assert sampler.sample(5).slots.tolist() == [2] * 5


def test_a_strategy_without_a_draw_is_refused_at_once() -> None:
    class Half(Strategy):
        def law(self, view, size):
            raise NotImplementedError

    with pytest.raises(TypeError, match="Half defines no draw"):
        filled(Half())


def test_batches_of_ones_own_choice_refresh_their_slots() -> None:
    buffer = filled(PlainPER())
    buffer.sample(3)
    buffer.update_priorities(buffer.batch_of([3, 4, 5]), np.array([2.0, -3.0, 4.0]))
    np.testing.assert_allclose(buffer.masses[3:6], np.array([2.0, 3.0, 4.0]) ** 0.6, rtol=1e-5)


def test_slots_in_parts() -> None:
    sampler = SlotSampler(50, PlainPER(), seed=1)
    sampler.put(np.arange(5, 25))
    batch = sampler.sample(6)
    date = sampler.clock
    with pytest.raises(ValueError, match="slot 40 holds no entry"):
        sampler.update_slots([40], [1.0], date)
    sampler.remove(batch.slots[:1])
    others = np.setdiff1d(batch.slots, batch.slots[:1])
    sampler.update_slots(batch.slots, np.full(6, -9.0), date)
    np.testing.assert_allclose(sampler.masses[others], 9.0**0.6, rtol=1e-5)
    assert sampler.dropped_updates == np.count_nonzero(batch.slots == batch.slots[0])

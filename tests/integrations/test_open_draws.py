"""Which draw given TD errors belong to, without any host."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingModel, SiblingSample
from sibling_replay.checkpoint import StateError
from sibling_replay.integrations import open_draws
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.integrations.open_draws import Drawn, OpenDraws
from support.host_draws import refreshed

CAPACITY = 20


def new_replay(strategy=None, capacity: int = CAPACITY) -> HostReplay:
    replay = HostReplay("a host", capacity, strategy or Prioritized(alpha=0.8), seed=0)
    put(replay, range(capacity))
    return replay


def put(replay, slots) -> None:
    slots = np.array(slots)
    replay.put(slots, (slots % 4).astype(np.float32)[:, None], np.zeros(slots.size, np.int64))


def draw(replay, size: int = 8) -> np.ndarray:
    return replay.draw(size, 0.4)[0].copy()


def rows_of(slots) -> Drawn:
    return Drawn(slots, slots, slots, np.ones(slots.size))


def test_parts_of_a_draw_refresh_what_the_whole_would():
    """In order, out of order, with duplicates; SiblingModel's errors reach the anchors."""
    for strategy in (Prioritized(alpha=0.8), SiblingSample(alpha=0.8), SiblingModel(alpha=0.8)):
        whole, parts, shuffled = (new_replay(strategy) for _ in range(3))
        rng = np.random.default_rng(1)
        for _ in range(5):
            slots = draw(whole, 64)
            assert np.array_equal(slots, draw(parts, 64))
            assert np.array_equal(slots, draw(shuffled, 64))
            errors = rng.exponential(size=64)
            whole.refresh(slots, errors)
            for start in range(0, 64, 16):
                parts.refresh(slots[start : start + 16], errors[start : start + 16])
            order = np.argsort(rng.permutation(64) // 16, kind="stable")  # which part, in order
            for some in np.split(order, 4):
                shuffled.refresh(slots[some], errors[some])
            assert np.array_equal(whole.sampler.masses, parts.sampler.masses)
            # other duplicates come last now, but the same slots are refreshed
            assert np.array_equal(whole.sampler.masses == 1.0, shuffled.sampler.masses == 1.0)
            shuffled.sampler.load_state_dict(whole.sampler.state_dict())
        assert len(set(slots.tolist())) < 64
        for replay in (whole, parts, shuffled):
            assert replay.unmatched_updates == 0


def test_several_draws_at_once():
    replay, twin = new_replay(SiblingModel(alpha=0.8)), new_replay(SiblingModel(alpha=0.8))
    slots = [draw(replay) for _ in range(3)]
    errors = np.random.default_rng(0).exponential(size=(3, 8))
    for each in range(3):
        assert np.array_equal(draw(twin), slots[each])
    replay.refresh(np.concatenate(slots), errors.ravel())
    for each in range(3):
        twin.refresh(slots[each], errors[each])
    # where draws share a slot its errors may come in another order
    changed = replay.sampler.masses != 1.0
    assert np.array_equal(changed, twin.sampler.masses != 1.0) and changed.sum() > 8
    assert replay.unmatched_updates == 0


@pytest.mark.parametrize("count", [33, 1_000])
def test_many_draws_before_the_first_errors(count):
    replay = new_replay(capacity=5_000)
    drawn = [draw(replay) for _ in range(count)]
    for number, slots in enumerate(drawn):
        replay.refresh(slots, np.full(8, 2.0 + number))
        np.testing.assert_allclose(
            replay.sampler.masses[slots], (2.0 + number + 1e-6) ** 0.8, rtol=1e-12
        )
    assert replay.unmatched_updates == 0


def test_what_is_of_no_draw_is_dropped_counted_and_said_once():
    replay = new_replay()
    masses = replay.sampler.masses
    with pytest.warns(UserWarning, match="3 TD errors were dropped.*a host sampled"):
        replay.refresh(np.array([1, 2, 3]), np.ones(3))
    with warnings.catch_warnings(action="error"):
        replay.refresh(np.array([1, 2]), np.ones(2))
        replay.refresh(np.array([], dtype=np.int64), np.ones(0))
    assert replay.unmatched_updates == 5
    assert np.array_equal(replay.sampler.masses, masses)
    slots = draw(replay)
    replay.refresh(slots, np.full(8, 2.0))
    np.testing.assert_allclose(
        replay.sampler.masses, refreshed(masses, slots, np.full(8, 2.0), 0.8), rtol=1e-12
    )
    replay.refresh(slots, np.full(8, 9.0))  # a second time
    assert replay.unmatched_updates == 13 and replay.sampler.masses.max() < 9.0**0.8


def test_of_an_unknown_slot_among_known_ones_only_its_error_is_dropped():
    replay = new_replay(capacity=100)
    slots = draw(replay, 4)
    stranger = next(slot for slot in range(100) if slot not in slots)
    masses = replay.sampler.masses
    given = np.r_[slots[:2], stranger, slots[2:]]
    with pytest.warns(UserWarning, match="1 TD errors"):
        replay.refresh(given, np.array([1.5, 2.0, 50.0, 2.5, 3.0]))
    expected = refreshed(masses, slots, [1.5, 2.0, 2.5, 3.0], 0.8)
    np.testing.assert_allclose(replay.sampler.masses, expected, rtol=1e-12)


def test_errors_of_overwritten_entries_are_dropped_in_parts_too():
    replay = new_replay()
    slots = draw(replay)
    put(replay, range(10))
    for part in (slots[:4], slots[4:]):
        replay.refresh(part, np.full(4, 5.0))
    assert replay.sampler.dropped_updates == (slots < 10).sum() > 0
    assert (replay.sampler.masses[:10] == 1.0).all()


def test_of_equal_draws_the_oldest_gets_the_errors():
    """Else an error of an overwritten entry would reach the one that took its place."""
    replay = new_replay(capacity=1)
    assert np.array_equal(draw(replay, 2), [0, 0])
    put(replay, [0])
    assert np.array_equal(draw(replay, 2), [0, 0])
    replay.refresh(np.array([0, 0]), np.full(2, 7.0))
    assert replay.sampler.dropped_updates == 2 and replay.sampler.masses[0] == 1.0
    replay.refresh(np.array([0, 0]), np.full(2, 2.0))
    assert replay.sampler.masses[0] == pytest.approx(2.0**0.8)


@pytest.mark.parametrize("how", ["clear", "load"])
def test_errors_from_before_the_buffer_was_emptied_or_restored_refresh_nothing(how):
    replay = new_replay(capacity=200)
    draw(replay)
    state = replay.state_dict()
    draw(replay)
    old = draw(replay)
    if how == "clear":
        replay.clear()
        put(replay, range(200))
    else:
        replay.load_state_dict(state)
    new = draw(replay)
    with warnings.catch_warnings(action="error"):
        replay.refresh(old, np.full(8, 5.0))
        assert (replay.sampler.masses == 1.0).all() and replay.unmatched_updates == 8
        replay.refresh(new, np.full(8, 2.0))
    np.testing.assert_allclose(replay.sampler.masses[new], (2.0 + 1e-6) ** 0.8)


def test_a_restored_stream_that_repeats_a_draw_gets_the_errors():
    replay = new_replay()
    state = replay.state_dict()
    old = draw(replay)
    replay.load_state_dict(state)
    assert np.array_equal(draw(replay), old)
    replay.refresh(old[:3], np.full(3, 2.0))
    replay.refresh(old[3:], np.full(5, 2.0))
    np.testing.assert_allclose(replay.sampler.masses[old], (2.0 + 1e-6) ** 0.8)
    assert replay.unmatched_updates == 0


@pytest.mark.parametrize("through", ["state", "pickle"])
def test_open_draws_are_part_of_the_state(through):
    """A host that samples ahead saves what it has sampled."""
    replay = new_replay(SiblingModel(alpha=0.8))
    slots = [draw(replay) for _ in range(3)]
    if through == "state":
        twin = HostReplay("a host", CAPACITY, SiblingModel(alpha=0.8), seed=5)
        twin.load_state_dict(replay.state_dict())
    else:
        twin = pickle.loads(pickle.dumps(replay))
    for each in (replay, twin):
        for drawn in slots:
            each.refresh(drawn[:5], np.linspace(1.0, 2.0, 5))
            each.refresh(drawn[5:], np.linspace(1.0, 2.0, 3))
    assert np.array_equal(replay.sampler.masses, twin.sampler.masses)
    assert twin.unmatched_updates == 0 and len(set(twin.sampler.masses)) > 3


def test_a_state_from_before_open_draws_were_saved_loads():
    replay = new_replay()
    state = replay.state_dict()
    del state["open_draws"]
    replay.load_state_dict(state)
    for wrong in (np.zeros((2, 3), np.int64), np.full((1, 4), CAPACITY), np.zeros((1, 4))):
        with pytest.raises(StateError, match="draws that await"):
            replay.load_state_dict({**state, "open_draws": wrong})


def test_bad_errors_change_nothing_and_the_draw_still_awaits_its_own():
    replay = new_replay()
    slots = draw(replay)
    masses = replay.sampler.masses
    for part in (slots, slots[:4]):
        with pytest.raises(ValueError, match=r"TD error 1 of the batch \(slot \d+\) is nan"):
            replay.refresh(part, np.r_[1.0, np.nan, np.ones(part.size - 2)])
        with pytest.raises(ValueError, match=f"expected {part.size} TD errors"):
            replay.refresh(part, np.ones(part.size + 1))
    assert np.array_equal(masses, replay.sampler.masses)
    replay.refresh(slots, np.full(8, 2.0))
    assert (replay.sampler.masses[slots] > 1.5).all() and replay.unmatched_updates == 0


def test_draws_that_nobody_answers_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(open_draws, "_MOST_DRAWS", 10)
    monkeypatch.setattr(open_draws, "_MOST_ENTRIES", 30)
    draws = OpenDraws()
    for number in range(100):
        draws.add(rows_of(np.full(1, number)), 0)
    assert sorted(set(draws.rows()[:, 2])) == list(range(90, 100))
    draws.add(rows_of(np.arange(28)), 0)
    assert len(draws.rows()) == 30
    draws.add(rows_of(np.arange(50)), 0)
    assert len(draws.rows()) == 50
    assert [claim.places.size for claim in draws.claim(np.arange(50))] == [50]
    draws.add(rows_of(np.arange(25)), 0)
    draws.add(rows_of(np.arange(5)), 0)
    assert len(draws.rows()) == 30

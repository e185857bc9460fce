"""The slot sampler's edges: keys, bad input, emptying, stale draws, state."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from sibling_replay import (
    InvalidTDErrors,
    Prioritized,
    SiblingAverage,
    SiblingSample,
    SlotSampler,
    StateError,
    Uniform,
)
from support.averaging import averaged
from support.scenes import STRATEGIES, heavy_tailed


def filled(strategy=None, seed: int = 0) -> SlotSampler:
    sampler = SlotSampler(20, strategy or SiblingSample(), seed=seed)
    rng = np.random.default_rng(seed)
    sampler.put(rng.permutation(20)[:15], rng.integers(0, 4, 15))
    for _ in range(5):
        sampler.update_priorities(averaged(sampler.sample(8)), heavy_tailed(rng, 8))
    return sampler


def same(a: SlotSampler, b: SlotSampler) -> bool:
    mine, theirs = a.state_dict(), b.state_dict()
    return mine.pop("header") == theirs.pop("header") and all(
        np.array_equal(mine[name], theirs[name]) for name in mine
    )


def groups_of(sampler: SlotSampler) -> list[int]:
    """Groups numbered as they first appear."""
    ids: dict[int, int] = {}
    return [ids.setdefault(group, len(ids)) for group in sampler.groups.tolist()]


def test_integer_keys_of_any_width_are_one_kind():
    sampler = SlotSampler(4, SiblingSample())
    sampler.put(0, 7)
    sampler.put([1], np.array([7], dtype=np.uint8))
    sampler.put((2, 3), np.array([-1, 7], dtype=np.int32))
    assert groups_of(sampler) == [0, 0, 1, 0]
    sampler.put((2, 3), (-1, 7))
    assert groups_of(sampler) == [0, 0, 1, 0]


def test_rows_of_bytes_are_compared_whole():
    """They differ in the last of 40 bytes only."""
    rows = np.zeros((4, 40), dtype=np.uint8)
    rows[1, -1] = rows[3, -1] = 1
    sampler = SlotSampler(4, SiblingAverage())
    sampler.put([3, 2, 1, 0], rows)
    assert groups_of(sampler) == [0, 1, 0, 1]
    batch = sampler.sample(16)
    assert set(batch.outcomes.slots.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("width", [70, 400])
def test_long_keys_leave_the_batch_alone(width):
    sampler = SlotSampler(8, SiblingSample(), seed=0)
    sampler.put(np.arange(8), np.full((8, width), 255, dtype=np.uint8))
    batch = sampler.sample(8)
    assert (batch.weights == 1.0).all() and (batch.group_sizes == 8).all()


def test_equal_values_are_equal_keys():
    """In an array or in several, whatever the byte order, the sign of zero or the kind of true."""
    obs = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]], dtype=np.float32)
    act = np.array([1, 1, 1])
    sampler = SlotSampler(16, SiblingSample())
    sampler.put([0, 1, 2], (obs, act))
    sampler.put([3, 4, 5], (obs.astype(">f4"), act))
    sampler.put([6, 7], (obs[::2], act[::2]))
    sampler.put([8], (obs[:1], [2]))
    assert groups_of(sampler)[:9] == [0, 0, 1, 0, 0, 1, 0, 1, 2]
    assert sampler.state_dict()["header"]["key_bytes"] == 16
    truths = np.array([1, 2, 0], dtype=np.uint8).view(np.bool_)
    sampler = SlotSampler(3, SiblingSample())
    sampler.put([0, 1, 2], truths)
    assert groups_of(sampler) == [0, 0, 1]
    assert sampler.state_dict()["header"]["key_bytes"] == 1


def test_the_first_entries_decide_what_keys_are():
    sampler = SlotSampler(4, SiblingSample(), seed=0)
    sampler.put(np.arange(0), np.zeros((0, 3)))  # nothing was put: nothing is decided
    assert sampler.changed([1], [[1.0, 2.0]]).tolist() == [True]
    sampler.put([0], np.zeros((1, 3), np.float32))
    before = sampler.state_dict()
    for keys, got in (([7], 8), (np.zeros((1, 3)), 24), (([7], [8]), 16)):
        with pytest.raises(ValueError, match=f"keys: expected 12 bytes an entry, got {got};"):
            sampler.put([1], keys)
        with pytest.raises(ValueError, match="keys: expected 12 bytes"):
            sampler.changed([1], keys)
    after = sampler.state_dict()
    assert before.pop("header") == after.pop("header")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    sampler.remove([0])
    with pytest.raises(ValueError, match="expected 12 bytes"):  # draws from before may be open
        sampler.put([0], [7])
    sampler.clear()
    sampler.put([0, 1], [7, 7])
    assert groups_of(sampler)[:2] == [0, 0]


def test_a_prioritized_sampler_keeps_the_groups_it_is_given():
    """Or none: the first entries decide that, too."""
    plain, grouped = SlotSampler(4, Prioritized(), seed=1), SlotSampler(4, Prioritized(), seed=1)
    plain.put([0, 1, 2])
    grouped.put([0, 1, 2], [5, 6, 5])
    assert plain.groups.tolist() == [-1] * 4 and grouped.groups.tolist() == [0, 1, 0, -1]
    assert np.array_equal(plain.sample(64).slots, grouped.sample(64).slots)
    with pytest.raises(ValueError, match="keys: expected 0 bytes an entry, got 8"):
        plain.put([3], [5])
    with pytest.raises(ValueError, match="keys: expected 8 bytes an entry, got 0"):
        grouped.put([3])


def test_outcomes_are_given_from_the_first_on_or_never():
    own, counted = SlotSampler(4, SiblingAverage()), SlotSampler(4, SiblingAverage())
    own.put([0, 1, 2], [7, 7, 7])
    counted.put([0, 1, 2], [7, 7, 7], ([1, 1, 2], [0.5, 0.5, 0.5]))
    assert len(own.sample(1).outcomes) == 3 and len(counted.sample(1).outcomes) == 2
    assert counted.state_dict()["header"]["outcome_bytes"] == 16
    with pytest.raises(ValueError, match="outcomes: expected 16 bytes an entry, got 0"):
        counted.put([3], [7])
    with pytest.raises(ValueError, match="outcomes: expected 0 bytes an entry, got 8"):
        own.put([3], [7], [1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.put([0, 20], [1, 1]), ValueError, "slot 20 is not one of 20"),
        (lambda s: s.put([-1], [1]), ValueError, "slot -1"),
        (lambda s: s.put([0.0], [1]), TypeError, "slots must be"),
        (lambda s: s.put([[0]], [1]), TypeError, "slots must be"),
        (lambda s: s.put([0]), TypeError, "keys are needed: SiblingSample"),
        (lambda s: s.put([0], [1], [2]), TypeError, "outcomes were given"),
        (lambda s: s.put([0, 1], [1]), ValueError, "one for each of 2 slots, got 1"),
        (lambda s: s.put([0], ["a"]), TypeError, "keys must be numbers"),
        (lambda s: s.put([0], np.zeros((1, 3))), ValueError, "expected 8 bytes an entry, got 24"),
        (lambda s: s.put([0], np.array([2**63], np.uint64)), ValueError, "out of range"),
        (lambda s: s.put([0, 1], (7, 7, 7)), ValueError, "one for each of 2 slots, got 3"),
        (lambda s: s.put([0, 1], ([7, 7], [1])), ValueError, "one for each of 2 slots, got 1"),
        (lambda s: s.put([0], ()), TypeError, "keys are made of at least one number"),
        (lambda s: s.put([0], np.zeros((1, 0))), TypeError, "keys are made of at least one number"),
        (lambda s: s.remove([0, 25]), ValueError, "slot 25"),
        (lambda s: s.remove(np.setdiff1d(np.arange(20), s.live_slots)), ValueError, "holds no"),
        (lambda s: s.sample(0), ValueError, "batch_size"),
        (lambda s: s.sample(8, beta=1.5), ValueError, "beta"),
        (lambda s: s.update_priorities(s.sample(4), [1.0]), ValueError, "expected 4 TD errors"),
        (lambda s: s.update_priorities(filled().sample(1), [1.0]), ValueError, "not drawn from"),
    ],
)
def test_bad_input_changes_nothing(call, error, message):
    sampler = filled()
    before = copy.deepcopy(sampler)
    with pytest.raises(error, match=message):
        call(sampler)
    before._uniforms = sampler._uniforms  # a refused update follows a draw
    assert same(sampler, before)
    ok, why = sampler.check_valid()
    assert ok, why


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_invalid_errors_are_refused(bad):
    sampler = filled()
    batch = sampler.sample(4)
    masses = sampler.masses
    with pytest.raises(InvalidTDErrors, match=f"slot {batch.slots[2]}"):
        sampler.update_priorities(averaged(batch), [1.0, 1.0, bad, 1.0])
    assert np.array_equal(masses, sampler.masses)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((0, Uniform()), {}, ValueError),
        ((4, "PER"), {}, TypeError),
        ((4.5, SiblingSample()), {}, TypeError),
        ((4, SiblingSample()), {"seed": "x"}, TypeError),
    ],
)
def test_bad_arguments(arguments, options, error):
    with pytest.raises(error):
        SlotSampler(*arguments, **options)


def test_an_empty_sampler_draws_nothing():
    sampler = SlotSampler(3, Prioritized())
    with pytest.raises(ValueError, match="empty"):
        sampler.sample(1)
    sampler.put([2])
    assert sampler.sample(5).slots.tolist() == [2] * 5
    sampler.remove([2])
    assert len(sampler) == 0
    with pytest.raises(ValueError, match="empty"):
        sampler.sample(1)
    with pytest.raises(ValueError, match="no probabilities"):
        sampler.probabilities()


def test_updates_of_rewritten_and_removed_entries_are_dropped():
    sampler = SlotSampler(3, Prioritized(alpha=1.0, epsilon=1e-9))
    sampler.put([0, 1, 2])
    batch = sampler.sample(3)
    assert batch.slots.tolist() == [0, 1, 2]
    sampler.put([1])
    sampler.remove([2])
    sampler.update_priorities(averaged(batch), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(sampler.masses, [0.5, 1.0, 0.0], rtol=1e-8)
    assert sampler.dropped_updates == 2
    sampler.put([2])  # the slot is live again, the draw is not
    sampler.update_priorities(averaged(batch), [0.25, 0.25, 0.25])
    np.testing.assert_allclose(sampler.masses, [0.25, 1.0, 1.0], rtol=1e-8)
    assert sampler.dropped_updates == 4


def test_new_entries_get_the_largest_priority():
    sampler = SlotSampler(9, Prioritized(alpha=0.5))
    sampler.put([4])
    sampler.update_priorities(averaged(sampler.sample(1)), [8.0])
    sampler.update_priorities(averaged(sampler.sample(1)), [0.25])
    sampler.put([7])
    assert sampler.max_priority == 8.0 + 1e-6
    np.testing.assert_allclose(sampler.masses[7], (8.0 + 1e-6) ** 0.5, rtol=1e-12)


def test_errors_from_before_a_clear_are_out_of_date():
    sampler = filled(seed=3)
    date = sampler.clock
    sampler.clear()
    assert sampler.written == 0
    sampler.put([0, 1], keys=[[1, 2, 3], [4, 5, 6]])  # of another width than before
    sampler.update_slots([0], [100.0], date)
    assert sampler.dropped_updates == 1 and sampler.masses[0] == 1.0
    with pytest.raises(ValueError, match="is to come"):
        sampler.update_slots([0], [1.0], sampler.clock + 1)
    sampler.update_slots([0], [100.0], sampler.clock)
    assert sampler.dropped_updates == 1 and sampler.masses[0] > 1.0
    assert sampler.check_valid() == (True, "")


def test_of_a_slot_named_twice_the_last_entry_stays():
    for only_changed in (False, True):
        sampler = SlotSampler(4, SiblingSample(), seed=0)
        sampler.put([0, 1], keys=[5, 7])
        sampler.put([0, 0], keys=[7, 5], only_changed=only_changed)
        assert sampler.groups[0] != sampler.groups[1]


def test_clear_forgets_all_but_the_random_stream():
    sampler = filled(seed=3)
    batch, taken = sampler.sample(4), sampler.state_dict()["header"]["uniforms"]
    sampler.clear()
    assert len(sampler) == 0 and sampler.max_priority == 1.0
    assert sampler.state_dict()["header"]["uniforms"] == taken
    with pytest.raises(ValueError, match="not drawn from this"):
        sampler.update_priorities(averaged(batch), np.ones(4))


@pytest.mark.parametrize("name", STRATEGIES)
def test_states_continue_bit_for_bit(name):
    strategy = STRATEGIES[name](alpha=0.6, normalize="buffer")
    original = filled(strategy, seed=5)
    restored = SlotSampler(20, strategy)
    restored.load_state_dict(original.state_dict())
    copies = [restored, pickle.loads(pickle.dumps(original)), copy.deepcopy(original)]
    for twin in copies:
        reference = copy.deepcopy(original)
        for step in range(20):
            for sampler in (reference, twin):
                sampler.put([step % 7], [step % 3])
                sampler.update_priorities(averaged(sampler.sample(4)), np.full(4, float(step)))
            assert same(reference, twin)


def test_states_of_others_are_refused():
    sampler = filled()
    before = copy.deepcopy(sampler)
    state = filled().state_dict()
    damaged = {**state, "stamps": np.zeros_like(state["stamps"])}
    with pytest.raises(StateError, match="contradicts itself"):
        sampler.load_state_dict(damaged)
    with pytest.raises(StateError, match="strategy"):
        SlotSampler(20, Prioritized()).load_state_dict(state)
    with pytest.raises(StateError, match="missing"):
        sampler.load_state_dict({k: v for k, v in state.items() if k != "stamps"})
    assert same(sampler, before)


def test_a_state_brings_the_width_of_its_keys():
    """Of whatever keys: what was put before is gone."""
    wide = SlotSampler(20, SiblingSample(), seed=4)
    wide.put([0, 1, 2], (np.array([[0.5, 1.0], [0.5, 1.0], [2.0, 1.0]]), [1, 1, 1]))
    for twin in (SlotSampler(20, SiblingSample()), filled(), pickle.loads(pickle.dumps(wide))):
        twin.load_state_dict(wide.state_dict())
        assert same(wide, twin)
        twin.put([3], ([[2.0, 1.0]], [1]))
        assert groups_of(twin)[:4] == [0, 0, 1, 1]
        assert twin.check_valid() == (True, "")
    narrow = filled()
    before = copy.deepcopy(narrow)
    for key_bytes in (23, 8, 0, -24, 24.0, True, None, 2**40):
        state = wide.state_dict()
        state["header"]["key_bytes"] = key_bytes
        with pytest.raises(StateError):
            narrow.load_state_dict(state)
        assert same(narrow, before)
    narrow.put([0], [1])


def test_uniform_masses_of_a_damaged_state_are_noticed():
    sampler = SlotSampler(4, Uniform())
    sampler.put([0, 2])
    index = sampler._memory.index
    index.tree[0] = index.tree[-1] = 2.0
    assert not sampler.check_valid()[0]


def test_numbers_whose_bytes_are_not_all_theirs_are_no_keys():
    """Ten of the sixteen bytes of a longdouble are the number: equal ones could differ."""
    wide = np.ones(2, dtype=np.longdouble)
    if wide.dtype.itemsize == 8:
        pytest.skip("longdouble is double here")
    sampler = SlotSampler(4, SiblingSample())
    for keys in (wide, (wide,), ([1, 1], wide)):
        with pytest.raises(TypeError, match=r"at most 64 bits .* cast them"):
            sampler.put([0, 1], keys)
    assert len(sampler) == 0
    sampler.put([0, 1], wide.astype(np.float64))
    assert groups_of(sampler)[:2] == [0, 0]


def test_masked_keys_are_refused():
    masked = np.ma.array([1, 2], mask=[False, True])
    for call in (
        lambda: SlotSampler(4, SiblingSample()).put([0, 1], ([1, 1], masked)),
        lambda: SlotSampler(4, SiblingSample()).put([0, 1], masked),
        lambda: SlotSampler(4, SiblingSample()).put(masked, [1, 2]),
    ):
        with pytest.raises(ValueError, match="some values are masked"):
            call()

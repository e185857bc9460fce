"""What a strategy reads: compiled code follows what it is given, so a view checks it first."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import GroupPrioritized, Needs, SiblingSample, SlotSampler, Stream, View
from sibling_replay.rng import Uniforms
from support.scenes import add_entries, new_buffer


@pytest.fixture
def view() -> View:
    buffer = new_buffer(SiblingSample(), 20, seed=1)
    add_entries(buffer, [0, 0, 1, 2, 2, 2], np.arange(6))
    return View(buffer._memory)


@pytest.mark.parametrize("group", [-1, 3, 19, 20, 10**9])
def test_groups_without_members_are_refused(view, group) -> None:
    with pytest.raises(ValueError, match=f"group {group} has no members"):
        view.members(group)
    with pytest.raises(ValueError, match=f"group {group} has no members"):
        view.group_masses(np.array([0, group]))
    with pytest.raises(ValueError, match=f"group {group} has no members"):
        view.pick(np.array([0, group]), np.zeros(2))


@pytest.mark.parametrize("numbers", [[1.0], [-0.1], [np.nan], [0.1, 0.2], []])
def test_numbers_that_pick_nobody_are_refused(view, numbers) -> None:
    with pytest.raises(ValueError, match=r"expected 1 numbers in \[0, 1\)"):
        view.pick(np.array([0]), np.array(numbers))


def test_members_masses_and_picks(view) -> None:
    by_group = {int(g): view.members(g).tolist() for g in view.group_ids}
    assert sorted(map(sorted, by_group.values())) == [[0, 1], [2], [3, 4, 5]]
    assert view.group_masses(view.group_ids).tolist() == [len(m) for m in by_group.values()]
    picked = view.pick(np.full(3, view.groups(np.array([3]))[0]), np.array([0.0, 0.5, 0.99]))
    assert sorted(picked.tolist()) == [3, 4, 5]


def test_slots_by_age() -> None:
    buffer = new_buffer(SiblingSample(), 5)
    add_entries(buffer, np.arange(7), np.arange(7))
    view = View(buffer._memory)
    assert view.in_order and view.at_ages(np.arange(5)).tolist() == [1, 0, 4, 3, 2]
    assert view.age(view.at_ages(np.arange(5))).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="expected ages from 0 to 4 of slots in order"):
        view.at_ages(np.array([5]))
    sampler = SlotSampler(5, SiblingSample())
    sampler.put([3, 1], [0, 0])
    assert not View(sampler._memory).in_order


def test_what_averages_are_made_of() -> None:
    """Distinct outcomes with their shares, or a uniform subset of the members."""
    buffer = new_buffer(GroupPrioritized(trains="average"), 8)
    add_entries(buffer, [0, 0, 0, 0, 1, 1], [3, 4, 3, 3, 3, 3])
    view = View(buffer._memory)
    first, second = view.groups(np.array([0, 4]))
    starts, slots, shares = view.outcomes(np.array([first, second]))
    outcomes = buffer.transitions()["next_obs"][slots]
    assert starts.tolist() == [0, 2, 3]
    assert dict(zip(outcomes[:2].tolist(), shares[:2].tolist(), strict=True)) == {3: 0.75, 4: 0.25}
    assert (outcomes[2], shares[2]) == (3, 1.0)
    stream = Stream(Uniforms(np.random.default_rng(0)))
    seen = set()
    for _ in range(200):
        starts, slots, shares = view.subsets(np.array([first, second]), 3, stream)
        assert starts.tolist() == [0, 3, 5] and sorted(slots[3:]) == [4, 5]
        np.testing.assert_allclose(shares, [1 / 3] * 3 + [1 / 2] * 2)
        seen.add(tuple(sorted(slots[:3].tolist())))
    assert seen == {(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)}
    with pytest.raises(ValueError, match="no outcomes are counted"):
        plain = new_buffer(SiblingSample(), 8)
        add_entries(plain, [0], [0])
        View(plain._memory).outcomes(np.array([0]))


def test_needs_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="residuals are averaged"):
        Needs(residuals=True)
    with pytest.raises(ValueError, match="candidates are plain entries"):
        Needs(candidates=4, averages=True)

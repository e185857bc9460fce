"""What a strategy reads: compiled code follows what it is given, so a view checks it first."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import SiblingSample, View
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

"""What adapters log of a buffer's groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingModel, SiblingSample
from sibling_replay.integrations.statistics import group_statistics
from support.scenes import add_entries, new_buffer, set_priorities

GROUPS = np.array([0, 1, 1, 1, 2, 2, 2, 2])  # of 1, 3 and 4: G / N is 3 / 8
RARE, COMMON, CHANCE = 9.0, 1.0, 0.2  # TD errors of a rare outcome and of the others; how rare


def filled(strategy):
    buffer = new_buffer(strategy, 20)
    add_entries(buffer, GROUPS, np.zeros(GROUPS.size, np.int64))
    return buffer


def over_representation(strategy) -> tuple[float, set[float]]:
    """R of the rare outcome, share drawn over share stored, where each entry has it by CHANCE: by
    the exact laws of the buffers of all 2^8 ways, weighted by their chance and total mass. And what
    is said of these buffers."""
    buffer, drawn, total, said = filled(strategy), 0.0, 0.0, set()
    for rare in itertools.product([False, True], repeat=GROUPS.size):
        set_priorities(buffer, np.where(rare, RARE, COMMON))
        said.add(group_statistics(buffer, outcomes=False)["noise_kept"])
        chance = np.where(rare, CHANCE, 1.0 - CHANCE).prod() * buffer.masses.sum()
        drawn += chance * buffer.probabilities().outcome[np.array(rare)].sum()
        total += chance
    return drawn / total / CHANCE, said


@pytest.mark.parametrize("strategy", [SiblingSample, SiblingModel])
def test_noise_kept_is_the_share_of_what_per_adds_that_is_left(strategy):
    """R = 1 + (R_PER - 1) noise_kept, exactly, whatever the masses happen to be."""
    per, _ = over_representation(Prioritized(alpha=0.6))
    left, (noise_kept,) = over_representation(strategy(alpha=0.6))
    assert noise_kept == 3 / 8
    assert per > 2.0
    assert (left - 1.0) / (per - 1.0) == pytest.approx(noise_kept, rel=1e-12)


def test_groups_per_entry():
    buffer = filled(SiblingSample())
    assert group_statistics(buffer, outcomes=False)["groups_per_entry"] == 3 / 8
    add_entries(buffer, np.arange(3, 7), np.zeros(4, np.int64))
    assert group_statistics(buffer, outcomes=False)["groups_per_entry"] == 7 / 12


def test_nothing_is_said_of_a_buffer_without_groups():
    buffer = new_buffer(Prioritized(), 20, key=None)
    add_entries(buffer, np.arange(5), np.zeros(5, np.int64))
    assert group_statistics(buffer, outcomes=False) == {}

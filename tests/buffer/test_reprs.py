"""What a buffer, a sampler and a batch say they hold."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest

import sibling_replay
from sibling_replay import Prioritized, SiblingSample, SlotSampler
from support.scenes import add_entries, new_buffer


def test_a_buffer_says_how_many_entries_and_groups_it_has() -> None:
    buffer = new_buffer(SiblingSample(alpha=0.5), 2_000)
    add_entries(buffer, np.arange(1_200) % 7, np.arange(1_200) % 3)
    assert repr(buffer) == (
        "<ReplayBuffer: 1,200 of 2,000 entries in 7 groups (G/N 0.0058), "
        "SiblingSample(alpha=0.5, epsilon=1e-06, normalize='batch', initial='largest')>"
    )
    plain = new_buffer(Prioritized(), 8, key=None)
    assert repr(plain).startswith("<ReplayBuffer: 0 of 8 entries, Prioritized(")


def test_a_sampler_counts_the_groups_that_are_left() -> None:
    sampler = SlotSampler(10, SiblingSample())
    sampler.put([1, 3, 5], [7, 7, 8])
    sampler.remove([5])
    assert repr(sampler).startswith("<SlotSampler: 2 of 10 entries in 1 groups (G/N 0.5000), ")
    sampler.remove([1, 3])
    assert repr(sampler).startswith("<SlotSampler: 0 of 10 entries in 0 groups, SiblingSample(")


def test_a_batch_names_its_columns() -> None:
    buffer = new_buffer(Prioritized(), 8, key=None)
    add_entries(buffer, np.arange(5), np.arange(5))
    said = repr(buffer.sample(4))
    assert said.startswith("<Batch: 4 entries of slots, anchors, ")
    assert "reward" in said and "weights" in said


def test_the_version_is_that_of_the_distribution() -> None:
    assert sibling_replay.__version__ == version("sibling-replay")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sibling_replay.nothing

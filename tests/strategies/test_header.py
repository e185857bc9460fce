"""A batch's columns are its owner's to write on; a refresh must not believe what was written."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingModel, SiblingSample, SlotSampler
from support.averaging import averaged
from support.scenes import add_entries, new_buffer

SIZE = 16
STRATEGIES = {"SAMPLE": SiblingSample(alpha=1.0), "MODEL": SiblingModel(alpha=1.0)}


def changed_groups(batch) -> None:
    batch.groups[:] = batch.groups[::-1].copy() + 1_000_000


def changed_slots(batch) -> None:
    batch.slots[:] = np.arange(SIZE)


def exchanged(batch) -> None:
    other = int(np.flatnonzero(batch.groups != batch.groups[0])[0])
    batch.groups[[0, other]] = batch.groups[[other, 0]]


@pytest.mark.parametrize("change", [changed_groups, changed_slots, exchanged])
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_the_groups_of_a_refresh_are_those_of_its_slots(strategy, change) -> None:
    """Whatever the columns say: masses go to the slots named, and every group sum stays right."""
    buffer = new_buffer(strategy, 64)
    groups, outcomes = np.random.default_rng(1).integers(12, size=(2, 100))
    add_entries(buffer, groups, outcomes)
    batch = buffer.sample(SIZE)
    change(batch)
    errors = np.linspace(1.0, 9.0, SIZE)
    buffer.update_priorities(averaged(batch), errors)
    last = dict(zip(batch.slots.tolist(), (errors + strategy.epsilon).tolist(), strict=True))
    found = buffer.masses[list(last)]
    np.testing.assert_allclose(found, list(last.values()), rtol=1e-12)
    assert buffer.check_valid() == (True, "")


@pytest.mark.parametrize("strategy", [Prioritized(), *STRATEGIES.values()])
def test_an_empty_slot_is_refused(strategy) -> None:
    """Of a sampler, whose empty slots lie anywhere; and nothing changes."""
    sampler = SlotSampler(20, strategy, seed=0)
    sampler.put(np.arange(10), np.arange(10) % 3 if strategy.needs.groups else None)
    batch = sampler.sample(4)
    batch.slots[2] = 15
    before = sampler.masses
    with pytest.raises(ValueError, match="slot 15"):
        sampler.update_priorities(averaged(batch), np.full(4, 9.0))
    assert np.array_equal(sampler.masses, before) and sampler.check_valid() == (True, "")

"""A strategy in NumPy is told by a host what it is told by a buffer: all of its draw, not slots
alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sibling_replay import Draw, Law, Needs, Refresh, SlotSampler, Strategy, register
from sibling_replay.checkpoint import StateError
from sibling_replay.integrations.host_replay import HostReplay

CAPACITY = 40
BETA = 0.7


@register
class RefreshesAnchors(Strategy):
    """Trains a sibling, refreshes whom priority drew, by weighted errors: all that a draw has."""

    name = "refreshes-anchors"
    needs = Needs(groups=True, other_outcomes=True)

    def draw(self, view, size, stream, beta):
        anchors = view.find(stream.take(size) * view.total)
        slots, outcomes = (view.pick(view.groups(anchors), stream.take(size)) for _ in range(2))
        chances = view.masses[anchors] / view.total
        weights = self.importance_weights(view, chances, beta)
        return Draw(slots=slots, anchors=anchors, outcome_slots=outcomes, weights=weights)

    def refresh(self, view, draw, td_errors, signals):
        assert ((draw.outcome_slots < 0) | (view.masses[draw.outcome_slots] > 0.0)).all()
        here = draw.anchors >= 0
        priorities = np.abs(td_errors) * draw.weights + draw.outcome_slots + 2.0
        return Refresh(slots=draw.anchors[here], priorities=priorities[here])

    def law(self, view, size):
        each = view.masses[view.slots] / view.total
        groups = view.groups(view.slots)
        sibling = view.group_masses(groups) / view.total / view.group_sizes(groups)
        return Law(each, sibling, sibling)


def keys(slots):
    return (slots % 4).astype(np.float32)[:, None], np.zeros(slots.size, np.int64)


def new_pair() -> tuple[HostReplay, SlotSampler]:
    """A host's, and the same sampler by itself."""
    replay = HostReplay("a host", CAPACITY, RefreshesAnchors(), seed=3)
    sampler = SlotSampler(CAPACITY, RefreshesAnchors(), seed=3)
    slots = np.arange(CAPACITY)
    replay.put(slots, *keys(slots))
    sampler.put(slots, keys(slots))
    return replay, sampler


def check_same(replay: HostReplay, sampler: SlotSampler) -> None:
    assert np.array_equal(replay.sampler.masses, sampler.masses)
    assert len(set(sampler.masses.tolist())) > 5 and replay.unmatched_updates == 0


def draw_both(replay: HostReplay, sampler: SlotSampler, size: int = 12):
    batch = sampler.sample(size, BETA)
    assert (batch.anchors != batch.slots).any() and (batch.slots != batch.outcome_slots).any()
    slots = replay.draw(size, BETA)[0].copy()
    assert np.array_equal(slots, batch.outcome_slots)
    return slots, batch


def test_a_whole_draw():
    replay, sampler = new_pair()
    rng = np.random.default_rng(0)
    for _ in range(20):
        slots, batch = draw_both(replay, sampler)
        errors = rng.normal(size=12)
        replay.refresh(slots, errors)
        sampler.update_priorities(batch, errors)
        check_same(replay, sampler)


@pytest.mark.parametrize("through", ["nothing", "state", "pickle"])
def test_a_draw_in_parts_also_after_a_restore(through):
    replay, sampler = new_pair()
    slots, batch = draw_both(replay, sampler)
    if through == "state":
        state = replay.state_dict()
        replay = HostReplay("a host", CAPACITY, RefreshesAnchors(), seed=9)
        replay.load_state_dict(state)
    elif through == "pickle":
        replay = pickle.loads(pickle.dumps(replay))
    errors = np.random.default_rng(0).normal(size=12)
    for part in np.array_split(np.arange(12), 3):
        replay.refresh(slots[part], errors[part])
    sampler.update_priorities(batch, errors)
    check_same(replay, sampler)


def test_what_was_overwritten_since_is_gone_from_the_draw_too():
    replay, sampler = new_pair()
    slots, batch = draw_both(replay, sampler)
    gone = np.unique(np.r_[batch.anchors[:3], batch.slots[5:7]])
    replay.put(gone, *keys(gone))
    sampler.put(gone, keys(gone))
    errors = np.random.default_rng(0).normal(size=12)
    replay.refresh(slots, errors)
    sampler.update_priorities(batch, errors)
    check_same(replay, sampler)
    assert replay.sampler.dropped_updates == sampler.dropped_updates > 0
    assert (sampler.masses[gone] == 1.0).all()


def test_states_of_versions_that_kept_less_load_and_wrong_ones_are_refused():
    replay, _ = new_pair()
    slots = replay.draw(12, BETA)[0].copy()
    state = replay.state_dict()
    rows = state["open_draws"]
    assert rows.shape == (12, 6)
    for place, wrong in ((4, CAPACITY), (4, -1), (5, np.float64(np.nan).view(np.int64))):
        bad = rows.copy()
        bad[3, place] = wrong
        with pytest.raises(StateError, match="draws that await"):
            replay.load_state_dict({**state, "open_draws": bad})
    replay.load_state_dict({**state, "open_draws": rows[:, :4]})
    replay.refresh(slots, np.full(12, 1.5))
    expected = np.ones(CAPACITY)  # anchors are the trained slots, weights are one
    for row in rows:
        expected[row[3]] = (1.5 + row[2] + 2.0) ** 0.6
    np.testing.assert_allclose(replay.sampler.masses, expected, rtol=1e-12)

"""Refused input: the error names what was wrong, and the buffer is as it was, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from buffer_kit import (
    REFRESHING,
    STRATEGIES,
    Stubborn,
    add_some,
    assert_refused,
    churned,
    differences,
    schema,
    snapshot,
    tabular,
)

from sibling_replay import (
    Field,
    InvalidTDErrors,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingSample,
    Strategy,
)
from support.averaging import averaged

# ------------------------------------------------------------------------------- TD errors


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_invalid_td_errors_name_the_slot(strategy, bad) -> None:
    buffer = churned(strategy)
    batch = buffer.sample(8)
    for place in (0, 5, 7):
        for form in (np.array, torch.tensor, list, lambda td: np.array(td, np.float32)):
            values = [1.0] * 8
            values[place] = bad
            td = form(values)
            match = (
                rf"TD error {place} of the batch \(slot {batch.slots[place]}\) is {str(bad)[:2]}"
            )
            assert_refused(
                buffer,
                lambda td=td: buffer.update_priorities(averaged(batch), td),
                match,
                InvalidTDErrors,
            )


BAD_TD = {
    "too few": (np.ones(7), ValueError, r"expected 8 TD errors, got shape \(7,\)"),
    "too many": (np.ones(9), ValueError, r"expected 8 TD errors, got shape \(9,\)"),
    "column": (np.ones((8, 1)), ValueError, "expected 8 TD errors"),
    "scalar": (1.0, ValueError, "expected 8 TD errors"),
    "none": (None, (TypeError, ValueError), "TD errors"),
    "ragged": ([[1.0], [1.0, 2.0]] * 4, ValueError, "TD errors cannot be read"),
    "complex": (np.ones(8, complex), TypeError, "real numbers, not complex128"),
    "strings": (["1"] * 8, TypeError, "real numbers, not <U1"),
    "objects": ([object()] * 8, TypeError, "real numbers, not object"),
    "nones": ([None] * 8, TypeError, "real numbers, not object"),
    "booleans": ([True] * 8, TypeError, "real numbers, not bool"),
    "dates": (np.zeros(8, "M8[s]"), TypeError, "real numbers, not datetime64"),
    "with gradient": (torch.ones(8, requires_grad=True), ValueError, "TD errors cannot be read"),
    "stubborn": (Stubborn(), ValueError, "TD errors cannot be read.*no array here"),
}


@pytest.mark.parametrize("td, kind, match", BAD_TD.values(), ids=BAD_TD)
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_td_errors_of_the_wrong_form(strategy, td, kind, match) -> None:
    buffer = churned(strategy)
    batch = buffer.sample(8)
    assert_refused(buffer, lambda: buffer.update_priorities(averaged(batch), td), match, kind)


# --------------------------------------------------------------------------------- batches


def test_batches_of_another_buffer_and_what_is_no_batch() -> None:
    buffer, other = churned(Prioritized()), churned(Prioritized())
    foreign = other.sample(8)
    assert_refused(
        buffer, lambda: buffer.update_priorities(foreign, np.ones(8)), "not drawn from this buffer"
    )
    for thing in (None, 3, np.arange(8), foreign.record, {"slots": np.arange(8)}):
        assert_refused(
            buffer, lambda t=thing: buffer.update_priorities(t, np.ones(8)), "expected the batch"
        )


def test_a_batch_from_before_the_state_was_loaded() -> None:
    buffer = churned(SiblingSample())
    batch = buffer.sample(8)
    buffer.load_state_dict(buffer.state_dict())
    assert_refused(
        buffer, lambda: buffer.update_priorities(batch, np.ones(8)), "not drawn from this buffer"
    )


def remembers(strategy: Strategy) -> bool:
    """Whether a refresh goes by what the buffer has noted of a draw, not by the batch's columns."""
    return isinstance(strategy, SiblingAverage) and strategy.update_all_siblings


BY_SLOTS = {name: s for name, s in REFRESHING.items() if not remembers(s)}
BY_MEMORY = {name: s for name, s in REFRESHING.items() if remembers(s)}
NOWHERE = [-1, 16, 10**6, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("slot", NOWHERE)
@pytest.mark.parametrize("strategy", BY_SLOTS.values(), ids=BY_SLOTS)
def test_tampered_slots(strategy, slot) -> None:
    """Compiled code follows any index: one outside the buffer must not be followed."""
    buffer = churned(strategy, capacity=16)
    batch = averaged(buffer.sample(8))
    batch.slots[3] = slot
    if batch.outcomes is not batch:
        batch.outcomes.slots[3] = slot
        batch.groups[3] = slot
    assert_refused(buffer, lambda: buffer.update_priorities(batch, np.ones(8)), "slot|batch")


@pytest.mark.parametrize("number", [0, 1, 15, *NOWHERE])
@pytest.mark.parametrize("strategy", BY_MEMORY.values(), ids=BY_MEMORY)
def test_refreshes_of_all_siblings_do_not_believe_a_batch(strategy, number) -> None:
    """Its columns are the user's to write on: which siblings were averaged the buffer knows."""
    buffer, untouched = churned(strategy), churned(strategy)
    for _ in range(3):
        errors = np.arange(8.0)
        batch, twin = averaged(buffer.sample(8)), averaged(untouched.sample(8))
        for column in (batch.slots, batch.anchors, batch.groups, batch.group_sizes):
            column[:] = number
        for column in (batch.outcomes.slots, batch.outcomes.starts):
            column[:] = number
        for one, drawn in ((buffer, batch), (untouched, twin)):
            add_some(one, 4, seed=1)
            one.update_priorities(drawn, errors)
        assert differences(snapshot(untouched), snapshot(buffer)) == []
    assert buffer.dropped_updates > 0
    buffer.load_state_dict(buffer.state_dict())


def test_slots_that_hold_no_entry_yet() -> None:
    buffer = tabular(Prioritized())
    add_some(buffer, 3)
    batch = buffer.sample(4)
    batch.slots[2] = 3
    assert_refused(
        buffer,
        lambda: buffer.update_priorities(averaged(batch), np.ones(4)),
        "slot 3 .*holds no entry",
    )


# ------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_sampling_arguments(strategy) -> None:
    buffer = churned(strategy)
    for size in (0, -1, -(2**70), 2**40, 2**70):
        assert_refused(
            buffer, lambda s=size: buffer.sample(s), f"batch_size must be .* got {size}", ValueError
        )
    for size in (8.0, "8", None, [8], np.ones(2), np.float32(3), 1 + 0j):
        assert_refused(
            buffer, lambda s=size: buffer.sample(s), "batch_size must be a whole number", TypeError
        )
    for beta in (-0.1, 1.1, np.nan, np.inf, -np.inf, 2, np.float32(1.5)):
        assert_refused(
            buffer, lambda b=beta: buffer.sample(8, beta=b), "beta must be from 0 to 1", ValueError
        )
    for beta in ("0.4", None, [0.4, 0.5], 0.4j, np.ones(2)):
        assert_refused(
            buffer, lambda b=beta: buffer.sample(8, beta=b), "beta must be a number", TypeError
        )
    assert_refused(buffer, lambda: buffer.sample(8, gamma=0.4), "gamma", TypeError)
    for size, beta in [(np.int32(4), 0), (np.uint8(4), 1), (4, np.float32(0.5)), (4, True)]:
        assert len(buffer.sample(size, beta)) == 4


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_an_empty_buffer(strategy) -> None:
    buffer = tabular(strategy)
    assert len(buffer) == 0
    assert_refused(buffer, lambda: buffer.sample(4), "empty buffer", ValueError)
    assert_refused(buffer, buffer.probabilities, "empty buffer", ValueError)
    add_some(buffer, 1)
    assert buffer.sample(4).slots.tolist() == [0] * 4


def test_no_mass_to_draw_from() -> None:
    """Cannot come about through the public face, but the kernels say so instead of looping."""
    buffer = churned(Prioritized())
    buffer._memory.index.tree[:] = 0.0
    with pytest.raises(ValueError, match="total priority mass is zero"):
        buffer.sample(4)
    assert buffer.check_valid()[0] is False


class Whole:
    """What `struct` takes for a whole number: a tensor of one element is such a thing, too."""

    def __index__(self) -> int:
        return 3


def test_masked_values_are_refused() -> None:
    """What lies under a mask is no value."""
    buffer = ReplayBuffer(schema(Field(np.float32, (2,))), 8, SiblingSample(), seed=0)
    masked = np.ma.array([1.0, 2.0], np.float32, mask=[False, True])
    whole = np.ma.array([1.0, 2.0], np.float32)
    plain = np.zeros(2, np.float32)
    buffer.add(whole, 0, 0.0, plain, False, False)
    assert buffer.transitions()["obs"].tolist() == [[1.0, 2.0]]
    for obs, reward, following, name in [
        (masked, 0.0, plain, "obs"),
        (plain, 0.0, masked, "next_obs"),
        (plain, np.ma.masked, plain, "reward"),
        (plain, np.ma.array(1.0, mask=True), plain, "reward"),
    ]:
        one = (obs, 0, reward, following, False, False)
        assert_refused(buffer, lambda o=one: buffer.add(*o), f"{name}: some values are masked")
    columns = ([masked, plain], [0, 0], [0.0, 0.0], [plain] * 2, [False] * 2, [False] * 2)
    assert_refused(buffer, lambda: buffer.extend(*columns), "obs: some values are masked")
    stacked = (np.ma.stack([masked, whole]), *columns[1:])
    assert_refused(buffer, lambda: buffer.extend(*stacked), "obs: some values are masked")
    batch = buffer.sample(2)
    assert_refused(
        buffer, lambda: buffer.update_priorities(batch, masked), "the TD errors: some .* masked"
    )
    buffer.update_priorities(batch, whole)


def test_only_numbers_are_whole_numbers() -> None:
    buffer = tabular(Prioritized())
    with pytest.raises(TypeError, match="action"):
        buffer.add(0, Whole(), 0.0, 0, False, False)
    with pytest.raises(ValueError, match="action"):
        buffer.add(0, np.array([[3]]), 0.0, 0, False, False)
    assert len(buffer) == 0


def test_priorities_stay_finite() -> None:
    buffer = tabular(Prioritized(epsilon=1e308))
    add_some(buffer, 9)
    buffer.update_priorities(averaged(buffer.sample(4)), np.full(4, 1.7e308))
    assert np.isfinite(buffer.max_priority) and np.isfinite(buffer.masses).all()
    buffer.load_state_dict(buffer.state_dict())


def test_more_siblings_than_there_are() -> None:
    """K costs nothing where groups are smaller."""
    buffer = tabular(SiblingAverage(max_siblings=10**12))
    add_some(buffer, 9)
    batch = buffer.sample(32)
    assert batch.outcomes.size == batch.group_sizes.sum()

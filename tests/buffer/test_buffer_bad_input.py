"""Refused input: the error names what was wrong, and the buffer is as it was, byte for byte."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from buffer_kit import (
    REFRESHING,
    STRATEGIES,
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

GOOD = (0, 1, 0.5, 2, False, True)
NAMES = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


class Stubborn:
    """An object that fails on its way to an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no array here")

    def __bool__(self) -> bool:
        return True


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


# ---------------------------------------------------------------------------- transitions

# What no number field takes, with the kind of error.
JUNK = {
    "text": "left",
    "bytes": b"\x00",
    "none": None,
    "complex": 1 + 2j,
    "numpy complex": np.complex64(1),
    "object": object(),
    "dict": {},
    "date": np.datetime64("2026-01-01"),
    "stubborn": Stubborn(),
    "ragged": [[1], [1, 2]],
    "array": np.zeros(3),
    "one element": np.zeros(1),
    "empty": [],
    "huge": 2**70,
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("place", range(6), ids=NAMES)
def test_add_names_the_field(place, junk) -> None:
    if type(junk) is int and NAMES[place] == "reward":
        junk = 10**400  # 2^70 would be a fine reward
    buffer = churned(SiblingSample())
    values = list(GOOD)
    values[place] = junk
    assert_refused(buffer, lambda: buffer.add(*values), f"^{NAMES[place]}: ")


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("place", range(6), ids=NAMES)
def test_extend_names_the_field(place, junk) -> None:
    buffer = churned(SiblingSample())
    columns: list[Any] = [[value, value] for value in GOOD]
    for bad in ([columns[place][0], junk], junk):
        values = list(columns)
        values[place] = bad
        assert_refused(buffer, lambda v=values: buffer.extend(*v), f"^{NAMES[place]}: ")


@pytest.mark.parametrize("name, value, match", [
    ("obs", 1.0, "obs: expected dtype int64, got float64"),
    ("obs", np.float32(1), "obs: expected dtype int64, got float32"),
    ("action", 1.0, "action: expected dtype int64, got float64"),
    ("obs", 2**63, "obs: 9223372036854775808 is out of range for int64"),
    ("obs", np.uint64(2**64 - 1), "obs: 18446744073709551615 is out of range for int64"),
    ("reward", np.nan, "reward is nan: it must be finite"),
    ("reward", np.inf, "reward is inf"),
    ("reward", -np.inf, "reward is -inf"),
    ("reward", np.float32("nan"), "reward is nan"),
    ("reward", 1e39, "reward: 1e\\+39 is out of range for float32"),
    ("reward", -1e300, "reward: -1e\\+300 is out of range for float32"),
    ("terminated", 2, "terminated: 2 is out of range for bool"),
    ("terminated", -1, "terminated: -1 is out of range for bool"),
    ("terminated", 1.0, "terminated: expected dtype bool, got float64"),
    ("truncated", 0.0, "truncated: expected dtype bool, got float64"),
    ("truncated", "False", "truncated: expected dtype bool"),
    ("truncated", [], "truncated: expected"),
])  # fmt: skip
def test_values_of_the_right_shape_that_do_not_fit(name, value, match) -> None:
    buffer = churned(SiblingSample())
    values = dict(zip(NAMES, GOOD, strict=True))
    assert_refused(buffer, lambda: buffer.add(**{**values, name: value}), match)
    columns = {key: [one] * 3 for key, one in values.items()}
    columns[name] = [values[name], value, values[name]]
    if np.ndim(value) == 0 and not isinstance(value, str):
        column = np.array([value]) if name in ("terminated", "truncated") else columns[name]
        one = {key: [v] for key, v in values.items()} if len(column) == 1 else columns
        assert_refused(buffer, lambda: buffer.extend(**{**one, name: column}), f"^{name}")


def test_narrow_integers_are_checked() -> None:
    buffer = ReplayBuffer(schema(Field(np.uint8, (2,)), Field(np.int8)), 4, SiblingSample())
    good = ([1, 2], 3, 0.0, [3, 4], False, False)
    buffer.add(*good)
    for place, value, match in [
        (0, [1, 256], "obs: 256 is out of range for uint8"),
        (0, [-1, 0], "obs: -1 is out of range for uint8"),
        (0, np.array([1.0, 2.0]), "obs: expected dtype uint8, got float64"),
        (0, [1, 2, 3], r"obs: expected shape \(2,\), got \(3,\)"),
        (0, 1, r"obs: expected shape \(2,\), got \(\)"),
        (0, [[1, 2]], r"obs: expected shape \(2,\), got \(1, 2\)"),
        (1, 128, "action: 128 is out of range for int8"),
        (1, np.int16(-129), "action: -129 is out of range for int8"),
        (3, np.zeros((2, 1), np.uint8), "next_obs: expected shape"),
    ]:
        values = list(good)
        values[place] = value
        assert_refused(buffer, lambda v=values: buffer.add(*v), match)


def test_floats_that_overflow_a_narrower_one_are_refused_but_infinities_are_kept() -> None:
    buffer = ReplayBuffer(schema(Field(np.float16, (2,)), Field(np.float32)), 4, SiblingSample())
    buffer.add([np.inf, -np.inf], np.inf, 0.0, [np.nan, 0.0], False, False)
    assert buffer.sample(1).obs.tolist() == [[np.inf, -np.inf]]
    zeros = [0.0, 0.0]
    assert_refused(buffer, lambda: buffer.add([0.0, 70000.0], 0, 0.0, zeros, 0, 0),
                   "obs: 70000.0 is out of range for float16")  # fmt: skip
    assert_refused(buffer, lambda: buffer.add([0, 70000], 0, 0.0, zeros, 0, 0), "obs: 70000 is out")
    assert_refused(buffer, lambda: buffer.add(zeros, 1e39, 0.0, zeros, 0, 0), "action: 1e\\+39 is")
    assert_refused(buffer, lambda: buffer.extend([zeros], [1e39], [0.0], [zeros], [0], [0]),
                   "action: 1e\\+39 is out")  # fmt: skip


def test_columns_of_different_lengths() -> None:
    buffer = churned(SiblingSample())
    for place, name in enumerate(NAMES):
        columns: list[Any] = [[value] * 3 for value in GOOD]
        columns[place] = columns[place][:2]
        named = "action" if place == 0 else name
        assert_refused(
            buffer, lambda c=columns: buffer.extend(*c), f"^{named}: expected [23] entries"
        )


def test_missing_and_unknown_fields() -> None:
    buffer = ReplayBuffer({**schema(), "tag": Field(np.int8)}, 4, SiblingSample())
    buffer.add(*GOOD, tag=3)
    columns = [[value] for value in GOOD]
    for call, match in [
        (lambda: buffer.add(*GOOD), r"fields missing: \['tag'\]"),
        (lambda: buffer.add(*GOOD, tga=3), r"missing: \['tag'\]; not in the schema: \['tga'\]"),
        (lambda: buffer.add(*GOOD, tag=3, more=1), r"not in the schema: \['more'\]"),
        (lambda: buffer.add(*GOOD, tag=300), "tag: 300 is out of range for int8"),
        (lambda: buffer.add(*GOOD[:5], tag=1), "truncated"),
        (lambda: buffer.add(*GOOD, 3), "positional"),
        (lambda: buffer.extend(*columns), r"fields missing: \['tag'\]"),
        (lambda: buffer.extend(*columns, tag=[1], more=[1]), r"not in the schema: \['more'\]"),
        (lambda: buffer.extend(*columns, tag=[1, 2]), "tag: expected 1 entries"),
        (lambda: buffer.extend(*columns, tag=3), "tag: expected a column"),
    ]:
        assert_refused(buffer, call, match)
    plain = churned(SiblingSample())
    assert_refused(plain, lambda: plain.add(*GOOD, tag=3), r"not in the schema: \['tag'\]")


def test_what_follows_refused_input_is_not_touched_by_it() -> None:
    """The staging block is used again: leftovers of refused input must not show."""
    clean, used = (
        ReplayBuffer(schema(Field(np.float32, (3,)), Field(np.float64)), 4, SiblingSample(), seed=0)
        for _ in range(2)
    )
    good = (np.ones(3, np.float32), 0.5, 1.0, np.zeros(3, np.float32), True, False)
    for place in range(6):
        bad = list(copy.deepcopy(good))
        bad[place] = "junk"
        with pytest.raises(TypeError):
            used.add(*bad)
        with pytest.raises(ValueError):
            used.add(np.full(3, 7, "f4"), 7.0, 7.0, np.full(4, 7, "f4"), True, True)
        clean.add(*good)
        used.add(*good)
    assert differences(snapshot(clean), snapshot(used)) == []


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

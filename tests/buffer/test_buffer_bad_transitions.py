"""Transitions that are refused: the error names the field, and the buffer is as it was."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from buffer_kit import (
    Stubborn,
    assert_refused,
    churned,
    differences,
    schema,
    snapshot,
)

from sibling_replay import (
    Field,
    ReplayBuffer,
    SiblingSample,
)
from sibling_replay.schema import fields_of_env

GOOD = (0, 1, 0.5, 2, False, True)
NAMES = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


def test_numbers_that_a_discrete_space_does_not_have_are_no_states() -> None:
    """Of one transition and of several; and a truth value is none: done and next_obs are easily
    swapped."""
    buffer = ReplayBuffer.for_env(gym.make("FrozenLake-v1"), 10, SiblingSample(), seed=0)
    buffer.add(15, 3, 0.0, 0, False, False)
    before = snapshot(buffer)
    for place, name in ((0, "obs"), (3, "next_obs")):
        for value, message in (
            (16, r"16 is not in Discrete\(16\)"),
            (-1, "-1 is not in"),
            (False, "expected a whole number, got the truth value False"),
        ):
            values: list[Any] = [1, 1, 0.0, 2, False, False]
            values[place] = value
            with pytest.raises((TypeError, ValueError), match=f"^{name}: {message}"):
                buffer.add(*values)
            with pytest.raises((TypeError, ValueError), match=f"^{name}: .*{value}"):
                buffer.extend(*([each] for each in values))
    assert not differences(before, snapshot(buffer))


def test_a_truth_value_is_one_of_two_states() -> None:
    """Gymnasium's own check takes True for a state of Discrete(2)."""
    state = Field(np.dtype(np.int64), bounds=(0, 1))
    fields = fields_of_env(gym.make("FrozenLake-v1")) | {"obs": state, "next_obs": state}
    buffer = ReplayBuffer(fields, 10, SiblingSample(), seed=0)
    buffer.add(False, 1, 0.0, True, False, False)
    buffer.extend([True], [1], [0.0], [False], [False], [False])
    assert buffer.transitions()["obs"].tolist() == [0, 1]


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

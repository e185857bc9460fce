"""What was added is what is drawn: every dtype, shape, and way to hand a value over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_kit import assert_valid, differences, schema, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sibling_replay import Field, Prioritized, ReplayBuffer, SiblingModel, SiblingSample, Uniform

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
SHAPES = st.sampled_from([(), (), (1,), (2,), (3,), (7,), (8,), (9,), (2, 5), (16,), (3, 3, 3)])
FIELDS = st.builds(Field, st.sampled_from(DTYPES).map(np.dtype), SHAPES)


def elements(field: Field) -> st.SearchStrategy[np.ndarray]:
    kind, width = field.dtype.kind, 8 * field.dtype.itemsize
    if kind == "f":
        values = st.floats(width=width) | st.sampled_from([-0.0, 0.0])
        values = values.map(lambda x: np.nan if np.isnan(x) else x)
        return hnp.arrays(field.dtype, field.shape, elements=values)
    return hnp.arrays(field.dtype, field.shape)


@st.composite
def transitions(draw: st.DrawFn) -> tuple[dict[str, Field], list[dict[str, Any]]]:
    """A schema and some transitions of it; values are 0-d or larger arrays of the field's dtype."""
    fields = schema(draw(FIELDS), draw(FIELDS))
    fields["reward"] = Field(draw(st.sampled_from(["f2", "f4", "f8"])))
    for i in range(draw(st.integers(0, 3))):
        fields[f"extra{i}"] = draw(FIELDS)
    entries = [
        {name: draw(elements(field)) for name, field in fields.items()}
        for _ in range(draw(st.integers(1, 6)))
    ]
    for entry in entries:
        entry["reward"] = np.nan_to_num(entry["reward"])
    return fields, entries


def add(buffer: ReplayBuffer, entry: dict[str, Any], form: Any = lambda value: value[()]) -> None:
    six = [form(entry[name]) for name in list(entry)[:6]]
    buffer.add(*six, **{name: form(entry[name]) for name in list(entry)[6:]})


def plain(value: np.ndarray) -> Any:
    """Python numbers and lists. (NumPy itself reads [2**63, 0] as floats: those stay an array.)"""
    return value if value.dtype == np.uint64 else value.tolist()


def extend(buffer: ReplayBuffer, entries: list[dict[str, Any]]) -> None:
    stacked = {name: np.stack([entry[name] for entry in entries]) for name in entries[0]}
    buffer.extend(*list(stacked.values())[:6], **dict(list(stacked.items())[6:]))


@given(transitions(), st.sampled_from([Uniform(), SiblingSample(), SiblingModel()]))
@settings(max_examples=80, deadline=None)
def test_round_trip(case, strategy) -> None:
    """Drawn columns are the added values, -0.0 as 0.0, whichever way they were added."""
    fields, entries = case
    buffers = [ReplayBuffer(fields, 5, strategy, seed=0) for _ in range(4)]
    for entry in entries:
        add(buffers[0], entry)  # NumPy scalars
        add(buffers[1], entry, lambda value: value)  # 0-d arrays
        add(buffers[2], entry, plain)
    extend(buffers[3], entries)
    expected = snapshot(buffers[0])
    for buffer in buffers[1:]:
        assert differences(expected, snapshot(buffer)) == []
    assert_valid(buffers[0])
    batch = buffers[0].sample(24)
    for name, field in fields.items():
        column = getattr(batch, name)
        assert column.dtype == field.dtype and column.shape == (24, *field.shape)
        outcome = name in ("reward", "next_obs", "terminated", "truncated")
        for b, slot in enumerate(batch.outcome_slots if outcome else batch.slots):
            stored = entries[slot + 5 if slot + 5 < len(entries) else slot][name]
            stored = stored + 0.0 if field.dtype.kind == "f" else stored
            assert np.asarray(stored, field.dtype).tobytes() == column[b].tobytes()


@pytest.mark.parametrize("size", [*range(1, 34), 63, 64, 65, 600])
def test_booleans_are_stored_as_bits(size) -> None:
    rng = np.random.default_rng(size)
    field = Field(np.bool_, (size,))
    buffer = ReplayBuffer(schema(field, Field(np.int8)), 8, Uniform(), seed=0)
    frames = rng.random((2, 8, size)) < 0.5
    for i in range(8):
        buffer.add(frames[0, i], 0, 0.0, frames[1, i], False, False)
    batch = buffer.sample(40)
    np.testing.assert_array_equal(batch.obs, frames[0, batch.slots])
    np.testing.assert_array_equal(batch.next_obs, frames[1, batch.slots])
    row_bytes = buffer.state_dict()["rows"].nbytes / 8
    assert row_bytes <= 2 * -(-size // 8) + 1 + 4 + 2 + 2 * 3, "not bits"


@given(hnp.arrays(np.uint8, st.sampled_from([(3,), (8,), (16,), (4, 6)])))
@settings(max_examples=60, deadline=None)
def test_any_byte_that_numpy_takes_for_true_is_true(junk) -> None:
    """`frame.view(bool)` may hold 255 for True; its neighbours must not suffer."""
    frame = junk.view(np.bool_)
    truth = junk != 0
    end = np.array([2], np.uint8).view(np.bool_)
    fields = schema(Field(np.bool_, frame.shape))
    one, many = (ReplayBuffer(fields, 4, SiblingSample(), seed=0) for _ in range(2))
    one.add(frame, 0, 0.0, frame, end[0], False)
    one.add(truth, 0, 0.0, truth, True, False)
    many.extend(np.stack([frame, truth]), [0, 0], [0.0, 0.0], np.stack([truth, frame]),
                np.concatenate([end, [True]]), [False, False])  # fmt: skip
    for buffer in (one, many):
        batch = buffer.sample(9)
        np.testing.assert_array_equal(batch.obs, np.broadcast_to(truth, batch.obs.shape))
        np.testing.assert_array_equal(batch.next_obs, np.broadcast_to(truth, batch.obs.shape))
        assert batch.terminated.view(np.uint8).tolist() == [1] * 9
        assert buffer.groups.tolist() == [0, 0]


def test_next_obs_is_its_own() -> None:
    """Not the following entry's observation: episodes end, and environments interleave."""
    buffer = ReplayBuffer(schema(Field(np.float32, (2,))), 6, Uniform(), seed=0)
    for i in range(6):
        buffer.add(np.full(2, i, "f4"), 0, 0.0, np.full(2, 100 + i, "f4"), i == 2, False)
    batch = buffer.sample(60)
    np.testing.assert_array_equal(batch.obs[:, 0], batch.slots)
    np.testing.assert_array_equal(batch.next_obs[:, 1], 100 + batch.slots)


def test_wider_floats_are_narrowed_and_whole_numbers_widened() -> None:
    buffer = ReplayBuffer(schema(Field(np.float32, (2,)), Field(np.int16)), 4, Prioritized())
    third = np.array([1 / 3, 2 / 3])
    buffer.add(third, np.int64(7), np.float64(0.1), third.tolist(), np.bool_(True), 0)
    buffer.add(np.array([1, 2]), np.uint8(7), 3, [1, 2], 1, np.False_)
    buffer.add(np.array([True, False]), True, True, third.astype(np.float16), True, False)
    rows = buffer.sample(60)
    first, second, last = (np.flatnonzero(rows.slots == slot)[0] for slot in range(3))
    assert rows.obs[first].tolist() == third.astype(np.float32).tolist()
    assert rows.reward[first] == np.float32(0.1)
    assert rows.obs[second].tolist() == [1.0, 2.0] and rows.action[second] == 7
    assert rows.obs[last].tolist() == [1.0, 0.0] and rows.action[last] == 1
    assert rows.reward[last] == 1.0


def test_arrays_are_copied_and_never_written() -> None:
    buffer = ReplayBuffer(schema(Field(np.float32, (3,))), 4, SiblingSample(), seed=0)
    obs = np.array([-0.0, 1.0, 2.0], np.float32)
    frozen = obs.copy()
    frozen.flags.writeable = False
    buffer.add(frozen, 0, 0.0, frozen, False, False)
    buffer.add(obs[::-1], 0, 0.0, np.broadcast_to(np.float32(5), 3), False, False)
    assert np.signbit(obs[0])
    obs[:] = 9
    batch = buffer.sample(40)
    assert batch.obs[batch.slots == 0][0].tolist() == [0.0, 1.0, 2.0]
    assert batch.obs[batch.slots == 1][0].tolist() == [2.0, 1.0, 0.0]
    assert (batch.next_obs[batch.slots == 1] == 5).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("value", [-0.0, -1e-300, -5e-324, -1e-50, -2.0**-150, -2.0**-149, 2e-50,
                                   -2.0**-25, -6e-8, 1e-8, 0, np.float32(-0.0)])  # fmt: skip
def test_rewards_that_round_to_zero_have_no_sign(dtype, value) -> None:
    """A tiny negative reward becomes -0.0 in a narrower float: it must equal a zero reward."""
    fields = {**schema(), "reward": Field(dtype)}
    one, many = (ReplayBuffer(fields, 4, SiblingModel(), seed=0) for _ in range(2))
    one.add(0, 0, value, 0, False, False)
    many.extend([0], [0], np.array([value], dtype=np.float64), [0], [False], [False])
    assert differences(snapshot(one), snapshot(many)) == []
    drawn = one.sample(1).reward
    assert drawn[0] == np.dtype(dtype).type(value)
    assert drawn[0] != 0 or not np.signbit(drawn[0])

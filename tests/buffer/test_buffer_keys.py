"""Siblings: equal keys and only those, whatever the hashes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_kit import assert_same_partition, assert_valid, schema, tabular
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sibling_replay import (
    Field,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
)
from sibling_replay.replay.memory import Memory
from sibling_replay.strategies.replay_by import kept_for


def with_hash_mask(buffer: ReplayBuffer, mask: int) -> ReplayBuffer:
    """The same buffer with hashes cut down to a few values: keys collide."""
    memory = Memory(
        buffer._layout,
        buffer.capacity,
        grouped=True,
        outcomes=buffer.strategy.needs.outcomes,
        **kept_for(buffer.strategy),
        hash_mask=mask,
    )
    buffer._use(memory, buffer._uniforms)
    return buffer


OBS = st.sampled_from(
    [
        *(Field("i8"), Field("u1", (3,)), Field("?", (5,)), Field("?", (16,))),
        *(Field("f4", (2,)), Field("f2"), Field("f8", (1, 2)), Field("i2", (3,))),
    ]
)
ACTION = st.sampled_from([Field("i8"), Field("u1"), Field("f4"), Field("i2", (3,))])


def few(field: Field) -> st.SearchStrategy[np.ndarray]:
    """Elements from few values, so that equal ones occur, near each other in bytes."""
    values: Any = st.integers(0, 1)
    if field.dtype.kind == "f":
        values = st.sampled_from([-0.0, 0.0, 1.0, np.nan, np.inf])
    elif field.dtype.kind == "b":
        values = st.booleans()
    return hnp.arrays(field.dtype, field.shape, elements=values)


@given(
    st.data(), OBS, ACTION, st.integers(1, 9), st.sampled_from([0, 1, 7, 0x80000000, 0xFFFFFFFF]),
    st.sampled_from([SiblingSample(normalize="buffer"), SiblingAverage(), SiblingModel()]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_same_group_if_and_only_if_same_bytes(data, obs, action, capacity, mask, strategy) -> None:
    """Through many evictions; -0.0 counts as 0.0, a NaN as itself. `check_valid` says the same of
    outcomes."""
    buffer = with_hash_mask(ReplayBuffer(schema(obs, action), capacity, strategy, seed=0), mask)
    labels: dict[int, Any] = {}
    for step in range(data.draw(st.integers(1, 25))):
        o, a, following = data.draw(few(obs)), data.draw(few(action)), data.draw(few(obs))
        buffer.add(o[()], a[()], float(step % 2), following[()], False, False)
        labels[step % capacity] = tuple(
            (x + 0.0 if x.dtype.kind == "f" else x).tobytes() for x in (o, a)
        )
    assert_valid(buffer)
    assert_same_partition([labels[slot] for slot in range(len(buffer))], buffer.groups)


@pytest.mark.parametrize("mask", [0, 1, 0xFF, 0xFFFFFFFF])
def test_hash_collisions_never_merge_or_lose_keys(mask) -> None:
    """Thousands of additions with all keys in one bucket: insertion and deletion by shifting."""
    buffer = with_hash_mask(tabular(SiblingAverage(), capacity=61), mask)
    rng = np.random.default_rng(0)
    for i in range(3000):
        buffer.add(int(rng.integers(40)), int(rng.integers(3)), float(rng.integers(2)), 0, False,
                   False)  # fmt: skip
        if i % 100 == 0:
            assert_valid(buffer)
    batch = buffer.sample(500)
    slots = {slot: (o, a) for slot, o, a in zip(batch.slots, batch.obs, batch.action, strict=True)}
    held = sorted(slots)
    assert_same_partition([slots[slot] for slot in held], buffer.groups[held])


def test_signed_zeros_are_one_key_and_one_outcome() -> None:
    field = Field(np.float32, (2,))
    buffer = ReplayBuffer(schema(field, Field(np.float64)), 16, SiblingAverage(), seed=0)
    plus, minus = np.zeros(2, np.float32), -np.zeros(2, np.float32)
    assert np.signbit(minus).all()
    for obs in (plus, minus, minus.tolist(), minus.astype(np.float64)):
        for action in (0.0, -0.0):
            for reward in (0.0, -0.0):
                buffer.add(obs, action, reward, minus if reward else plus, False, False)
    assert buffer.groups.tolist() == [0] * 16
    outcomes = buffer.sample(1).outcomes
    assert len(outcomes) == 1 and outcomes.shares.tolist() == [1.0]
    assert not np.signbit(outcomes.reward).any() and not np.signbit(outcomes.next_obs).any()
    buffer.extend([minus], [-0.0], [-0.0], [minus], [False], [False])
    assert buffer.groups.tolist() == [0] * 16
    assert len(buffer.sample(1).outcomes) == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (2, 3)])
def test_signed_zeros_of_every_float_field(dtype, shape) -> None:
    """Those of other values keep their sign, and their neighbours in the row their bytes."""
    fields = {**schema(Field(dtype, shape), Field(np.int8)), "tag": Field(np.int8)}
    buffer = ReplayBuffer(fields, 64, SiblingSample(), seed=0)
    least = np.finfo(dtype).smallest_subnormal
    values = [np.full(shape, v, dtype)[()] for v in (0.0, -0.0, -1.0, 1.0, -least, least, -np.inf)]
    for value in values:
        buffer.add(value, -128, -0.0, value, True, False, tag=-128)
    zeros, others = buffer.groups[:2], buffer.groups[2:]
    assert zeros[0] == zeros[1] and len({zeros[0], *others.tolist()}) == 6
    stored = buffer.transitions()
    for name in ("obs", "next_obs"):
        for got, value in zip(stored[name], values, strict=True):
            np.testing.assert_array_equal(got, value)
            assert np.array_equal(np.signbit(got), np.signbit(value) & (value != 0))
    assert not np.signbit(stored["reward"]).any()
    assert (stored["action"] == -128).all() and (stored["tag"] == -128).all()


def test_nan_observations_are_equal_to_themselves() -> None:
    for field, nan in [
        (Field(np.float32, (2,)), np.array([np.nan, 1.0], np.float32)),
        (Field(np.float64), float("nan")),
        (Field(np.float16), np.float16("nan")),
    ]:
        buffer = ReplayBuffer(schema(field), 8, SiblingAverage(), seed=0)
        for _ in range(3):
            buffer.add(nan, 1, 0.0, nan, False, False)
        buffer.extend([nan, nan], [1, 1], [0.0, 0.0], [nan, nan], [False] * 2, [False] * 2)
        assert buffer.groups.tolist() == [0] * 5
        assert len(buffer.sample(1).outcomes) == 1
        assert np.isnan(buffer.sample(1).obs).any()


def test_outcomes_are_told_apart_by_each_of_their_parts() -> None:
    buffer = tabular(SiblingAverage())
    outcomes = [(0.0, 1, False, False), (1.0, 1, False, False), (0.0, 2, False, False),
                (0.0, 1, True, False), (0.0, 1, False, True)]  # fmt: skip
    for repeat in range(1, 4):
        for outcome in outcomes[:repeat]:
            buffer.add(0, 0, *outcome)
    batch = buffer.sample(1)
    found = batch.outcomes
    shares = {
        (float(r), int(n), bool(te), bool(tr)): share
        for r, n, te, tr, share in zip(found.reward, found.next_obs, found.terminated,
                                       found.truncated, found.shares, strict=True)
    }  # fmt: skip
    assert shares == {outcomes[0]: 3 / 6, outcomes[1]: 2 / 6, outcomes[2]: 1 / 6}
    for outcome in outcomes:
        buffer.add(0, 0, *outcome)
    assert len(buffer.sample(1).outcomes) == 5

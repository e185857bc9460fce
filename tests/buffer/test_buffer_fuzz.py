"""Junk in random places: it works, or TypeError or ValueError comes and nothing has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_kit import STRATEGIES, assert_valid, differences, schema, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sibling_replay import Field, ReplayBuffer, SlotSampler, Strategy
from support.averaging import averaged

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from([np.int8(3), np.uint64(2**64 - 1), np.float16(2), np.bool_(True), np.str_("a"),
                     np.complex128(2), np.datetime64("NaT", "s"), 10**400, object(), Ellipsis, {},
                     {1}]),
)  # fmt: skip
ARRAYS = hnp.arrays(
    st.sampled_from(["?", "i1", "i8", "u8", "f2", "f4", "f8", ">i4", ">f4", "c8", "U2", "O"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
JUNK = st.one_of(SCALARS, ARRAYS, st.lists(SCALARS, max_size=4), st.lists(ARRAYS, max_size=2))
GOOD = st.tuples(
    st.sampled_from([[1.0, 2.0], np.zeros(2, np.float32), np.ones(2)]),
    st.sampled_from([0, 3, np.int8(2), True]),
    st.sampled_from([0.0, -0.0, 1, np.float32(2.5), 1e-60]),
    st.sampled_from([[1.0, -0.0], np.zeros(2, np.float32)]),
    st.sampled_from([True, False, 0, np.bool_(True)]),
    st.sampled_from([True, False, 1]),
)

FORMS = {"exact": {}, "given": {"key": "given"}, "function": {"key": lambda o, a: int(a) % 2}}


def fresh(strategy: Strategy, form: str) -> ReplayBuffer:
    fields = {**schema(Field(np.float32, (2,))), "tag": Field(np.uint8), "soft": Field(np.float16)}
    return ReplayBuffer(fields, 5, strategy, seed=0, **FORMS[form])


def attempt(buffer: ReplayBuffer | SlotSampler, call: Any) -> bool:
    """Whether the call worked; if not, it must have left no trace."""
    before = snapshot(buffer)
    try:
        call()
    except (TypeError, ValueError) as error:
        assert str(error)
        assert differences(before, snapshot(buffer)) == []
        return False
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, for signalling NaNs
@given(st.data(), st.sampled_from(list(STRATEGIES)), st.sampled_from(list(FORMS)))
@settings(max_examples=150, deadline=None)
def test_junk_in_random_places(data, name, form) -> None:
    strategy = STRATEGIES[name]
    if form != "exact" and not strategy.needs.groups:
        form = "exact"
    buffer = fresh(strategy, form)
    worked = 0
    batches = []
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["add", "add", "extend", "sample", "update"]))
        if action in ("add", "extend"):
            values: list[Any] = list(data.draw(GOOD))
            further: dict[str, Any] = {"tag": 7, "soft": 0.5}
            if form == "given":
                further["group"] = 1
            if action == "extend":
                values = [[value] * 2 for value in values]
                further = {key: [value] * 2 for key, value in further.items()}
            for place in data.draw(st.lists(st.integers(0, 8), max_size=2)):
                if place < 6:
                    values[place] = data.draw(JUNK)
                else:
                    further[["tag", "soft", "group"][place - 6]] = data.draw(JUNK)
            method = buffer.add if action == "add" else buffer.extend
            worked += attempt(buffer, lambda m=method, v=values, f=further: m(*v, **f))
        elif action == "sample":
            size = data.draw(st.integers(1, 4) | SCALARS)
            beta = data.draw(st.floats(0, 1) | SCALARS)
            if isinstance(size, int) and size > 10**6:
                size = 3
            attempt(buffer, lambda s=size, b=beta: batches.append(buffer.sample(s, b)))
        elif batches:
            batch = data.draw(st.sampled_from(batches))
            td = data.draw(JUNK | hnp.arrays("f8", len(batch), elements=st.floats(0, 1e300)))
            attempt(buffer, lambda b=batch, t=td: buffer.update_priorities(averaged(b), t))
    assert_valid(buffer)
    if worked:
        buffer.sample(7)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, for signalling NaNs
@given(st.data(), st.sampled_from(list(STRATEGIES)))
@settings(max_examples=150, deadline=None)
def test_junk_for_a_slot_sampler(data, name) -> None:
    strategy = STRATEGIES[name]
    sampler = SlotSampler(6, strategy, seed=0)
    batches = []
    slots = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["put", "put", "remove", "sample", "update"]))
        if action == "put":
            places = data.draw(slots)
            keys = [0, 1, 0, 2][: len(places)] if strategy.needs.groups else None
            given = [places, keys, None]
            for place in data.draw(st.lists(st.integers(0, 2), max_size=2)):
                given[place] = data.draw(JUNK)
            attempt(sampler, lambda g=given: sampler.put(*g))
        elif action == "remove":
            places = data.draw(slots | JUNK)
            attempt(sampler, lambda p=places: sampler.remove(p))
        elif action == "sample":
            size = data.draw(st.integers(1, 4) | SCALARS)
            size = 3 if isinstance(size, int) and size > 10**6 else size
            attempt(sampler, lambda s=size: batches.append(sampler.sample(s)))
        elif batches:
            batch = data.draw(st.sampled_from(batches))
            td = data.draw(JUNK | hnp.arrays("f8", len(batch), elements=st.floats(0, 1e300)))
            attempt(sampler, lambda b=batch, t=td: sampler.update_priorities(averaged(b), t))
    ok, why = sampler.check_valid()
    assert ok, why

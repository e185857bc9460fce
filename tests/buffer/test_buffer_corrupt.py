"""Well-formed but wrong arrays: `check_valid` refuses them before a kernel can follow them.

Compiled code checks no bounds, so a group id, a place in a pool, a link of a free list or an entry
of a hash table from a damaged file could read or write anywhere, or loop for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from buffer_kit import USED, add_some, churned, differences, snapshot, tabular
from hypothesis import given, settings
from hypothesis import strategies as st

from sibling_replay import (
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    StateError,
)
from sibling_replay.replay.partition import FREE_PART, PARTS_USED
from support.averaging import averaged
from support.marks import long_but_for

STRATEGIES = {
    "prioritized": Prioritized(normalize="buffer"),
    "sample": SiblingSample(normalize="buffer"),
    "average": SiblingAverage(update_all_siblings=True),
    "average-2": SiblingAverage(max_siblings=2),
    "model": SiblingModel(),
}
GOOD = {name: churned(strategy, capacity=13).state_dict() for name, strategy in STRATEGIES.items()}
# Arrays whose every element says where something is. (Of rows, masses and hashes below.)
STRUCTURE = ("items", "vec", "pool", "heads", "table", "levels", "spec", "counts")
EXTREMES = [
    -(2**31),
    -2,
    -1,
    0,
    1,
    2,
    3,
    12,
    13,
    14,
    31,
    32,
    38,
    39,
    40,
    255,
    2**31 - 1,
    2**40,
    2**62,
]


def loaded(name: str, state: dict[str, Any]) -> ReplayBuffer | None:
    """A buffer with this state, or None if it was refused without a trace."""
    buffer = tabular(STRATEGIES[name], 13)
    add_some(buffer, 5)
    before = snapshot(buffer)
    try:
        buffer.load_state_dict(state)
    except StateError as error:
        assert "contradicts itself" in str(error)
        assert differences(before, snapshot(buffer)) == []
        return None
    return buffer


def exercise(buffer: ReplayBuffer) -> None:
    """All kernels, through several turns of the ring. A wrong index would crash or hang here."""
    for i in range(4):
        add_some(buffer, 9, seed=i)
        batch = buffer.sample(8)
        assert ((batch.slots >= 0) & (batch.slots < 13)).all()
        buffer.update_priorities(averaged(batch), np.ones(8))
    ok, why = buffer.check_valid()
    assert ok, why


@pytest.mark.parametrize("name", long_but_for(STRATEGIES, {"sample", "average-2"}))
def test_one_wrong_number_in_each_array(name) -> None:
    """Elements of every structural array, set to each extreme that its type can hold.

    What is accepted must make no difference: the element is not in use.
    """
    good = GOOD[name]
    for array_name, array in good.items():
        if array_name == "header" or array_name.split(".")[-1] not in STRUCTURE:
            continue
        limits = np.iinfo(array.dtype)
        rng = np.random.default_rng(0)
        places = range(array.size) if array.size < 8 else rng.choice(array.size, 8, False)
        for place in places:
            for value in EXTREMES:
                if not limits.min <= value <= limits.max or array.flat[place] == value:
                    continue
                bad = array.copy()
                bad.flat[place] = value
                buffer = loaded(name, {**good, array_name: bad})
                if buffer is not None:
                    exercise(buffer)


@given(st.data(), st.sampled_from(sorted(STRATEGIES)))
@settings(max_examples=250, deadline=None)
def test_several_wrong_numbers_anywhere(data, name) -> None:
    state = dict(GOOD[name])
    names = [key for key in state if key != "header" and state[key].size]
    for _ in range(data.draw(st.integers(1, 3))):
        array_name = data.draw(st.sampled_from(names))
        array = state[array_name].copy()
        place = data.draw(st.integers(0, array.size - 1))
        if array.dtype.kind == "f":
            value = data.draw(st.floats())
        else:
            limits = np.iinfo(array.dtype)
            extremes = [value for value in EXTREMES if limits.min <= value <= limits.max]
            anything = st.integers(int(limits.min), int(limits.max))
            value = data.draw(st.sampled_from(extremes) | anything)
        array.flat[place] = value
        state[array_name] = array
    buffer = loaded(name, state)
    if buffer is not None:
        exercise(buffer)


def corrupt(name: str, changes: dict[str, dict[Any, Any]]) -> ReplayBuffer | None:
    state = dict(GOOD[name])
    for array_name, elements in changes.items():
        state[array_name] = state[array_name].copy()
        for place, value in elements.items():
            state[array_name][place] = value
    return loaded(name, state)


def test_wrong_numbers_that_must_be_refused() -> None:
    """The ones that would be worst, by name."""
    vec = GOOD["sample"]["index.vec"]
    group = int(np.argmax(vec[:, 0]))
    start = int(vec[group, 1])
    mark = int(GOOD["sample"]["index.pool"][start - 1]) & 255
    assert vec[group, 0] > 1, "no group of several in this buffer: churn it more"
    full = np.ones(GOOD["sample"]["keys.table"].shape, np.int32)
    for name, changes in [
        ("sample", {"index.items": {(0, 0): 13}}),  # a group that does not exist
        ("sample", {"index.items": {(0, 0): -5}}),
        ("sample", {"index.items": {(1, 0): 99}}),  # a place outside the group's vector
        ("sample", {"index.vec": {(group, 0): 10**6}}),  # a count
        ("sample", {"index.vec": {(group, 1): 10**6}}),  # a vector outside the pool
        ("sample", {"index.vec": {(group, 1): -3}}),
        ("sample", {"index.vec": {(group, 1): 1}}),  # a header that begins before the pool
        ("sample", {"index.pool": {start - 1: 200}}),  # a vector of 2^100
        ("sample", {"index.pool": {start - 1: mark - (1 << 8)}}),  # a sum less worn than new
        ("sample", {"index.pool": {start - 1: mark + (60_000 << 8)}}),  # never summed afresh
        ("sample", {"index.pool": {...: -7}}),  # members that do not exist
        ("sample", {"index.heads": {2: 10**6}}),  # a free block outside the pool
        ("sample", {"index.heads": {USED: 10**6}}),  # more in use than there is
        ("sample", {"index.heads": {FREE_PART: 10**6}}),  # a free id that does not exist
        ("sample", {"index.heads": {FREE_PART: group}}),  # an id that is in use
        ("sample", {"index.heads": {PARTS_USED: 10**6}}),  # more ids than there are
        ("sample", {"index.heads": {PARTS_USED: 0}}),  # ids that would be handed out twice
        ("sample", {"index.heads": {-1: 1}}),  # shorter headers
        ("sample", {"keys.table": {...: full}}),  # no empty place: a search never ends
        ("sample", {"keys.table": {...: 0}}),  # no key is found again
        ("sample", {"keys.table": {...: -1}}),
        ("sample", {"keys.hashes": {group: 12345}}),
        ("sample", {"keys.spec": {0: 10**6}}),  # keys longer than rows
        ("sample", {"index.levels": {1: 10**6}}),  # a level outside the tree
        ("sample", {"index.pool": {start - 3: -1, start - 2: -1}}),  # a sum that is no number
        ("sample", {"index.pool": {start - 3: 0, start - 2: 0}}),  # a sum of nothing
        ("sample", {"index.group_floors": {-1: 0.5}}),
        ("sample", {"index.group_floors": {group: np.nan}}),
        ("prioritized", {"index.tree": {0: np.nan}}),
        ("prioritized", {"index.tree": {0: -1.0}}),
        ("prioritized", {"index.tree": {0: np.inf}}),
        ("prioritized", {"index.tree": {0: 0.0}}),
        ("prioritized", {"index.tree": {-1: 0.0}}),
        ("prioritized", {"index.slot_floors": {0: 0.0}}),
        ("prioritized", {"counts": {3: 10**6}}),  # rows longer than they are
        ("prioritized", {"counts": {0: -1, 1: -1}}),  # a negative slot
        ("prioritized", {"counts": {0: 2**63 - 1, 1: 13}}),  # an overflow at the next addition
        ("prioritized", {"counts": {1: 10**6}}),
        ("prioritized", {"counts": {2: -1}}),
        ("prioritized", {"peaks": {0: np.inf}}),
        ("prioritized", {"peaks": {1: np.inf}}),
        ("prioritized", {"peaks": {1: 0.0}}),
        ("prioritized", {"peaks": {1: np.nan}}),
        ("prioritized", {"peaks": {1: 1e308}}),  # a total that overflows after a few additions
        ("prioritized", {"rows": {...: 2**32 - 1}}),  # rewards that are not numbers
        (
            "average",
            {"group_outcomes.heads": {PARTS_USED: 1}},
        ),  # parts no repack would move
        ("average", {"outcomes.items": {(0, 0): -1}}),
        ("average", {"outcomes.items": {(0, 0): 13}}),
        ("average", {"group_outcomes.items": {(0, 0): 13}}),
        ("average", {"group_outcomes.vec": {(0, 0): 13}}),
        ("average", {"outcome_keys.table": {...: 0}}),
        ("average", {"outcome_keys.spec": {0: 10**6}}),
        ("average", {"rows": {...: 0}}),  # one key, many groups
    ]:
        assert corrupt(name, changes) is None, (name, changes)


def test_a_cycle_of_free_blocks() -> None:
    """A free list that leads back to itself would be walked for ever."""
    buffer = churned(STRATEGIES["sample"], capacity=13)
    for seed in range(100):
        add_some(buffer, 1, seed=seed)
        state = buffer.state_dict()
        heads, pool = state["index.heads"], state["index.pool"]
        classes = [k for k in range(USED) if heads[k] != -1]
        if classes:
            break
    assert classes, "no free block in this buffer: churn it more"
    for k in classes:
        looped = pool.copy()
        looped[heads[k]] = heads[k]
        assert loaded("sample", {**state, "index.pool": looped}) is None
        shared = heads.copy()
        shared[k + 1] = heads[k]
        assert loaded("sample", {**state, "index.heads": shared}) is None


def test_a_cycle_of_free_ids() -> None:
    buffer = tabular(SiblingSample(), 6)
    for i in range(6):
        buffer.add(i, 0, 0.0, 0, False, False)
    for _ in range(5):
        buffer.add(0, 1, 0.0, 0, False, False)
    state = buffer.state_dict()
    vec = state["index.vec"].copy()
    vec[state["index.heads"][FREE_PART], 1] = state["index.heads"][FREE_PART]
    with pytest.raises(StateError, match="free parts"):
        buffer.load_state_dict({**state, "index.vec": vec})

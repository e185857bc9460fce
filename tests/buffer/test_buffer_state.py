"""States: taken, loaded, and continued bit for bit; or refused, with the reason, and no trace."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from buffer_kit import (
    STRATEGIES,
    add_some,
    assert_valid,
    churned,
    columns,
    differences,
    schema,
    snapshot,
    tabular,
)

from sibling_replay import (
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingSample,
    SlotSampler,
    StateError,
    Strategy,
    Uniform,
)
from sibling_replay.checkpoint import SCHEMA_VERSION
from support.averaging import averaged


def parity(obs: Any, action: Any) -> Any:
    return obs % 2


def corner(obs: Any, action: Any) -> Any:
    return np.array([obs % 2, action], dtype=np.float32)


KEYS: dict[str, Any] = {"exact": "exact", "given": "given", "function": parity, "vector": corner}


def traffic(buffer: ReplayBuffer, rounds: int, given: bool, seed: int) -> list[dict[str, bytes]]:
    """Additions, batches and refreshes; the batches, as bytes."""
    rng = np.random.default_rng(seed)
    drawn = []
    for i in range(rounds):
        group = int(rng.integers(4))
        action = group % 2 if given else int(rng.integers(2))  # groups do not mix actions
        further = {"group": group} if given else {}
        buffer.add(int(rng.integers(4)), action, float(rng.integers(2)),
                   int(rng.integers(3)), False, bool(rng.random() < 0.1), **further)  # fmt: skip
        batch = buffer.sample(1 + i % 9, beta=(i % 11) / 10)
        drawn.append(columns(batch))
        buffer.update_priorities(averaged(batch), 2.0 * rng.random(len(batch)))
    return drawn


GROUPINGS = [
    pytest.param(strategy, key, id=f"{name}-{key}")
    for name, strategy in STRATEGIES.items()
    for key in KEYS
    if strategy.needs.groups or key == "exact"
]


@pytest.mark.parametrize(("strategy", "key"), GROUPINGS)
def test_the_next_thousand_batches_are_the_same(strategy, key, tmp_path) -> None:
    """From a dict and from a file, with additions and refreshes in between."""
    options = {"key": KEYS[key]} if strategy.needs.groups else {}
    given = key == "given"
    buffer = tabular(strategy, 29, seed=5, **options)
    traffic(buffer, 50, given, seed=0)
    state = buffer.state_dict()
    buffer.save(tmp_path / "buffer.state")
    before = snapshot(buffer)

    from_dict = tabular(strategy, 29, seed=6, **options)
    traffic(from_dict, 3, given, seed=8)
    from_dict.load_state_dict(state)
    function = options.get("key") if callable(options.get("key")) else None
    from_file = ReplayBuffer.load(tmp_path / "buffer.state", key=function)
    for other in (from_dict, from_file):
        assert differences(before, snapshot(other)) == []
        assert type(other.strategy) is type(strategy) and other.strategy == strategy
        assert len(other) == len(buffer) and other.max_priority == buffer.max_priority

    expected = traffic(buffer, 1000, given, seed=1)
    assert traffic(from_file, 1000, given, seed=1) == expected
    assert traffic(from_dict, 1000, given, seed=1) == expected
    assert differences(snapshot(buffer), snapshot(from_file)) == []
    assert_valid(from_file)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_an_empty_buffer_has_a_state(strategy, tmp_path) -> None:
    buffer = tabular(strategy, 7, seed=1)
    buffer.save(tmp_path / "empty")
    loaded = ReplayBuffer.load(tmp_path / "empty")
    assert len(loaded) == 0
    with pytest.raises(ValueError, match="empty"):
        loaded.sample(1)
    assert traffic(loaded, 20, False, 0) == traffic(buffer, 20, False, 0)


@pytest.mark.parametrize("generator", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_kind_of_generator_continues(generator, tmp_path) -> None:
    kind = getattr(np.random, generator)
    buffer = tabular(SiblingSample(), seed=np.random.Generator(kind(3)))
    add_some(buffer, 20)
    buffer.sample(100)
    buffer.save(tmp_path / "state")
    loaded = ReplayBuffer.load(tmp_path / "state")
    for _ in range(200):
        assert columns(loaded.sample(64)) == columns(buffer.sample(64))


def test_images_and_extra_fields_survive(tmp_path) -> None:
    extra = {"tag": Field("u2"), "mask": Field("?", (5,))}
    fields = schema(Field("?", (10, 10, 3)), Field("f2", (2,)), **extra)
    fields["reward"] = Field("f8")
    buffer = ReplayBuffer(fields, 6, SiblingAverage(max_siblings=3), seed=0)
    rng = np.random.default_rng(0)
    for i in range(10):
        frame = rng.random((10, 10, 3)) < 0.5
        buffer.add(frame, [0.5, i], i / 3, ~frame, False, i == 5, tag=i, mask=rng.random(5) < 0.5)
    buffer.save(tmp_path / "b")
    loaded = ReplayBuffer.load(tmp_path / "b")
    for _ in range(10):
        assert columns(loaded.sample(16)) == columns(buffer.sample(16))


def test_a_state_is_a_copy_and_is_not_changed_by_loading() -> None:
    buffer = churned(SiblingAverage())
    state = buffer.state_dict()
    frozen = snapshot(state)
    add_some(buffer, 5)
    assert snapshot(state) == frozen
    buffer.load_state_dict(state)
    add_some(buffer, 5)
    buffer.update_priorities(averaged(buffer.sample(4)), np.arange(4.0))
    assert snapshot(state) == frozen
    json.dumps(state["header"])  # plain data


def refused(buffer: ReplayBuffer, state: Any, match: str) -> None:
    before = snapshot(buffer)
    twin = churned(buffer.strategy)
    with pytest.raises(StateError, match=match):
        buffer.load_state_dict(state)
    assert differences(before, snapshot(buffer)) == []
    assert columns(buffer.sample(8)) == columns(twin.sample(8)), "it does not go on as before"


@pytest.mark.parametrize("other, match", [
    (tabular(SiblingSample(), 17), "capacity is 17 there and 16 here"),
    (tabular(SiblingSample(alpha=0.7)), "options is .*0.7"),
    (tabular(SiblingSample(normalize=None)), "options is .*None"),
    (tabular(Prioritized()), "strategy is 'Prioritized' there"),
    (tabular(SiblingAverage()), "strategy is 'SiblingAverage' there"),
    (tabular(SiblingSample(), key="given"), "key is 'given' there"),
    (tabular(SiblingSample(), key=parity), "key is 'function' there"),
    (ReplayBuffer(schema(Field("i4")), 16, SiblingSample()), "fields is"),
    (ReplayBuffer(schema(tag=Field("i4")), 16, SiblingSample()), "fields is"),
], ids=lambda value: None if isinstance(value, str) else "")  # fmt: skip
def test_states_of_other_buffers(other, match) -> None:
    refused(churned(SiblingSample()), other.state_dict(), match)


def test_states_of_buffers_with_other_key_functions() -> None:
    """The function itself is not in the state, the form of its results is."""
    ints, floats = tabular(SiblingSample(), key=parity), tabular(SiblingSample(), key=corner)
    add_some(ints, 4)
    before = snapshot(ints)
    with pytest.raises(StateError, match="key_form is"):
        ints.load_state_dict(floats.state_dict())
    halves = tabular(SiblingSample(), key=lambda obs, action: float(obs) / 2)
    with pytest.raises(StateError, match="key_form is"):
        ints.load_state_dict(halves.state_dict())
    assert differences(before, snapshot(ints)) == []


def test_states_that_are_not_whole() -> None:
    buffer = churned(SiblingSample())
    good = buffer.state_dict()
    names = [name for name in good if name != "header"]
    for name in names:
        lacking = {key: value for key, value in good.items() if key != name}
        refused(churned(SiblingSample()), lacking, f"missing or unknown: {name}")
    refused(churned(SiblingSample()), {**good, "more": np.zeros(2)}, "missing or unknown: more")
    refused(churned(SiblingSample()), {**good, 3: np.zeros(2)}, "missing or unknown: 3")
    refused(churned(SiblingSample()), {}, "a state needs a header")
    refused(churned(SiblingSample()), {**good, "header": 3}, "a state needs a header")
    refused(churned(SiblingSample()), [1, 2], "a state needs a header")
    refused(churned(SiblingSample()), None, "a state needs a header")
    for name in names:
        for bad in (good[name].astype(np.complex64), np.append(good[name], 0), good[name].tolist(),
                    None, "x"):  # fmt: skip
            refused(churned(SiblingSample()), {**good, name: bad}, f"{name}: expected")


@pytest.mark.parametrize("change", [
    {"version": SCHEMA_VERSION - 2}, {"version": SCHEMA_VERSION + 1},
    {"version": str(SCHEMA_VERSION)}, {"version": None}, {"version": True},
    {"capacity": 16.0}, {"capacity": "16"}, {"capacity": np.arange(3)},
    {"strategy": "Sibling"}, {"strategy": None}, {"options": {}}, {"options": np.arange(2)},
    {"key": None}, {"fields": []}, {"fields": {}},
], ids=str)  # fmt: skip
def test_headers_that_say_something_else(change) -> None:
    good = churned(SiblingSample()).state_dict()
    header = {**good["header"], **change}
    refused(churned(SiblingSample()), {**good, "header": header}, next(iter(change)))


@pytest.mark.parametrize("name", ["version", "capacity", "strategy", "options", "key", "fields",
                                  "uniforms"])  # fmt: skip
def test_headers_that_lack_something(name) -> None:
    good = churned(SiblingSample()).state_dict()
    header = {key: value for key, value in good["header"].items() if key != name}
    refused(
        churned(SiblingSample()), {**good, "header": header},
        "random stream" if name == "uniforms" else f"lacks '{name}'",
    )  # fmt: skip


@pytest.mark.parametrize("change", [
    {"version": 2}, {"cursor": -1}, {"cursor": 10**9}, {"cursor": 3.5}, {"cursor": "a"},
    {"cursor": None}, {"block_size": 0}, {"block_size": 10**15}, {"block_size": "x"},
    {"bit_generator": None}, {"bit_generator": {}}, {"bit_generator": {"bit_generator": "PCG65"}},
    {"bit_generator": {"bit_generator": "PCG64"}},
    {"bit_generator": {"bit_generator": "Generator"}},
    {"bit_generator": {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}, "has_uint32": 0,
                       "uinteger": 0}},
    {"bit_generator": {"bit_generator": "PCG64", "state": {"state": "x", "inc": 1}, "has_uint32": 0,
                       "uinteger": 0}},
], ids=str)  # fmt: skip
def test_random_streams_that_cannot_be_restored(change) -> None:
    good = churned(SiblingSample()).state_dict()
    uniforms = {**good["header"]["uniforms"], **change}
    refused(
        churned(SiblingSample()),
        {**good, "header": {**good["header"], "uniforms": uniforms}},
        "random stream cannot be restored",
    )


def test_a_key_function_must_come_with_the_file(tmp_path: Path) -> None:
    tabular(SiblingSample(), key=parity).save(tmp_path / "keyed")
    churned(SiblingSample()).save(tmp_path / "exact")
    with pytest.raises(StateError, match="saved with a key function"):
        ReplayBuffer.load(tmp_path / "keyed")
    with pytest.raises(StateError, match="saved without a key function"):
        ReplayBuffer.load(tmp_path / "exact", key=parity)
    with pytest.raises(StateError, match="key_form"):
        ReplayBuffer.load(tmp_path / "keyed", key=corner)
    ReplayBuffer.load(tmp_path / "keyed", key=parity)


def test_equal_buffers_have_equal_states() -> None:
    """Nothing of the process (uninitialised memory, addresses) is in a state."""
    for strategy in STRATEGIES.values():
        first, second = (_whole_state(strategy) for _ in range(2))
        assert first == second


def _whole_state(strategy: Strategy) -> dict[str, Any]:
    state = churned(strategy, capacity=50).state_dict()
    header = {"header": json.dumps(state.pop("header"))}
    return {**header, **{name: array.tobytes() for name, array in state.items()}}


def test_uniform_has_a_state_too() -> None:
    buffer = churned(Uniform())
    twin = tabular(Uniform())
    twin.load_state_dict(buffer.state_dict())
    assert columns(twin.sample(20)) == columns(buffer.sample(20))


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.SFC64])
def test_a_generator_that_its_owner_goes_on_using(kind) -> None:
    """It is copied as it stands: its stream is the buffer's, and their draws do not disturb each
    other."""
    generator = np.random.Generator(kind(3))
    generator.random(5)
    expected, alone = copy.deepcopy(generator), copy.deepcopy(generator)
    buffer = tabular(SiblingSample(), seed=generator)
    twin = tabular(SiblingSample(), seed=alone)  # whose owner never uses it again
    for each in (buffer, twin):
        add_some(each, 16)
    for turn in range(400):
        assert generator.random() == expected.random()
        assert np.array_equal(buffer.sample(16).slots, twin.sample(16).slots)
        if turn == 200:
            restored = tabular(SiblingSample())
            restored.load_state_dict(buffer.state_dict())
            buffer = restored
    assert_valid(buffer)
    sampler = SlotSampler(4, SiblingSample(), seed=generator)
    assert generator.random() == expected.random()
    assert_valid(sampler)

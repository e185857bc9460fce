"""Streams are independent by name; Uniforms is the generator's own sequence, however it is cut."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sibling_replay.rng import Streams, Uniforms, streams

NAMES = [field.name for field in dataclasses.fields(Streams)]
BIT_GENERATORS = [
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.MT19937,
    np.random.Philox,
    np.random.SFC64,
]


def first(seed: int, name: str, n: int = 8) -> list[float]:
    generator: np.random.Generator = getattr(streams(seed), name)
    return [generator.random() for _ in range(n)]


def test_streams_are_named_and_reproducible() -> None:
    assert NAMES == ["env", "explore", "replay", "init", "eval"]
    for name in NAMES:
        assert first(3, name) == first(3, name)
        assert first(3, name) != first(4, name)


def test_streams_differ_from_each_other_and_from_the_plain_seed() -> None:
    sequences = [first(7, name) for name in NAMES]
    sequences.append(np.random.default_rng(7).random(8).tolist())
    assert len({tuple(sequence) for sequence in sequences}) == len(NAMES) + 1


def test_consuming_one_stream_leaves_the_others_alone() -> None:
    used = streams(5)
    used.eval.random(1000)
    used.env.integers(10, size=17)
    for name in ("explore", "replay", "init"):
        assert getattr(used, name).random(8).tolist() == first(5, name)


def test_spawn_keys_are_pinned() -> None:
    """Recorded runs depend on which child of the seed each name is: a reorder must fail here."""
    for key, name in enumerate(["env", "explore", "replay", "init", "eval"]):
        child = np.random.SeedSequence(11).spawn(5)[key]
        expected = np.random.Generator(np.random.PCG64(child)).random(8).tolist()
        assert first(11, name) == expected


def test_seed_may_be_a_numpy_integer() -> None:
    assert streams(np.int64(9)).env.random() == streams(9).env.random()


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_seed_of_the_wrong_type_is_refused(seed: object) -> None:
    with pytest.raises(TypeError):
        streams(seed)  # type: ignore[arg-type]


def test_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        streams(-1)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=60),
    block_size=st.integers(1, 16),
    seed=st.integers(0, 2**32),
)
def test_takes_are_the_generators_sequence(sizes: list[int], block_size: int, seed: int) -> None:
    uniforms = Uniforms(np.random.default_rng(seed), block_size)
    expected = np.random.default_rng(seed)
    for n in sizes:
        taken = uniforms.take(n)
        assert taken.dtype == np.float64 and taken.shape == (n,) and taken.flags.c_contiguous
        assert taken.tolist() == [expected.random() for _ in range(n)]
    assert uniforms.check_valid() == (True, "")


def test_reserving_is_taking_without_a_slice() -> None:
    one, other = (Uniforms(np.random.default_rng(1), 8) for _ in range(2))
    for n in (3, 5, 0, 7, 20, 1, 8, 2):
        block, start = one.reserve(n)
        assert np.array_equal(block[start : start + n], other.take(n))
        assert one.state_dict() == other.state_dict()


def test_takes_of_the_default_block() -> None:
    uniforms = Uniforms(np.random.default_rng(1))
    sizes = [32] * 300 + [4095, 1, 4096, 4097, 0, 20_000, 33]
    expected = np.random.default_rng(1).random(sum(sizes))
    assert np.array_equal(np.concatenate([uniforms.take(n).copy() for n in sizes]), expected)


@settings(max_examples=100, deadline=None)
@given(
    before=st.lists(st.integers(0, 40), max_size=20),
    between=st.lists(st.integers(0, 40), max_size=20),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=20),
    block_size=st.integers(1, 16),
    other_block_size=st.integers(1, 16),
)
def test_restored_stream_continues_bit_for_bit(
    before: list[int],
    between: list[int],
    sizes: list[int],
    block_size: int,
    other_block_size: int,
) -> None:
    uniforms = Uniforms(np.random.default_rng(2), block_size)
    for n in before:
        uniforms.take(n)
    saved = json.dumps(uniforms.state_dict())
    expected = [uniforms.take(n).tolist() for n in sizes]

    fresh = Uniforms(np.random.default_rng(99), other_block_size)
    for stream in (uniforms, fresh):  # also back in time, in the same object
        for n in between:
            stream.take(n)
        stream.load_state_dict(json.loads(saved))
        assert json.dumps(stream.state_dict()) == saved
        assert [stream.take(n).tolist() for n in sizes] == expected
        assert stream.check_valid() == (True, "")


@pytest.mark.parametrize("kind", BIT_GENERATORS)
def test_state_is_json_for_every_bit_generator(kind: type[np.random.BitGenerator]) -> None:
    uniforms = Uniforms(np.random.Generator(kind(4)), 8)
    uniforms.take(21)
    saved = json.dumps(uniforms.state_dict())
    restored = Uniforms(np.random.Generator(kind(5)), 8)
    restored.load_state_dict(json.loads(saved))
    assert restored.take(50).tolist() == uniforms.take(50).tolist()


def test_a_saved_state_is_a_snapshot() -> None:
    uniforms = Uniforms(np.random.default_rng(3), 8)
    state = uniforms.state_dict()
    saved = json.dumps(state)
    uniforms.take(100)
    assert json.dumps(state) == saved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 0}, "version 0"),
        ({"cursor": 9}, "cursor 9"),
        ({"cursor": -1}, "cursor -1"),
        ({"block_size": 0}, "block of 0"),
        ({"bit_generator": np.random.MT19937(0).state}, "MT19937"),
    ],
)
def test_refused_state_changes_nothing(change: dict[str, object], message: str) -> None:
    uniforms = Uniforms(np.random.default_rng(3), 8)
    uniforms.take(5)
    before = uniforms.state_dict()
    with pytest.raises(ValueError, match=message):
        uniforms.load_state_dict({**before, **change})
    assert uniforms.state_dict() == before
    assert uniforms.check_valid() == (True, "")


def test_bad_takes_change_nothing() -> None:
    uniforms = Uniforms(np.random.default_rng(3), 8)
    uniforms.take(5)
    before = uniforms.state_dict()
    for bad, error in ((-1, ValueError), (-100, ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            uniforms.take(bad)  # type: ignore[arg-type]
        with pytest.raises(error):
            uniforms.reserve(bad)  # type: ignore[arg-type]
    assert uniforms.state_dict() == before


def test_block_size_must_be_positive() -> None:
    with pytest.raises(ValueError, match="block_size"):
        Uniforms(np.random.default_rng(3), 0)


def test_check_valid_notices_a_generator_used_elsewhere() -> None:
    generator = np.random.default_rng(3)
    uniforms = Uniforms(generator, 8)
    generator.random()
    ok, why = uniforms.check_valid()
    assert not ok and "outside" in why


def test_check_valid_notices_a_block_written_over() -> None:
    uniforms = Uniforms(np.random.default_rng(3), 8)
    uniforms.take(4)[2] = 0.5
    ok, why = uniforms.check_valid()
    assert not ok and "block" in why

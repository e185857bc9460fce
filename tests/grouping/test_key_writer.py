"""The key that `add` writes for one transition is that of the map for the row as it is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from map_kit import images, normal

from sibling_replay import ReplayBuffer, SiblingSample
from sibling_replay.grouping import Auto, Downscale, Exact, FittableMap, Grid, KMeans, SimHash
from sibling_replay.replay.payload import Field
from sibling_replay.schema import GROUP_KEY

TRUTH = Field(np.dtype(np.bool_))


def buffer_of(obs: Any, key: Any, extra: bool = False) -> ReplayBuffer:
    """With room for as many as there are observations."""
    one = Field(obs.dtype, obs.shape[1:])
    fields = {
        "obs": one, "action": Field(np.dtype(np.int64)), "reward": Field(np.dtype(np.float32)),
        "next_obs": one, "terminated": TRUTH, "truncated": TRUTH,
    }  # fmt: skip
    if extra:
        fields["cost"] = Field(np.dtype(np.float32))
    return ReplayBuffer(fields, len(obs), SiblingSample(), key=key, seed=0)


def added(buffer: ReplayBuffer, obs: Any, **extra: Any) -> Any:
    for row in obs:
        buffer.add(row, 1, 0.5, row, False, False, **extra)
    return buffer.transitions()[GROUP_KEY]


OBSERVATIONS = {
    "float32": normal(200, 5),
    "float64": normal(200, 5).astype(np.float64),
    "float16": normal(200, 5).astype(np.float16),
    "32 dims": normal(200, 32),
    "image": images(200, (9, 7, 2)),
    "bools": images(200, (6, 6, 3)) > 200,
    "odd bools": images(200, (5, 5)) > 200,  # whose bits are no whole bytes
    "whole": images(200, (3,)).astype(np.int32) - 100,
    "number": np.arange(200) % 17,
}
MAPS = [Grid(4), Grid(16), Grid(300), SimHash(12), KMeans(9)]
CASES = [(name, kind) for name in OBSERVATIONS for kind in MAPS] + [
    (name, Downscale((4, 3), shades, then))
    for name in ("image", "bools", "odd bools")
    for shades in (8, None)
    for then in (KMeans(9), Grid(2), Exact())
]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=str)
def test_add_writes_the_key_of_the_map(name, kind: FittableMap) -> None:
    x = OBSERVATIONS[name]
    key = kind.unfitted().fit(x)
    expected = key.keys(x)
    assert 1 < len(np.unique(expected, axis=0))
    np.testing.assert_array_equal(added(buffer_of(x, key), x), expected)
    at_once = buffer_of(x, key)
    no = np.zeros(len(x), dtype=np.int64)
    at_once.extend(x, no + 1, no + 0.5, x, no > 0, no > 0)
    np.testing.assert_array_equal(at_once.transitions()[GROUP_KEY], expected)


@pytest.mark.parametrize("kind", [Grid(16), SimHash(12)], ids=repr)
def test_fields_of_ones_own_and_values_to_convert_have_the_same_keys(kind) -> None:
    x = OBSERVATIONS["32 dims"]
    key = kind.unfitted().fit(x)
    expected = key.keys(x)
    np.testing.assert_array_equal(added(buffer_of(x, key, True), x, cost=2.0), expected)
    for other in (x.astype(np.float64), np.asfortranarray(x), x.tolist(), x.astype(">f4")):
        np.testing.assert_array_equal(added(buffer_of(x, key), list(other)), expected)
    wide = np.repeat(x, 2, axis=1)[:, ::2]  # rows that are not contiguous
    assert not wide[0].flags.c_contiguous
    np.testing.assert_array_equal(added(buffer_of(x, key), wide), expected)


@pytest.mark.parametrize("kind", [Grid(2), SimHash(12), KMeans(9), Downscale((3, 3), 4, KMeans(5))])
def test_every_byte_that_is_not_zero_is_true(kind) -> None:
    """NumPy lets any byte be viewed as a boolean."""
    bits = OBSERVATIONS["bools"]
    key = kind.unfitted().fit(bits)
    odd = (bits.view(np.uint8) * np.uint8(254)).view(np.bool_)
    np.testing.assert_array_equal(added(buffer_of(bits, key), odd), key.keys(bits))


@pytest.mark.parametrize("kind", [Grid(4), Grid(3, "uniform"), SimHash(12), KMeans(9)], ids=repr)
def test_negative_zeros_are_zeros(kind) -> None:
    x = np.round(normal(300, 3))
    x[x == 0.0] = 0.0
    key = kind.unfitted().fit(x)
    negative = np.where(x == 0.0, np.float32(-0.0), x)
    np.testing.assert_array_equal(added(buffer_of(x, key), negative), key.keys(x))


@pytest.mark.parametrize(
    "key", [Grid(4), Grid(16), SimHash(12), KMeans(9), Auto(noise=0.1), Downscale((2, 2), 4)]
)
@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_and_leaves_no_trace(key, awaited, value) -> None:
    x = normal(300, 64).reshape(300, 8, 8) if isinstance(key, Downscale) else normal(300, 64)
    buffer = buffer_of(x, key.unfitted() if awaited else key.unfitted().fit(x))
    added(buffer, x[:20])
    before = buffer.state_dict()
    wrong = x[20].copy()
    wrong.reshape(-1)[1] = value
    with pytest.raises(ValueError, match="must be finite"):
        buffer.add(wrong, 1, 0.5, x[20], False, False)
    after = buffer.state_dict()
    assert after.keys() == before.keys() and len(buffer) == 20
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    added(buffer, x[20:])  # and the next one has its own key
    np.testing.assert_array_equal(
        buffer.transitions()[GROUP_KEY], np.asarray(buffer._key.keys(x, np.ones(300, np.int64)))
    )


def test_a_map_that_is_awaited_writes_zeros_after_any_other_key() -> None:
    x = normal(50)
    buffer = buffer_of(x, Grid(4))
    assert added(buffer, [*x[:10], *x[10:20].tolist()]).tolist() == [0] * 20


def test_small_images_are_mapped_by_a_map_of_rows_only() -> None:
    for then in (Auto(), Downscale(), "exact"):
        with pytest.raises(TypeError, match="then must be Exact, Grid, SimHash or KMeans, not"):
            Downscale(then=then)

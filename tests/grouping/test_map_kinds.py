"""Each kind of map against a naive statement of it: bins, planes, centres, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from map_kit import images, normal, refines

from sibling_replay.grouping import (
    Downscale,
    Exact,
    Grid,
    KMeans,
    NotFitted,
    SimHash,
)

# ----------------------------------------------------------------------------------------- grid


@pytest.mark.parametrize("bins", [2, 4, 7])
def test_quantile_bins_are_even(bins) -> None:
    x = normal(1_001, 3) ** 3
    for dim in range(3):
        _, counts = np.unique(Grid(bins, dims=(dim,)).fit(x).keys(x), return_counts=True)
        assert counts.size == bins and counts.max() - counts.min() <= 1


def test_uniform_bins_are_of_equal_width_and_the_outer_ones_open() -> None:
    x = np.linspace(0.0, 10.0, 101)[:, None]
    key = Grid(5, "uniform").fit(x)
    probes = np.array([[-50.0], [0.0], [1.99], [2.0], [5.0], [7.99], [8.0], [10.0], [99.0]])
    assert key.keys(probes).tolist() == [0, 0, 0, 1, 2, 3, 4, 4, 4]


def test_grid_cells_are_those_of_searchsorted_and_never_merged() -> None:
    x = normal(3_000, 5)
    key = Grid(6).fit(x)
    digits = []
    for column in x.T.astype(np.float64):
        edges = np.sort(column)[3_000 * np.arange(1, 6) // 6]
        digits.append(np.searchsorted(edges, column, side="right"))
    expected = np.ravel_multi_index(digits, (6,) * 5)
    np.testing.assert_array_equal(key.keys(x), expected)
    wide = normal(200, 60)
    found = Grid(8).fit(wide).keys(wide)  # 180 bits
    assert found.shape == (200, 3)
    apart = np.stack([Grid(8, dims=(d,)).fit(wide).keys(wide) for d in range(60)], axis=1)
    assert refines(found, apart) and refines(apart, found)


@pytest.mark.parametrize("bins", [1, 2, 9, 128, 129, 130, 700])
def test_bins_are_counted_or_searched_alike(bins) -> None:
    """Edges are counted where they are few, and searched for where they are more."""
    x = np.random.default_rng(3).integers(900, size=(2_000, 2)).astype(np.float64)
    x[:, 1] = np.minimum(x[:, 1], 5)  # with fewer edges than the other
    probes = np.concatenate([x, x - 0.5, x + 0.5, [[-1e300, 1e300], [1e300, -1e300]]])
    digits, counts = [], []
    for column, probe in zip(x.T, probes.T, strict=True):
        edges = np.sort(column)[2_000 * np.arange(1, bins) // bins]
        edges = np.unique(edges[edges > column.min()])
        digits.append(np.searchsorted(edges, probe, side="right"))
        counts.append(edges.size + 1)
    np.testing.assert_array_equal(Grid(bins).fit(x).keys(probes), digits[0] * counts[1] + digits[1])


def test_few_different_values_have_few_bins() -> None:
    x = np.array([[0], [0], [0], [0], [1], [1], [5], [5]])
    assert Grid(8).fit(x).keys(x).tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    key = Grid(4).fit(np.array([[0.0]] * 9 + [[1.0]]))  # every quantile is the least value
    assert key.keys(np.array([[-1.0], [0.0], [1.0]])).tolist() == [0, 0, 0]
    assert Grid(1).fit(x).keys(x).tolist() == [0] * 8
    with pytest.raises(ValueError, match="dims has 3, and observations have 1 dimensions"):
        Grid(2, dims=(3,)).fit(x)


# --------------------------------------------------------------------------------------- nesting


@pytest.mark.parametrize(
    "kind", [Grid(12), Grid(12, "uniform"), SimHash(10), Downscale((4, 4), 8, SimHash(6))], ids=repr
)
def test_levels_nest(kind) -> None:
    x = images(300) if isinstance(kind, Downscale) else normal(1_500, 3)
    key = kind.unfitted().fit(x)
    fine, counts = key.keys(x), []
    for level in key.levels:
        coarse = key.coarser(level)
        assert refines(fine, coarse.keys(x))
        assert coarse.unfitted().fit(x).digest == coarse.digest  # the same as fitted at that level
        counts.append(len(np.unique(coarse.keys(x))))
        if isinstance(kind, SimHash):
            np.testing.assert_array_equal(coarse.keys(x), fine & (2**level - 1))
    assert counts == sorted(counts) and counts[0] < counts[-1] == len(np.unique(fine))
    assert key.coarser(key.levels[-1]).digest == key.digest
    for wrong in (0, 7 if isinstance(kind, Grid) else 99):
        with pytest.raises(ValueError, match="level"):
            key.coarser(wrong)
    with pytest.raises(NotFitted):
        kind.unfitted().coarser(key.levels[0])


# --------------------------------------------------------------------------------------- simhash


def test_bits_are_sides_of_planes_that_part_the_fitted_observations() -> None:
    x = normal(2_000, 6) * 100 + 1_000  # far from the origin: uncentred, all bits would be equal
    key = SimHash(20).fit(x)
    weights, thresholds = key.state().arrays["weights"], key.state().arrays["thresholds"]
    sides = x.astype(np.float64) @ weights >= thresholds
    bits = key.keys(x)[:, None] >> np.arange(20) & 1
    assert (sides != bits).mean() < 1e-3  # rounding at the planes themselves
    shares = bits.mean(axis=0)
    assert (shares > 0.29).all() and (shares < 0.71).all() and shares.std() > 0.05
    sparse = np.random.default_rng(0).random((2_000, 10, 10)) < 0.02
    assert len(np.unique(SimHash(8).fit(sparse).keys(sparse))) > 60


def test_scale_of_a_dimension_does_not_matter_that_of_a_pixel_does() -> None:
    x = normal(500, 5).astype(np.float64)
    scaled = x * [1.0, 2.0, 1024.0, 0.25, 1.0] + [0, 8, 0, 0, 4]
    for kind in (SimHash(10), KMeans(7)):
        same = kind.unfitted().fit(x).keys(x) == kind.unfitted().fit(scaled).keys(scaled)
        assert same.mean() > 0.99  # but for rounding
    faint = (x * [1, 1, 1, 1, 1e-9])[:, None]  # an image with a pixel that hardly varies
    kept = KMeans(4).fit(faint)
    noisy = faint + np.array([0, 0, 0, 0, 1e-8])
    np.testing.assert_array_equal(kept.keys(faint), kept.keys(noisy))


# ---------------------------------------------------------------------------------------- kmeans


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_kmeans_takes_the_nearest_centre(dtype) -> None:
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(1_500, 8)) * 3 + 5).clip(0, 12)
    x = (x > 5) if dtype == np.bool_ else x.astype(dtype)
    key = KMeans(20).fit(x)
    learnt = key.state().arrays
    z = (x - learnt["mean"]) * learnt["scale"]
    distances = ((z[:, None] - learnt["centres"][None]) ** 2).sum(axis=2)
    found = key.keys(x)
    ahead = np.partition(distances, 1, axis=1)
    clear = ahead[:, 1] - ahead[:, 0] > 1e-9  # pixels may lie in the middle between two centres
    np.testing.assert_array_equal(found[clear], distances.argmin(axis=1)[clear])
    np.testing.assert_allclose(distances[np.arange(1_500), found], ahead[:, 0], atol=1e-9)
    assert clear.mean() > 0.9
    assert len(np.unique(found)) == 20


def test_kmeans_finds_clusters_and_beats_random_centres() -> None:
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(16, 3)) * 50
    owner = rng.integers(16, size=2_000)
    x = corners[owner] + rng.normal(size=(2_000, 3)) * 0.1
    found = KMeans(16).fit(x).keys(x)
    assert refines(found, owner) and refines(owner, found)
    assert KMeans(16, seed=1).fit(x).digest != KMeans(16).fit(x).digest


def test_fewer_different_observations_than_centres() -> None:
    x = np.repeat(np.array([[0.0, 1.0], [5.0, 5.0], [9.0, 0.0]]), 40, axis=0)
    key = KMeans(64).fit(x)
    assert key.state().arrays["centres"].shape == (3, 2)
    assert len(np.unique(key.keys(x))) == 3 and refines(x, key.keys(x)[:, None])


# ------------------------------------------------------------------------------------- downscale


@pytest.mark.parametrize("channels", ["last", "first", "none"])
@pytest.mark.parametrize("size", [(84, 84), (21, 17), (5, 3), (1, 2)])
def test_downscale_is_the_mean_over_windows(channels, size) -> None:
    height, width = size
    x = images(3, {"last": (*size, 4), "first": (4, *size), "none": size}[channels])
    key = Downscale((7, 5), None, Exact(), "auto" if channels == "none" else channels).fit(x)
    cells = np.asarray(key._matrix(_leaves(x)))
    rows, columns = min(7, height), min(5, width)
    last = {"last": x, "first": np.moveaxis(x, 1, -1), "none": x[..., None]}[channels]
    naive = np.stack(
        [
            last[:, r * height // rows : (r + 1) * height // rows,
                 c * width // columns : (c + 1) * width // columns].mean(axis=(1, 2))
            for r in range(rows) for c in range(columns)
        ], axis=1,
    ).reshape(3, rows, columns, -1)  # fmt: skip
    if channels == "first":
        naive = np.moveaxis(naive, -1, 1)
    np.testing.assert_allclose(cells, naive.reshape(3, -1), rtol=1e-12)


def _leaves(x: Any) -> Any:
    from sibling_replay.grouping.leaves import leaves_of

    return leaves_of(x)


def test_channel_order_is_guessed_from_the_shorter_axis() -> None:
    last = images(6, (12, 10, 3))
    for kind in (Exact(), SimHash(5), Grid(2)):
        a = Downscale((3, 2), 4, kind).fit(last).keys(last)
        b = Downscale((3, 2), 4, kind).fit(np.moveaxis(last, -1, 1)).keys(np.moveaxis(last, -1, 1))
        if not isinstance(kind, SimHash):  # whose planes are drawn for pixels in order
            assert refines(a, b) and refines(b, a)


def test_shades_round_between_the_extremes_of_the_fit() -> None:
    x = np.arange(0, 80, 10, dtype=np.uint8).reshape(8, 1, 1)
    key = Downscale((1, 1), 7, Exact()).fit(x)
    probes = np.array([0, 9, 10, 19, 20, 69, 70, 255], dtype=np.uint8).reshape(8, 1, 1)
    assert key.keys(probes).tolist() == [0, 0, 1, 1, 2, 6, 6, 6]
    with pytest.raises(ValueError, match="for images, of two or three axes"):
        Downscale().fit(normal(5))
    with pytest.raises(ValueError, match="expected 2 or 3 axes"):
        Downscale().fit(images(2, (4, 4, 4, 4)))
    with pytest.raises(ValueError, match="dimension 3 of row 1 is nan"):
        frames = np.zeros((2, 4, 4))
        key = Downscale((2, 2), 4).fit(frames + np.arange(4))
        frames[1, 3, 3] = np.nan
        key.keys(frames)


def test_the_inner_map_is_not_touched() -> None:
    inner = KMeans(4)
    key = Downscale((3, 3), 8, inner).fit(images(40))
    assert not inner.fitted and key.fitted and not key.unfitted().fitted
    assert Downscale((3, 3), 8, KMeans(4, seed=1)).fit(images(40)).digest != key.digest

"""The frozen encoder: the trained network's codes, exact whatever the batch, packed one to one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sibling_replay.grouping.vqvae.encoder import FrozenEncoder, Weights, weights_of
from sibling_replay.grouping.vqvae.support import code_support

torch = pytest.importorskip("torch")
from sibling_replay.grouping.vqvae.model import Form, VQVAEModel  # noqa: E402


def observations(n: int, channels: int, seed: int = 0) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    density = rng.choice([0.02, 0.1, 0.4], size=(n, 1, 1, channels))
    return rng.random((n, 10, 10, channels)) < density


def trained(channels: int, grid: tuple[int, int], codes: int) -> VQVAEModel:
    model = VQVAEModel(Form(channels, grid, codes), np.random.default_rng(0))
    for seed in range(3):
        batch = torch.from_numpy(observations(128, channels, seed)).float()
        model.update(batch, revive=False)
    return model


@pytest.mark.parametrize("grid", [(1, 1), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("channels", [4, 10])
def test_codes_are_those_of_the_network(grid: tuple[int, int], channels: int) -> None:
    model = trained(channels, grid, 16)
    frozen = FrozenEncoder(weights_of(model.arrays()), grid)
    obs = observations(400, channels, 9)
    with torch.no_grad():
        vectors = model.embed(torch.from_numpy(obs).float())
        distances = torch.cdist(vectors.double(), model.codebook.double())
        expected = model.nearest(vectors).view(len(obs), -1).numpy()
    nearest, second = distances.topk(2, largest=False).values.T
    # two codes equally near to rounding may be told apart either way: there are none here
    assert (second - nearest).min() > 1e-6
    np.testing.assert_array_equal(frozen.unpack(frozen.keys(obs)), expected)
    assert len(np.unique(expected)) > 3


def test_alone_or_in_any_batch_the_code_is_the_same() -> None:
    frozen = FrozenEncoder(weights_of(trained(6, (2, 1), 32).arrays()), (2, 1))
    obs = observations(300, 6, 4)
    alone = [frozen(one) for one in obs]
    np.testing.assert_array_equal(frozen.keys(obs), alone)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(frozen.keys(obs[order])[np.argsort(order)], alone)
    parts = [frozen.keys(obs[i : i + 7]) for i in range(0, 300, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), alone)


def test_packing_is_one_to_one() -> None:
    frozen = FrozenEncoder(weights_of(trained(4, (2, 2), 5).arrays()), (2, 2))
    grids = np.array(list(itertools.product(range(5), repeat=4)))
    packed = grids @ 5 ** np.arange(4)
    assert len(np.unique(packed)) == len(grids) == frozen.most_keys
    np.testing.assert_array_equal(frozen.unpack(packed), grids)


def test_keys_that_do_not_fit_an_integer_are_refused() -> None:
    weights = weights_of(trained(4, (1, 1), 16).arrays())
    with pytest.raises(ValueError, match="64 bits"):
        FrozenEncoder(weights._replace(codebook=np.zeros((256, 32), np.float32)), (3, 3))
    with pytest.raises(ValueError, match="and an action"):  # 62 bits
        FrozenEncoder(weights._replace(codebook=np.zeros((1200, 32), np.float32)), (3, 2))


def wrong_observations() -> dict[str, Any]:
    right = observations(1, 4)[0]
    return {
        "more channels": observations(1, 60)[0],  # was read out of bounds by the compiled code
        "other game": observations(1, 10)[0],
        "fewer channels": right[:, :, :3],
        "larger": np.zeros((12, 10, 4), bool),
        "smaller": right[:9],
        "flat": right.reshape(-1),
        "bytes": right.view(np.uint8),
        "floats": right.astype(np.float32),
        "torch": torch.from_numpy(right),
        "list": right.tolist(),
    }


@pytest.mark.parametrize("wrong", wrong_observations())
def test_observations_of_another_form_are_refused_by_name(wrong: str) -> None:
    frozen = FrozenEncoder(weights_of(trained(4, (2, 1), 16).arrays()), (2, 1))
    obs = wrong_observations()[wrong]
    with pytest.raises(ValueError, match=r"10x10x4 cells, got .*the game it was trained on"):
        frozen(obs)
    with pytest.raises(ValueError, match="10x10x4 cells, got"):
        frozen.keys(np.stack([obs, obs]) if isinstance(obs, np.ndarray) else [obs, obs])
    with pytest.raises(ValueError, match=r"got bool of shape \(10, 10, 4\)"):
        frozen.keys(observations(1, 4)[0])  # one, where a batch is asked for
    with pytest.raises(ValueError, match=r"got bool of shape \(1, 10, 10, 4\)"):
        frozen(observations(1, 4))
    assert frozen.keys(observations(0, 4)).shape == (0,)


@pytest.mark.parametrize("name", Weights._fields)
def test_weights_that_do_not_fit_together_are_refused_by_name(name: str) -> None:
    weights = weights_of(trained(4, (2, 1), 16).arrays())
    array = getattr(weights, name)
    broken = array.copy()
    broken[(0,) * array.ndim] = np.nan
    with pytest.raises(ValueError, match=f"{name} has values that are not finite"):
        FrozenEncoder(weights._replace(**{name: broken}), (2, 1))
    with pytest.raises(ValueError, match=r"must have shape \("):
        FrozenEncoder(weights._replace(**{name: array[..., :-1]}), (2, 1))
    for grid in ((0, 1), (4, 1)):
        with pytest.raises(ValueError, match="grid must have 1 to 3 cells each way"):
            FrozenEncoder(weights, grid)


def test_the_digest_names_the_function() -> None:
    weights = weights_of(trained(4, (2, 1), 16).arrays())
    digest = FrozenEncoder(weights, (2, 1)).digest
    assert digest == FrozenEncoder(Weights(*(w.copy() for w in weights)), (2, 1)).digest
    assert digest != FrozenEncoder(weights, (1, 2)).digest
    changed = weights.second.copy()
    changed[0, 0, 0, 0] += 1e-6
    assert digest != FrozenEncoder(weights._replace(second=changed), (2, 1)).digest


def test_support_of_a_known_sample() -> None:
    codes = np.array([[0, 1]] * 150 + [[2, 2]] * 40 + [[3, 0]] * 10)
    packed = codes @ np.array([1, 4])
    action = np.zeros(200, np.int64)
    action[:30] = 1
    found = code_support(codes, packed, action, n_codes=4, n_actions=2)
    use = np.array([160, 150, 80, 10]) / 400
    assert found.perplexity == pytest.approx(np.exp(-(use * np.log(use)).sum()))
    assert found.pair_coverage == 4 / 32  # buckets of 30, 120, 40, 10
    assert found.median_bucket == 35
    assert found.fraction_supported == 120 / 200
    assert found.used_codes == 4 and found.transitions == 200


def test_support_of_even_codes() -> None:
    codes = np.arange(800)[:, None] % 8
    found = code_support(codes, codes[:, 0], codes[:, 0] * 0, n_codes=8, n_actions=1)
    assert found.perplexity == pytest.approx(8.0)
    assert (found.pair_coverage, found.fraction_supported) == (1.0, 1.0)
    assert found.bucket_quantiles == (100.0,) * 5

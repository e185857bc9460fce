"""The folded decoder is the plain one, codes stay alive, and training can be cut anywhere."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from sibling_replay.grouping.vqvae.model import FAIR_SHARE, Form, VQVAEModel  # noqa: E402

GRIDS = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 3)]


def bits(n: int, channels: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((n, 10, 10, channels)) < 0.2).float()


def plain_decode(model: VQVAEModel, vectors: torch.Tensor) -> torch.Tensor:
    """1x1 convolution, nearest upsampling, 3x3 convolution, ReLU, 1x1: [B, 10, 10, C]."""
    rows, columns = model.form.grid
    x = model.from_code(vectors.view(-1, rows, columns, 32).permute(0, 3, 1, 2))
    x = F.interpolate(x, size=(10, 10), mode="nearest")
    x = F.relu(F.conv2d(x, model.spread.weight, model.spread.bias, padding=1))
    return model.to_logits(x).permute(0, 2, 3, 1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_the_folded_decoder_and_loss_are_the_plain_ones(grid: tuple[int, int], loss: str) -> None:
    model = VQVAEModel(Form(5, grid, 8, loss), np.random.default_rng(0))  # type: ignore[arg-type]
    vectors = torch.from_numpy(np.random.default_rng(1).normal(size=(6 * grid[0] * grid[1], 32)))
    vectors = vectors.float().requires_grad_()
    obs = bits(6, 5)
    plain = plain_decode(model, vectors)
    folded = model.decode(vectors)
    spread = torch.einsum("brc,pr->bpc", folded, model.region_of).view_as(plain)
    torch.testing.assert_close(spread, plain, rtol=0, atol=1e-6)

    criterion = F.binary_cross_entropy_with_logits if loss == "bce" else F.mse_loss
    expected, found = criterion(plain, obs), model.reconstruction(folded, obs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    inputs = [vectors, model.spread.weight, model.from_code.weight, model.to_logits.bias]
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_regions_partition_the_positions() -> None:
    for grid, regions in (((1, 1), 9), ((2, 1), 18), ((2, 2), 36)):
        model = VQVAEModel(Form(1, grid, 4), np.random.default_rng(0))
        assert model.region_of.shape == (100, regions)
        assert (model.region_of.sum(1) == 1).all() and (model.region_of.sum(0) > 0).all()


def test_gradients_go_straight_through_the_quantiser() -> None:
    """With the commitment's gradient taken off, the encoder gets what the code's place got."""
    model = VQVAEModel(Form(2, (2, 1), 8), np.random.default_rng(0))
    obs = bits(4, 2)
    model.update(obs, revive=False)
    vectors = model.embed(obs)
    chosen = model.codebook[model.nearest(vectors.detach())].detach().requires_grad_()
    through = vectors + (chosen - vectors).detach()
    ours = torch.autograd.grad(model.reconstruction(model.decode(through), obs), vectors)[0]
    theirs = torch.autograd.grad(model.reconstruction(model.decode(chosen), obs), chosen)[0]
    torch.testing.assert_close(ours, theirs)
    assert ours.abs().max() > 0


@pytest.mark.long
def test_codes_are_the_means_of_what_they_stand_for() -> None:
    """With a frozen encoder, moving averages converge to the means of the clusters."""
    model = VQVAEModel(Form(3, (2, 1), 6), np.random.default_rng(0), learning_rate=1e-12)
    obs = bits(64, 3)
    for _ in range(2_000):
        model.update(obs, revive=False)
    vectors = model.embed(obs).detach()
    code = model.nearest(vectors)
    for k in code.unique():
        mean = vectors[code == k].mean(0)
        torch.testing.assert_close(model.codebook[k], mean, rtol=1e-3, atol=1e-5)


def test_a_dead_code_is_revived_and_a_used_one_stays() -> None:
    model = VQVAEModel(Form(3, (2, 1), 6), np.random.default_rng(0))
    obs = bits(64, 3)
    model.update(obs, revive=False)
    far = torch.full((32,), 1e3)
    model.codebook[2], model.uses[2], model.sums[2] = far, 0.0, 0.0
    used = model.uses >= FAIR_SHARE * 128 / 6
    model.update(obs, revive=False)
    assert (model.codebook[2] == far).all()
    before = model.codebook.clone()
    model.update(obs, revive=True)
    assert model.codebook[2].abs().max() < 100
    assert (model.codebook[used] - before[used]).abs().max() < 0.1
    assert 2 in model.nearest(model.embed(obs))


def test_there_may_be_more_codes_than_a_batch_has_vectors() -> None:
    model = VQVAEModel(Form(3, (1, 1), 40), np.random.default_rng(0))
    for _ in range(3):
        model.update(bits(16, 3), revive=True)
    assert torch.isfinite(model.codebook).all()


def test_training_goes_on_bit_for_bit_from_its_arrays() -> None:
    batches = [bits(32, 4, seed) for seed in range(12)]
    one = VQVAEModel(Form(4, (2, 1), 16), np.random.default_rng(1))
    for batch in batches[:6]:
        one.update(batch, revive=False)
    other = VQVAEModel(Form(4, (2, 1), 16), np.random.default_rng(2))
    other.load_arrays(one.arrays())
    for batch in batches[6:]:
        assert one.update(batch, revive=False) == other.update(batch, revive=False)
    ours, theirs = one.arrays(), other.arrays()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_learning_lowers_the_loss() -> None:
    model = VQVAEModel(Form(2, (2, 1), 8), np.random.default_rng(0), learning_rate=3e-3)
    obs = bits(64, 2)
    obs[:, :5] *= (torch.arange(64) % 2)[:, None, None, None]  # something to tell apart
    losses = [model.update(obs, revive=True)[0] for _ in range(150)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({"channels": 0}, "channels"),
        ({"grid": (4, 1)}, "grid"),
        ({"grid": (0, 1)}, "grid"),
        ({"codes": 1}, "codes"),
        ({"loss": "l1"}, "loss"),
    ],
)
def test_a_bad_form_is_refused(form: dict[str, object], word: str) -> None:
    good: dict[str, object] = {"channels": 4, "grid": (2, 1), "codes": 16}
    with pytest.raises(ValueError, match=word):
        Form(**{**good, **form})  # type: ignore[arg-type]

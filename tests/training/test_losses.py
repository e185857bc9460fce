"""Losses by name: their slopes, the compiled and the torch one, and that PAL is LAP in the mean."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import LAP
from sibling_replay.training.losses import PAL, loss_named, size_above_one, slope_and_loss
from sibling_replay.training.settings import NetworkSettings
from support.scenes import add_entries, new_buffer

ERRORS = np.array([0.0, 0.3, -0.3, 0.99, 1.5, -2.5, 7.0, -40.0])
NAMES = ("mse", "huber", "huber:2.5", "pal", "pal:0.7", "pal:0")


def compiled(name: str, errors: np.ndarray) -> np.ndarray:
    """[2, n] slopes and losses."""
    kind, number = loss_named(name)
    scale = np.mean([size_above_one(each, number) for each in errors]) if kind == PAL else 0.0
    return np.array([slope_and_loss(each, kind, number, scale) for each in errors]).T


def test_slopes() -> None:
    slope = {name: compiled(name, ERRORS)[0] for name in NAMES}
    np.testing.assert_allclose(slope["mse"], 2 * ERRORS)
    np.testing.assert_allclose(slope["huber"], ERRORS.clip(-1, 1))
    np.testing.assert_allclose(slope["huber:2.5"], ERRORS.clip(-2.5, 2.5))
    for alpha, name in ((0.4, "pal"), (0.7, "pal:0.7")):
        above = np.maximum(np.abs(ERRORS), 1.0) ** alpha
        expected = np.sign(ERRORS) * np.minimum(np.abs(ERRORS), 1.0) * above / above.mean()
        np.testing.assert_allclose(slope[name], expected, rtol=1e-14)
    np.testing.assert_allclose(slope["pal:0"], slope["huber"])


@pytest.mark.parametrize("name", NAMES)
def test_torch_has_the_same(name: str) -> None:
    torch = pytest.importorskip("torch")
    from sibling_replay.training.torch.losses import loss_of_errors

    errors = torch.tensor(ERRORS, requires_grad=True)
    losses = loss_of_errors(name)(errors)
    losses.sum().backward()
    slopes, sizes = compiled(name, ERRORS)
    np.testing.assert_allclose(losses.detach().numpy(), sizes, rtol=1e-13)
    np.testing.assert_allclose(errors.grad.numpy(), slopes, rtol=1e-13)


@pytest.mark.parametrize("name", ["mse:1", "l1", "huber:", "huber:0", "huber:-1", "pal:x",
                                  "pal:inf", "huber:1:2", "", "Huber", None, 3])  # fmt: skip
def test_what_is_none_is_refused(name) -> None:
    sentence = "loss must be one of mse, huber, huber:K, pal, pal:ALPHA, with K positive"
    with pytest.raises(ValueError, match=sentence):
        NetworkSettings(loss=name)


def test_pal_has_the_expected_gradient_of_lap() -> None:
    """Uniform draws with PAL's slope, and LAP's draws with Huber's, over a whole buffer."""
    rng = np.random.default_rng(0)
    errors = np.exp(1.5 * rng.standard_normal(60)) * rng.choice([-1.0, 1.0], 60)
    directions = rng.standard_normal((60, 5))  # of each entry's value, with the parameters
    buffer = new_buffer(LAP(alpha=0.4), 60, key="default")
    add_entries(buffer, np.arange(60), np.arange(60))
    buffer.update_priorities(buffer.batch_of(np.arange(60)), errors)
    law = buffer.probabilities().trained
    assert law.max() > 3 * law.min()
    lap = (law * compiled("huber", errors)[0]) @ directions
    pal = compiled("pal", errors)[0] @ directions / 60
    np.testing.assert_allclose(pal, lap, rtol=1e-12)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(compiled("pal:0.5", errors)[0] @ directions / 60, lap, rtol=0.01)

"""Adam after clipping by the gradient's norm, as one fused pass over a vector of parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sibling_replay.replay.inner import inner

BETA1, BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8  # Adam's defaults, as in torch.optim.Adam
CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_

# Division by zero must not be a Python exception, or the loops do not vectorise; sums may be
# reassociated and fused, but infinities and NaN keep their meaning.
_FAST: dict[str, Any] = {"error_model": "numpy", "forceinline": True}
_FASTER: dict[str, Any] = {**_FAST, "fastmath": {"reassoc", "contract", "nsz"}}


@inner(**_FASTER)
def squared_norm(vector):
    total = vector.dtype.type(0)
    for i in range(vector.size):
        total += vector[i] * vector[i]
    return np.float64(total)


@inner(**_FAST)
def coefficients(dtype, norm, update, learning_rate, grad_clip):
    """What `adam_pass` multiplies by, for a gradient of this norm and step `update` (from 1)."""
    clip = min(1.0, grad_clip / (norm + CLIP_EPSILON))
    return (
        dtype(clip),
        dtype(BETA1),
        dtype(BETA2),
        dtype(1.0 - BETA1),
        dtype(1.0 - BETA2),
        dtype(learning_rate / (1.0 - BETA1**update)),
        dtype(1.0 / math.sqrt(1.0 - BETA2**update)),
        dtype(ADAM_EPSILON),
        dtype(1e-30),
    )


@inner(**_FASTER)
def adam_pass(theta, mean, square, grad, coefficients):
    """One fused, vectorised pass. Moments below 1e-30 become 0: there they are far beneath Adam's
    epsilon, and numbers too small to be normalised would slow the pass down two- or threefold."""
    clip, b1, b2, c1, c2, step, root_scale, epsilon, tiny = coefficients
    zero = theta.dtype.type(0)
    for i in range(theta.size):
        g = grad[i] * clip
        m = b1 * mean[i] + c1 * g
        v = b2 * square[i] + c2 * g * g
        m = m if abs(m) > tiny else zero
        v = v if v > tiny else zero
        mean[i] = m
        square[i] = v
        theta[i] -= step * m / (np.sqrt(v) * root_scale + epsilon)

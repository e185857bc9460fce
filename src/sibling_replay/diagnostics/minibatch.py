"""What one training minibatch shows of replay: weights, errors, ratios, actions. Pure functions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]


def effective_sample_size(weights: ArrayLike) -> float:
    """(sum w)^2 / sum w^2: how many equal weights would vary as little. Scale does not matter.

    Examples:
        >>> effective_sample_size([1.0, 1.0, 1.0, 1.0]), effective_sample_size([1.0, 0.0, 0.0, 0.0])
        (4.0, 1.0)
    """
    w = np.asarray(weights, dtype=np.float64)
    return float(w.sum() ** 2 / (w @ w))


def expected_ess(weights: ArrayLike, probabilities: ArrayLike, batch_size: int) -> float:
    """E[(sum w)^2 / sum w^2] over B independent draws from a law: weight w_i with probability p_i.

    With 1/x as the integral of exp(-t x) over t > 0 the draws factor, and with
    phi_k(t) = E[w^k exp(-t w^2)] what is left is 1 + B (B - 1) int phi_1^2 phi_0^(B - 2) dt.
    The limit B (E w)^2 / E w^2 would not do: with a few huge weights it falls below one, because a
    minibatch hardly ever contains them.

    Examples:
        >>> round(expected_ess([1.0, 1.0], [0.5, 0.5], batch_size=32), 3)
        32.0
    """
    w = np.asarray(weights, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if batch_size == 1:
        return 1.0
    w, p = _pooled(w / w.max(), p / p.sum())
    # On a logarithmic axis the integrand is smooth and vanishes at both ends, where the trapezoidal
    # rule converges faster than any power of the step.
    first = math.log(
        1e-12 / (batch_size * float(p @ w)) ** 2
    )  # the integrand is at most t (B E w)^2
    last = math.log(40.0 / float(w.min()) ** 2)  # from here on it is below exp(-80)
    axis = np.arange(first, last, _STEP)
    t = np.exp(axis)
    phi_0, phi_1 = np.empty(t.size), np.empty(t.size)
    for k in range(t.size):
        decay = p * np.exp(-t[k] * w**2)
        phi_0[k], phi_1[k] = decay.sum(), decay @ w
    integral = float((t * phi_1**2 * phi_0 ** (batch_size - 2)).sum()) * _STEP
    return 1.0 + batch_size * (batch_size - 1) * integral


_STEP = 0.1  # of the integration variable's logarithm
_BINS = 4096  # of the weights' logarithms: what is in one differs by under a percent


def _pooled(w: F64, p: F64) -> tuple[F64, F64]:
    """Weights of nearly the same size as one, at their mean; all but exact, and few."""
    log = np.log(w)
    width = max(-float(log.min()) / _BINS, 1e-12)
    _, place = np.unique(np.floor(log / width), return_inverse=True)
    total = np.bincount(place, weights=p).astype(np.float64)
    kept = total > 0
    return (np.bincount(place, weights=p * w)[kept] / total[kept]), total[kept]


def selection_ratio(masses: ArrayLike, group_sizes: ArrayLike, group_masses: ArrayLike) -> F64:
    """R_i = n_g u_i / s_g: an entry's probability in its group under PER, over a uniform one.

    Of PER's anchors the mean minus one estimates C; of SAMPLE's siblings the mean is one in
    expectation and std^2 + (mean - 1)^2 estimates the C that PER would have on that buffer.

    Examples:
        >>> selection_ratio([1.0, 5.0], [4, 4], [8.0, 8.0]).tolist()
        [0.5, 2.5]
    """
    u = np.asarray(masses, dtype=np.float64)
    return np.asarray(np.asarray(group_sizes) * (u / np.asarray(group_masses, dtype=np.float64)))


def shift_terms(
    weights: ArrayLike, targets: ArrayLike, group_means: ArrayLike
) -> tuple[float, float]:
    """sum_b w_b (Y_b - mean Y of its group), and sum_b w_b, with the weights actually used.

    The signed sampled shift of a run is the ratio of the two, each summed over its logged steps.

    Examples:
        >>> shift_terms([1.0, 0.5], [3.0, 2.0], [1.0, 1.0])
        (2.5, 1.5)
    """
    w = np.asarray(weights, dtype=np.float64)
    deviation = np.asarray(targets, dtype=np.float64) - np.asarray(group_means, dtype=np.float64)
    return float(w @ deviation), float(w.sum())


def action_l1(behaviour: ArrayLike, replay: ArrayLike) -> float:
    """sum_a |b(a) - r(a)| of two count vectors as frequencies: from 0 to 2.

    Examples:
        >>> action_l1([50, 50], [75, 25])
        0.5
    """
    counts = [np.asarray(c, dtype=np.float64) for c in (behaviour, replay)]
    if any(not c.sum() > 0 for c in counts):
        raise ValueError("both behaviour and replay need at least one action")
    acted, replayed = (c / c.sum() for c in counts)
    return float(np.abs(acted - replayed).sum())

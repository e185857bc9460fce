"""What one training minibatch shows of replay: weights, errors, ratios, actions. Pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]


def effective_sample_size(weights: ArrayLike) -> float:
    """(sum w)^2 / sum w^2: how many equal weights would vary as little. Scale does not matter."""
    w = np.asarray(weights, dtype=np.float64)
    return float(w.sum() ** 2 / (w @ w))


def selection_ratio(masses: ArrayLike, group_sizes: ArrayLike, group_masses: ArrayLike) -> F64:
    """R_i = n_g u_i / s_g: an entry's probability in its group under PER, over a uniform one.

    Of PER's anchors the mean minus one estimates C; of SAMPLE's siblings the mean is one in
    expectation and std^2 + (mean - 1)^2 estimates the C that PER would have on that buffer.
    """
    u = np.asarray(masses, dtype=np.float64)
    return np.asarray(np.asarray(group_sizes) * (u / np.asarray(group_masses, dtype=np.float64)))


def shift_terms(
    weights: ArrayLike, targets: ArrayLike, group_means: ArrayLike
) -> tuple[float, float]:
    """sum_b w_b (Y_b - mean Y of its group), and sum_b w_b, with the weights actually used.

    The signed sampled shift of a run is the ratio of the two, each summed over its logged steps.
    """
    w = np.asarray(weights, dtype=np.float64)
    deviation = np.asarray(targets, dtype=np.float64) - np.asarray(group_means, dtype=np.float64)
    return float(w @ deviation), float(w.sum())


def action_l1(behaviour: ArrayLike, replay: ArrayLike) -> float:
    """sum_a |b(a) - r(a)| of two count vectors as frequencies: from 0 to 2."""
    counts = [np.asarray(c, dtype=np.float64) for c in (behaviour, replay)]
    if any(not c.sum() > 0 for c in counts):
        raise ValueError("both behaviour and replay need at least one action")
    acted, replayed = (c / c.sum() for c in counts)
    return float(np.abs(acted - replayed).sum())

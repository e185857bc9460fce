"""The paper's closed forms: variance of a sibling target, and what a Huber loss fits.

Fixed targets of one group, uniform over its siblings (appendices "Variance of SAMPLE and AVG",
"Huber loss and mean-value estimation").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def average_variance(targets: ArrayLike, k: int, *, replacement: bool = False) -> float:
    """Variance of the mean of k sibling targets: sigma^2 / k, and without replacement times the
    finite-population correction 1 - (k - 1) / (n - 1). SAMPLE is k = 1; a singleton has none.

    Examples:
        >>> round(average_variance([0.0, 0.0, 3.0, 3.0], 2), 6)
        0.75
    """
    y = np.asarray(targets, dtype=np.float64)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"expected one target per sibling, got an array of shape {y.shape}")
    if k < 1 or (k > y.size and not replacement):
        raise ValueError(f"cannot average {k} of {y.size} siblings")
    if y.size == 1:
        return 0.0
    correction = 1.0 if replacement else 1.0 - (k - 1) / (y.size - 1)
    return float(y.var() / k * correction)


def huber_minimiser(values: ArrayLike, probabilities: ArrayLike, threshold: float) -> float:
    """The q that minimises E[H_c(q - R)]: where the mean of clip(q - R, -c, c) crosses zero.

    That mean is piecewise linear and rises with q, with corners at R - c and R + c, so the zero
    lies on the segment between two corners, exactly.

    Examples:
        >>> round(huber_minimiser([0.0, 100.0], [0.99, 0.01], threshold=1.0), 4)  # the mean is 1
        0.0101
    """
    r = np.asarray(values, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if r.shape != p.shape or (p < 0).any() or not np.isclose(p.sum(), 1.0):
        raise ValueError("expected one probability per value, summing to 1")
    if not threshold > 0:
        raise ValueError(f"the threshold must be positive, got {threshold}")
    corners = np.unique(np.concatenate([r - threshold, r + threshold]))
    slope = np.clip(corners[:, None] - r, -threshold, threshold) @ p
    right = int(np.argmax(slope >= 0))
    if slope[right] == 0.0:  # possibly a flat stretch: its middle
        flat = corners[slope == 0.0]
        return float((flat[0] + flat[-1]) / 2.0)
    left = right - 1
    share = -slope[left] / (slope[right] - slope[left])
    return float(corners[left] + share * (corners[right] - corners[left]))


def prioritized_target_shift(
    targets: ArrayLike, probabilities: ArrayLike, value: float, alpha: float, epsilon: float = 1e-6
) -> float:
    """B_g of an endless buffer: outcomes as often as they happen, each with the priority
    |Y - Q| + epsilon of its own TD error, no importance weights.

    Examples:
        >>> shift = prioritized_target_shift([0.0, 100.0], [0.99, 0.01], value=1.0, alpha=0.6)
        >>> round(shift, 2)  # PER's mean target is above the true one, 1
        12.73
    """
    y = np.asarray(targets, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    mass = p * (np.abs(y - value) + epsilon) ** alpha
    return float((mass / mass.sum() - p) @ y)

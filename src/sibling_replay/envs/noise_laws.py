"""Noise as finite laws: a few values with their probabilities, whose mean and variance are exact.

A transition table lists outcomes, so Gaussian or Student noise has to be a list too. These lists
are short (compiled loops count outcomes one by one) and still have rare, large values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import check_finite

GAUSS_NODES = 7  # the outermost, at 3.75 standard deviations, have 0.05 % each
STUDENT_FREEDOM = 3  # the heaviest tail of whole degrees of freedom that has a variance

# Probabilities of the cells on each side of zero, from the tail inwards: together a half.
_STUDENT_CELLS = (0.001, 0.004, 0.015, 0.03, 0.05, 0.1, 0.15, 0.15)


class Law(NamedTuple):
    """A finite law of a number."""

    values: NDArray[np.float64]  # [K]
    probabilities: NDArray[np.float64]  # [K]

    @property
    def mean(self) -> float:
        return float(self.probabilities @ self.values)

    @property
    def variance(self) -> float:
        return float(self.probabilities @ (self.values - self.mean) ** 2)


def gauss_law(deviation: float) -> Law:
    """Of mean 0: the nodes of Gauss-Hermite quadrature, which have the first 13 moments of the
    normal law. Without deviation it is the one value 0."""
    deviation = _check_deviation(deviation)
    if deviation == 0.0:
        return Law(np.zeros(1), np.ones(1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(GAUSS_NODES)
    return Law(deviation * nodes, weights / weights.sum())


def student_law(deviation: float) -> Law:
    """Of mean 0: Student's law with 3 degrees of freedom, scaled to this standard deviation.

    The line is cut into 16 cells of fixed probability (0.1 % in each tail), and each stands for its
    conditional mean. That loses the variance within cells, so all values are then stretched by one
    factor that gives it back: mean and variance are exact, higher moments are not (the fourth of
    the law itself is infinite).
    """
    from scipy.special import stdtrit  # slow to import, and rarely asked for

    deviation = _check_deviation(deviation)
    if deviation == 0.0:
        return Law(np.zeros(1), np.ones(1))
    side = np.array(_STUDENT_CELLS)
    # cells from -infinity to 0; the indefinite integral of x f(x) is -(3 + x^2) f(x) / 2
    edges = stdtrit(STUDENT_FREEDOM, np.cumsum(side)[:-1])
    density = 2.0 / (math.pi * math.sqrt(3.0) * (1.0 + edges**2 / 3.0) ** 2)
    integral = np.concatenate([[0.0], -(3.0 + edges**2) * density / 2.0, [-math.sqrt(3) / math.pi]])
    means = np.diff(integral) / side
    values = np.concatenate([means, -means[::-1]])
    probabilities = np.concatenate([side, side[::-1]])
    spread = math.sqrt(float(probabilities @ values**2))
    return Law(values * (deviation / spread), probabilities)


def tail_law(loss: float, probability: float = 0.02, mean_preserving: bool = True) -> Law:
    """The paper's mp-tail: -loss with some probability p, and p loss / (1 - p) otherwise, which
    makes the mean 0. Without `mean_preserving` it is 0 otherwise."""
    loss = check_finite("scale", loss)
    if not 0.0 <= probability < 1.0:  # also refuses NaN
        raise ValueError(f"probability must be in [0, 1), got {probability!r}")
    gain = probability * loss / (1.0 - probability) if mean_preserving else 0.0
    return Law(np.array([-loss, gain]), np.array([probability, 1.0 - probability]))


def _check_deviation(deviation: float) -> float:
    if not 0.0 <= deviation < math.inf:
        raise ValueError(
            "the scale of noise is a standard deviation, non-negative and finite, got "
            f"{deviation!r}"
        )
    return float(deviation)

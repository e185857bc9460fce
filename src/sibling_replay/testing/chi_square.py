"""The one statistical test there is: counts against an exact law."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

# The chance that a correct sampler is rejected, per test. Seeds are fixed, so a test that passes
# once passes for ever; the level says how surprising its one fixed draw was allowed to be.
SIGNIFICANCE = 1e-4

# Cells expected less often than this are pooled: the chi-square approximation is poor below it.
LEAST_EXPECTED = 5.0


class LawRejected(AssertionError):
    """The counts do not come from the law.

    Examples:
        >>> check_counts([900, 100], [0.5, 0.5])
        Traceback (most recent call last):
            ...
        sibling_replay.testing.chi_square.LawRejected: ...
    """


class TooLittleData(AssertionError):
    """The counts could not have rejected anything.

    Examples:
        >>> check_counts([1, 1], [0.5, 0.5])
        Traceback (most recent call last):
            ...
        sibling_replay.testing.chi_square.TooLittleData: ...
    """


def check_counts(counts: ArrayLike, law: ArrayLike) -> float:
    """Raise unless `counts` could come from `law`, a distribution over the same cells.

    Returns the p-value. A cell without probability must never be counted. Data that cannot tell
    the law from another (nothing drawn, or all cells pooled into one) is an error, not a pass.

    Examples:
        >>> check_counts([498, 502], [0.5, 0.5]) > 0.5  # the p-value
        True
    """
    counts = np.asarray(counts).ravel()
    law = np.asarray(law, dtype=np.float64).ravel()
    assert counts.shape == law.shape, f"{counts.shape} counts for {law.shape} probabilities"
    assert counts.dtype.kind in "iu" and (counts >= 0).all(), "counts are whole numbers"
    assert (law >= 0).all() and abs(law.sum() - 1.0) < 1e-9, "a law sums to one"
    drawn = int(counts.sum())
    if drawn == 0:
        raise TooLittleData("nothing was drawn")
    impossible = np.flatnonzero((law == 0) & (counts > 0))
    if impossible.size:
        cell = int(impossible[0])
        raise LawRejected(f"cell {cell} was drawn {counts[cell]} times, but has probability 0")
    possible = law > 0
    if possible.sum() == 1:
        return 1.0  # the law leaves no choice, and nothing else was drawn
    observed, expected = _pooled(counts[possible], drawn * law[possible])
    if observed.size < 2:
        raise TooLittleData(f"{drawn} draws over {possible.sum()} cells leave nothing to compare")
    statistic = float(((observed - expected) ** 2 / expected).sum())
    p_value = float(stats.chi2.sf(statistic, observed.size - 1))
    if p_value < SIGNIFICANCE:
        worst = int(np.argmax(np.abs(counts - drawn * law) / np.sqrt(drawn * law + 1.0)))
        raise LawRejected(
            f"p = {p_value:.2g} < {SIGNIFICANCE} over {observed.size} cells; cell {worst} was "
            f"drawn {counts[worst]} times, expected {drawn * law[worst]:.1f}"
        )
    return p_value


def _pooled(observed: Any, expected: Any) -> tuple[Any, Any]:
    """Cells too rare for the approximation in one cell, which takes more until it is not."""
    order = np.argsort(expected, kind="stable")
    observed, expected = observed[order], expected[order]
    rare = int(np.searchsorted(expected, LEAST_EXPECTED))
    while 0 < rare < expected.size and expected[:rare].sum() < LEAST_EXPECTED:
        rare += 1
    if rare == 0:
        return observed, expected
    return (
        np.append(observed[:rare].sum(), observed[rare:]),
        np.append(expected[:rare].sum(), expected[rare:]),
    )


def check_draws(draws: ArrayLike, law: ArrayLike) -> float:
    """`check_counts` for drawn cells instead of their counts.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> check_draws(rng.integers(2, size=10_000), [0.5, 0.5]) > 0.01  # the p-value
        True
    """
    draws = np.asarray(draws).ravel()
    if draws.size and not (draws.min() >= 0 and draws.max() < np.size(law)):
        raise LawRejected(f"cell {draws.max()} was drawn, but there are {np.size(law)}")
    return check_counts(np.bincount(draws, minlength=np.size(law)), law)

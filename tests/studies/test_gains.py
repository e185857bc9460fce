"""Gains across environments: known answers, coverage, error rates by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay.artefacts import gains
from sibling_replay.artefacts.gains import (
    Gain,
    gain,
    holm,
    mean_ranks,
    performance_profile,
    units,
)


def scores(seed: int, above: float = 0.0, shape: tuple[int, int] = (20, 6)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) * np.arange(1, shape[1] + 1) + above


def test_a_gain_is_in_units_of_the_yardstick() -> None:
    base = scores(0)
    unit = base.std(axis=0, ddof=1)
    found = gain(base + 0.5 * unit, base, base, np.random.default_rng(0))
    assert found.value == found.low == found.high == pytest.approx(0.5)
    assert found.p == pytest.approx(1 / (gains.RESAMPLES + 1))
    back = gain(base, base + 0.5 * unit, base, np.random.default_rng(0))
    assert back.value == pytest.approx(-0.5) and back.p == pytest.approx(1.0)


def test_half_of_a_gain() -> None:
    base = scores(0)
    unit = base.std(axis=0, ddof=1)
    whole, some = base + 0.8 * unit, base + 0.5 * unit
    kept = gain(some, whole, base, np.random.default_rng(0), share=0.5, base=base)
    assert kept.value == pytest.approx(0.1)
    with pytest.raises(ValueError, match="give it"):
        gain(some, whole, base, np.random.default_rng(0), share=0.5)


def test_the_interval_covers_and_the_test_keeps_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 experiments without any difference: 95 % intervals cover zero, p < 0.05 in 5 %, within
    three standard errors and the little that 20 seeds cost a bootstrap."""
    monkeypatch.setattr(gains, "RESAMPLES", 400)
    covered = rejected = 0
    for seed in range(400):
        a, b = scores(2 * seed), scores(2 * seed + 1)
        found = gain(a, b, b, np.random.default_rng(seed))
        covered += found.low <= 0.0 <= found.high
        rejected += found.p < 0.05
    assert 0.90 <= covered / 400 <= 0.985
    assert 0.02 <= rejected / 400 <= 0.09


def test_holm() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_profiles_and_ranks() -> None:
    table = np.array([[0.0, 1.0], [0.5, 2.0]])
    assert performance_profile(table, [0.0, 0.75, 2.0]).tolist() == [0.75, 0.5, 0.0]
    ranks = mean_ranks(np.array([[1.0, 5.0], [2.0, 5.0], [0.0, 6.0]]))
    assert ranks.tolist() == [[2.0, 2.5], [1.0, 2.5], [3.0, 1.0]]


def test_units_are_deviations_but_not_those_of_luck() -> None:
    yardstick = np.array([[1.0, 1.98, -50.0], [3.0, 1.98, -50.1]])
    np.testing.assert_allclose(units(yardstick), [np.sqrt(2.0), 0.0198, 0.5005])
    with pytest.raises(ValueError, match="no unit"):
        gain(scores(0), scores(1), np.zeros((20, 6)), np.random.default_rng(0))


def test_without_one_environment() -> None:
    assert Gain(1.0, 0.0, 2.0, 0.01, (4.0, -0.5, -0.5)).least == -0.5
    assert Gain(1.0, 0.0, 2.0, 0.01, (1.0,)).least == 1.0

"""Minibatch diagnostics: the paper's identities, by hand and by expectation over the exact law."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import diagnostics
from sibling_replay.strategies.laws import prioritized_probabilities, sibling_probabilities


def test_ess_is_the_batch_for_equal_weights_and_ignores_scale() -> None:
    assert diagnostics.effective_sample_size(np.full(32, 0.3)) == pytest.approx(32.0)
    weights = np.random.default_rng(0).exponential(size=32)
    ess = diagnostics.effective_sample_size(weights)
    mean, std = weights.mean(), weights.std()
    assert ess == pytest.approx(32 * mean**2 / (mean**2 + std**2))  # as the appendix writes it
    assert diagnostics.effective_sample_size(weights * 1e-6) == pytest.approx(ess)
    assert diagnostics.effective_sample_size([1.0, 0.0, 0.0]) == 1.0


def test_the_ratio_estimates_concentration_under_per_and_averages_one_under_sample() -> None:
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 6, size=80)
    masses = rng.exponential(size=80) ** 3
    sizes, sums = np.bincount(groups), np.bincount(groups, weights=masses)
    ratio = diagnostics.selection_ratio(masses, sizes[groups], sums[groups])
    census = diagnostics.take_census(groups, np.zeros(80, int), masses, 0.4)
    concentration = diagnostics.by_mass(census, diagnostics.entry_concentration(census))
    per = prioritized_probabilities(masses)
    sample = sibling_probabilities(masses, groups)
    assert per @ ratio - 1.0 == pytest.approx(concentration)
    assert sample @ ratio == pytest.approx(1.0)
    assert sample @ (ratio - 1.0) ** 2 == pytest.approx(concentration)


def test_shift_terms_are_the_signed_sampled_shift() -> None:
    total, weight = diagnostics.shift_terms([1.0, 0.5], [10.0, 0.0], [4.0, 2.0])
    assert (total, weight) == (6.0 - 1.0, 1.5)


def test_action_l1() -> None:
    assert diagnostics.action_l1([5, 5], [1, 1]) == 0.0
    assert diagnostics.action_l1([3, 0], [0, 8]) == 2.0
    assert diagnostics.action_l1([3, 1], [1, 1]) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least one action"):
        diagnostics.action_l1([0, 0], [1, 1])

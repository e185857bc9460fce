"""The paper's numbers, exactly: values chosen so that every expected result is a short fraction."""

from __future__ import annotations

import numpy as np
import pytest
from study_jobs import fake_train

from sibling_replay.running import metrics
from sibling_replay.training.config import paper_config


def test_auc_starts_at_the_first_evaluation_and_divides_by_the_horizon():
    # trapezoids 2->4: 100 * 3 = 300, 4->0: 200 * 2 = 400; (300 + 400) / 1000, no time-zero point
    assert metrics.auc([100, 200, 400], [2, 4, 0], 1000) == 0.7


def test_auc_of_the_bandits_ceiling():
    step = np.arange(500, 50_001, 500)
    assert metrics.auc(step, np.full(step.size, 2.0), 50_000) == 1.98


def test_auc_is_indifferent_to_a_repeated_final_evaluation():
    assert metrics.auc([1, 5, 9], [1, 2, 3], 9) == metrics.auc([1, 5, 9, 9], [1, 2, 3, 3], 9)


def test_one_evaluation_has_no_area():
    """0 would look like a score."""
    assert np.isnan(metrics.auc([10], [5], 10))
    assert np.isnan(metrics.auc([10, 10], [5, 5], 10))
    assert metrics.auc([10, 20], [0, 0], 20) == 0.0


def test_late_window_is_open_below_and_holds_the_final_evaluation():
    step = [74_999, 75_000, 75_001, 90_000, 100_000]
    assert metrics.late(step, [100, 50, 1, 2, 6], 100_000) == 3.0
    assert metrics.late([1, 2], [4, 6], 2) == 5.0  # shorter than the window: everything
    assert metrics.final(step, [100, 50, 1, 2, 6]) == 6.0


def test_curve_must_be_a_curve():
    for step, value in (([], []), ([1, 2], [1]), ([2, 1], [0, 0])):
        with pytest.raises(ValueError):
            metrics.auc(step, value, 10)


def test_summary_is_made_of_these():
    result = fake_train(paper_config("TwoChains", "PER", 3))
    summary = metrics.scores_of(result)
    for name in ("return", "success"):
        curve = result.eval_step, getattr(result, f"eval_{name}")
        assert getattr(summary, f"auc_{name}") == metrics.auc(*curve, 100_000)
        assert getattr(summary, f"late_{name}") == metrics.late(*curve, 100_000)
        assert getattr(summary, f"final_{name}") == metrics.final(*curve)

"""One number a run from its checkpoints, by hand on small rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sibling_replay.artefacts import summaries
from sibling_replay.studies.rare_outcome import rare_outcome
from sibling_replay.training.config import paper_config
from sibling_replay.training.tabular.trainer import train_tabular

FRAME = pl.DataFrame(
    {
        "run": ["a", "b"],
        "steps": [100_000, 500_000],
        "diagnostic/step": [[50_000, 75_000, 75_001, 100_000], [1, 400_000, 400_001, 500_000]],
        "diagnostic/ess": [[1.0, 2.0, 3.0, 5.0], [0.0, 0.0, 7.0, 9.0]],
        "diagnostic/shift_sum": [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, -5.0]],
        "diagnostic/weight_sum": [[1.0, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]],
    }
)


def test_windows() -> None:
    assert summaries.whole_mean(FRAME, "ess") == [2.75, 4.0]
    assert summaries.late_mean(FRAME, "ess") == [4.0, 8.0]  # final 25k, final 100k, open below
    assert summaries.late_window(5_000_000) == 1_000_000


def test_the_sampled_shift_is_a_ratio_of_sums() -> None:
    assert summaries.sampled_shift(FRAME) == [2.0, -0.5]


def test_a_run_without_the_diagnostic_is_named_or_left_out() -> None:
    with pytest.raises(ValueError, match="a recorded no diagnostic 'td_std'"):
        summaries.whole_mean(FRAME, "td_std")
    assert summaries.measured(FRAME, "td_std").is_empty()
    assert summaries.measured(FRAME, "ess").height == 2


def test_bandits_rare_reward_is_found_in_a_real_run() -> None:
    config = paper_config(
        "OutlierBandit", "PER", 0, steps=3_000, diagnostics_every=1_000, beta_end=0.4
    )
    result = train_tabular(config)
    columns = {f"diagnostic/{name}": column for name, column in result.diagnostics.items()}
    rare = rare_outcome({"run": "x", "env": "OutlierBandit", **columns})
    assert rare.reward == 100.0 and rare.step.tolist() == [1_000, 2_000, 3_000]
    # 1 in 100 of some 1,500 risky tries; PER replays it far more often, IS takes some of it back
    assert ((rare.frequency > 0) & (rare.frequency < 0.03)).all()
    assert (rare.probability > 2 * rare.frequency).all()
    assert (rare.shift_after_is < rare.shift_before_is).all()
    # all of the buffer's distortion is this arm's: the safe arm has one outcome
    mass = [result.diagnostics[f"mass/g1/o{o}"] for o in range(4)]
    share = sum(mass) / (sum(mass) + result.diagnostics["mass/g0/o0"])
    np.testing.assert_allclose(
        share * rare.shift_before_is, result.diagnostics["shift_before_is"], rtol=1e-4
    )

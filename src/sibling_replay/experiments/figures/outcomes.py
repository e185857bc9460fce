"""Where outcome frequencies go under PER (figures 5 and 6 of the paper)."""

from __future__ import annotations

import math

import polars as pl

from sibling_replay.experiments import published
from sibling_replay.experiments.spec import GRID_ALPHAS, GRID_BETAS, GRID_ENVS
from sibling_replay.experiments.summaries import measured, rare_outcome, whole_mean
from sibling_replay.experiments.tables import SHIFT_CELL

from .panels import PAPER, Curve, Estimate, Figure, Level, LinePanel
from .seeds import STEPS, mean_curve, runs_of

BANDIT = "OutlierBandit"
TV, SHIFT = "outcome TV", "abs. shift after IS"


def outcome_grid(frame: pl.DataFrame) -> Figure | None:
    """Figure 5: PER's outcome TV above, its absolute target shift under unnormalised IS below."""
    per = measured(frame.filter(pl.col("method") == "PER"), "outcome_tv")
    printed = published.distortion()
    panels = []
    for name, label in (("outcome_tv", TV), ("shift_after_is", SHIFT)):
        for env in GRID_ENVS:
            found = (
                _over_beta(runs_of(per, env=env, alpha=alpha), name, f"alpha-{i + 1}", alpha)
                for i, alpha in enumerate(GRID_ALPHAS)
            )
            curves = [curve for curve in found if curve is not None]
            if curves and name == "shift_after_is":
                number = printed[env, "per_conditional_abs_after_is"]
                point = ((SHIFT_CELL[1],), (number.mean,), (number.se or math.nan,))
                curves.append(Curve(PAPER, "paper, α = 0.6", *point))
            zero = Level("identity", "SAMPLE: 0 by identity", 0.0)
            if curves:
                panels.append(LinePanel(env, "β", label, tuple(curves), (zero,), "bars"))
    return Figure(tuple(panels), 3) if panels else None


def _over_beta(runs: pl.DataFrame, name: str, style: str, alpha: float) -> Curve | None:
    points = []
    for beta in GRID_BETAS:
        seeds = whole_mean(runs_of(runs, beta_start=beta, beta_end=beta), name)
        if seeds:
            points.append((beta, Estimate.of(seeds)))
    if not points:
        return None
    return Curve(
        style,
        f"PER, α = {alpha:g}",
        tuple(beta for beta, _ in points),
        tuple(point.mean for _, point in points),
        tuple(math.nan if point.se is None else point.se for _, point in points),
    )


def bandit_distortion(frame: pl.DataFrame) -> Figure | None:
    """Figure 6: the rare reward's share in the buffer and in PER's replay; target shifts."""
    alpha, beta = SHIFT_CELL
    cell = runs_of(frame, env=BANDIT, method="PER", alpha=alpha, beta_start=beta, beta_end=beta)
    runs = [rare_outcome(row) for row in measured(cell, "outcome_tv").iter_rows(named=True)]
    if not runs:
        return None
    steps = runs[0].step.tolist()
    replayed = mean_curve("PER", "replayed by PER, q(100)", steps, [r.probability for r in runs])
    stored = mean_curve("stored", "stored, f(100)", steps, [r.frequency for r in runs])
    before = mean_curve("PER", "before IS", steps, [r.shift_before_is for r in runs])
    after = mean_curve("corrected", "after IS", steps, [r.shift_after_is for r in runs])
    zero = Level("identity", "uniform siblings: 0", 0.0)
    printed = published.distortion()
    papers = tuple(
        Level(PAPER, f"paper, mean {when} IS", printed[BANDIT, f"risky_shift_{when}_is"].mean)
        for when in ("before", "after")
    )
    whole = (0.0, float(cell["steps"][0]))
    panels = (
        LinePanel(
            "Rare reward of the risky arm", STEPS, "probability", (replayed, stored), x_range=whole
        ),
        LinePanel(
            "Target of the risky arm",
            STEPS,
            "shift",
            (before, after),
            (zero, *papers),
            x_range=whole,
        ),
    )
    return Figure(panels, 2)

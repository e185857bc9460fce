"""The 48 cells of the sweep as heat maps (figure 4 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sibling_replay.experiments import published
from sibling_replay.experiments.spec import GRID_ALPHAS, GRID_BETAS, GRID_ENVS
from sibling_replay.experiments.tables import compare_grid

from .panels import Estimate, Figure, HeatPanel

Cells = Mapping[tuple[float, float], Estimate]


def matched_grid(frame: pl.DataFrame) -> Figure | None:
    """Figure 4: SAMPLE minus PER in AUC return; ours in the first row, the paper's in the second.

    One shading scale an environment, for both rows, so that equal shades are equal differences.
    """
    compared = compare_grid(frame).filter(pl.col("metric") == "diff")
    ours: list[HeatPanel] = []
    paper: list[HeatPanel] = []
    for env in GRID_ENVS:
        mine = _ours(compared.filter(pl.col("env") == env))
        if not mine:
            continue
        printed = _printed(env)
        limit = max(abs(cell.mean) for cells in (mine, printed) for cell in cells.values())
        ours.append(_panel(f"{env}, ours", mine, limit))
        paper.append(_panel(f"{env}, paper", printed, limit))
    return Figure((*ours, *paper), max(1, len(ours))) if ours else None


def _ours(compared: pl.DataFrame) -> Cells:
    rows = compared.select("alpha", "beta", "mean", "se").rows()
    return {
        (alpha, beta): Estimate(mean, None if se != se else se) for alpha, beta, mean, se in rows
    }


def _printed(env: str) -> Cells:
    return {
        (alpha, beta): Estimate(number.mean, number.se)
        for (where, alpha, beta, metric), number in published.grid().items()
        if where == env and metric == "diff"
    }


def _panel(title: str, cells: Cells, limit: float) -> HeatPanel:
    """Alpha grows downwards and beta to the right, as in the paper's tables."""
    return HeatPanel(
        title=title,
        x_label="β",
        y_label="α",
        columns=tuple(f"{beta:g}" for beta in GRID_BETAS),
        rows=tuple(f"{alpha:g}" for alpha in GRID_ALPHAS),
        cells=tuple(tuple(cells.get((a, b)) for b in GRID_BETAS) for a in GRID_ALPHAS),
        limit=limit or 1.0,
    )

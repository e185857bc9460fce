"""Learning curves (figure 2 of the paper)."""

from __future__ import annotations

import polars as pl

from sibling_replay.experiments.spec import LAKES

from .comparison import main_methods
from .panels import Figure, LinePanel
from .seeds import STEPS, WINDOWS, evaluation_curve, runs_of


def lake_curves(frame: pl.DataFrame) -> Figure | None:
    """Figure 2: FrozenLake's evaluation return under both reward schedules."""
    panels = []
    for env in LAKES:
        found = (
            evaluation_curve(runs_of(frame, env=env, method=method), method)
            for method in main_methods(env)
        )
        curves = tuple(curve for curve in found if curve is not None)
        if curves:
            span = (0.0, float(runs_of(frame, env=env)["steps"][0]))
            panels.append(LinePanel(env, STEPS, "evaluation return", curves, x_range=span))
    note = f"Each seed's evaluations are averaged over {WINDOWS} equal parts of training."
    return Figure(tuple(panels), 2, note) if panels else None

"""MinAtar's learning curves and replay diagnostics (figures 3 and 9 of the paper).

Runs of each length have panels of their own; a panel of shorter runs than the paper's says so.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from sibling_replay.artefacts.panels import Curve, Figure, LinePanel, Mark, PointPanel
from sibling_replay.artefacts.seeds import STEPS, mean_curve, runs_of
from sibling_replay.artefacts.summaries import late_mean, late_window, measured
from sibling_replay.artefacts.words import LABELS, RANGES
from sibling_replay.envs import GAMES
from sibling_replay.running.store import DIAGNOSTIC
from sibling_replay.studies.minatar.coverage import PAPER_STEPS, described, horizons
from sibling_replay.training.minatar.config import CONDITIONS, MINATAR_METHODS
from sibling_replay.training.minatar.diagnostics import ACTION_GAP

DIAGNOSTICS = ("ess", "td_std", "action_l1")


def minatar_curves(frame: pl.DataFrame) -> Figure | None:
    """Figure 3: evaluation return, a panel a game and condition that was run."""
    panels = []
    for steps in horizons(frame):
        for game in GAMES:
            for condition in CONDITIONS:
                runs = runs_of(frame, env=game, condition=condition, steps=steps)
                found = (_curve(runs_of(runs, method=m), m) for m in MINATAR_METHODS)
                curves = tuple(curve for curve in found if curve is not None)
                if curves:
                    title = _title(f"{game}, {condition}", steps)
                    whole = (0.0, float(steps))
                    panels.append(
                        LinePanel(title, STEPS, "evaluation return", curves, x_range=whole)
                    )
    note = _note(frame)
    return Figure(tuple(panels), 2, note) if panels else None


def minatar_diagnostics(frame: pl.DataFrame) -> Figure | None:
    """Figure 9: replay statistics of the late window under mp-tail, a row a game."""
    tail = measured(frame.filter(pl.col("condition") == "mp-tail"), DIAGNOSTICS[0])
    panels = []
    for steps in horizons(tail):
        for game in GAMES:
            runs = runs_of(tail, env=game, steps=steps)
            for name in DIAGNOSTICS:
                found = (_mark(runs_of(runs, method=m), m, name) for m in MINATAR_METHODS)
                marks = tuple(mark for mark in found if mark is not None)
                if marks:
                    title = _title(game, steps)
                    panels.append(PointPanel(title, LABELS[name], marks, y_range=RANGES.get(name)))
    windows = ", ".join(f"{min(steps, late_window(steps)):,}" for steps in horizons(tail))
    note = f"Late window: the final {windows} steps. {_note(tail)}"
    return Figure(tuple(panels), len(DIAGNOSTICS), note) if panels else None


def _curve(runs: pl.DataFrame, method: str) -> Curve | None:
    """At the steps of the evaluations themselves: all seeds are evaluated at the same ones."""
    if runs.is_empty():
        return None
    curves = [
        dict(zip(*pair, strict=True)) for pair in runs.select("eval_step", "eval_return").rows()
    ]
    steps = sorted({step for curve in curves for step in curve})
    values = [np.array([curve.get(step, math.nan) for step in steps]) for curve in curves]
    return mean_curve(method, method, steps, values)


def _mark(runs: pl.DataFrame, method: str, name: str) -> Mark | None:
    late = late_action_l1(runs) if name == "action_l1" else late_mean(runs, name)
    seeds = tuple(value for value in late if not math.isnan(value))
    return Mark(method, seeds) if seeds else None


def late_action_l1(runs: pl.DataFrame) -> list[float]:
    """The distance between late-window averages of cumulative behaviour and replay frequencies, a
    run each. Older rows do not have these averages: theirs is the mean of the windows' distances,
    which is larger where a difference changes its sign."""
    gaps = [name for name in runs.columns if name.startswith(DIAGNOSTIC + ACTION_GAP)]
    found = []
    for run in runs.iter_slices(1):
        if gaps and run[gaps[0]][0] is not None:
            means = [late_mean(run, name.removeprefix(DIAGNOSTIC))[0] for name in gaps]
            found.append(float(np.abs(means).sum()))
        else:
            found += late_mean(run, "action_l1")
    return found


def _title(what: str, steps: int) -> str:
    return what if steps == PAPER_STEPS else f"{what}, {steps:,} steps"


def _note(frame: pl.DataFrame) -> str:
    """How long our runs are, beside the paper's."""
    said = "; ".join(described(steps) for steps in horizons(frame))
    return f"{said[:1].upper()}{said[1:]}."

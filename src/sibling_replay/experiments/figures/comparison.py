"""Figures of the main comparison: one point a method (figures 1, 7, 8 and 10 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sibling_replay.experiments import published
from sibling_replay.experiments.spec import EXACT_METHODS, LAKES
from sibling_replay.experiments.summaries import late_mean, measured
from sibling_replay.experiments.tables import column_of

from .panels import Estimate, Figure, Mark, PointPanel
from .seeds import runs_of

MAIN_ENVS = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300")
LABELS = {
    "auc_return": "AUC return",
    "late_return": "late return",
    "late_success": "late success",
    "final_success": "final success",
    "ess": "IS-weight ESS",
    "td_std": "TD-error std",
    "ratio_mean": "mean ratio R",
    "action_l1": "action L1",
}

# of quantities with bounds; ESS is at most the batch size, 32
RANGES = {"late_success": (0.0, 1.05), "final_success": (0.0, 1.05), "ess": (0.0, 34.0)}


def main_methods(env: str) -> tuple[str, ...]:
    """The methods of the main comparison; AVG-g4 belongs to the reward-schedule figure alone."""
    return tuple(method for method in EXACT_METHODS[env] if method != "AVG-g4")


def exact_results(frame: pl.DataFrame) -> Figure | None:
    """Figure 1: AUC return above, final (FrozenLake: late) success below."""
    panels = [
        _scores(frame, env, metric, main_methods(env))
        for metric in ("auc_return", "late_or_final_success")
        for env in MAIN_ENVS
    ]
    return _figure(panels, columns=3)


def lake_late(frame: pl.DataFrame) -> Figure | None:
    """Figure 7: FrozenLake's late window, performance and replay statistics."""
    env = LAKES[0]
    methods = main_methods(env)
    panels = [_scores(frame, env, f"late_or_final_{what}", methods) for what in _PERFORMANCE]
    panels += [_diagnostics(frame, env, name, methods) for name in ("ess", "td_std")]
    return _figure(panels, columns=2)


def exact_diagnostics(frame: pl.DataFrame) -> Figure | None:
    """Figure 8: replay statistics of the late window in the three environments."""
    panels = [
        _diagnostics(frame, env, name, main_methods(env), log=name == "ratio_mean")
        for name in ("ess", "td_std", "ratio_mean")
        for env in MAIN_ENVS
    ]
    return _figure(panels, columns=3)


def lake_auc(frame: pl.DataFrame) -> Figure | None:
    """Figure 10: both reward schedules, with both averaging subsets."""
    panels = [_scores(frame, env, "auc_return", EXACT_METHODS[env]) for env in LAKES]
    return _figure(panels, columns=2)


_PERFORMANCE = ("return", "success")


def _scores(frame: pl.DataFrame, env: str, metric: str, methods: Sequence[str]) -> PointPanel:
    """A summary column per method; `metric` in the paper's words."""
    numbers = published.exact()
    name = column_of(env, metric)
    marks = []
    for method in methods:
        runs = runs_of(frame, env=env, method=method)
        printed = numbers.get((env, method, metric))
        paper = Estimate(printed.mean, printed.se) if printed else None
        if runs.height:
            marks.append(Mark(method, tuple(runs[name].to_list()), paper))
    return PointPanel(env, LABELS[name], tuple(marks), y_range=RANGES.get(name))


def _diagnostics(
    frame: pl.DataFrame, env: str, name: str, methods: Sequence[str], log: bool = False
) -> PointPanel:
    marks = []
    for method in methods:
        seeds = late_mean(measured(runs_of(frame, env=env, method=method), name), name)
        if seeds:
            marks.append(Mark(method, tuple(seeds)))
    return PointPanel(env, LABELS[name], tuple(marks), log, RANGES.get(name))


def _figure(panels: Sequence[PointPanel], columns: int) -> Figure | None:
    drawn = tuple(panel for panel in panels if panel.marks)
    return Figure(drawn, columns) if drawn else None

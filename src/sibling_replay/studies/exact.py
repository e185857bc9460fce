"""The main comparison (table "Tabular-environment metrics"): five methods with annealed beta on
exact state-action groups, 220 runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl
from rich.table import Table as TerminalTable

from sibling_replay.artefacts.comparison import COMPARED, beside_paper
from sibling_replay.artefacts.entries import FigureEntry, Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, comparison, count
from sibling_replay.artefacts.on_terminal import comparison_table
from sibling_replay.artefacts.panels import Estimate, Figure, LinePanel, Mark, PointPanel
from sibling_replay.artefacts.seeds import STEPS, WINDOWS, evaluation_curve, runs_of
from sibling_replay.artefacts.summaries import late_mean, measured
from sibling_replay.artefacts.words import LABELS, RANGES, WORDS
from sibling_replay.running.runs import Run, select
from sibling_replay.studies.paper import numbers as published
from sibling_replay.studies.study import Choice, chosen_run
from sibling_replay.studies.tabular import DIAGNOSTICS_EVERY, LAKES, RunNeeds, TabularStudy
from sibling_replay.training.config import paper_config

NAME = "exact"
TOY_METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG")
LAKE_METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG-g2", "AVG-g4")

METHODS: dict[str, tuple[str, ...]] = {
    "OutlierBandit": TOY_METHODS,
    "TwoChains": TOY_METHODS,
    "FrozenLake-H100/H300": LAKE_METHODS,
    "FrozenLake-H50": LAKE_METHODS,
}
# "seeds 0-9 in Bandit and TwoChains and 1-10 in FrozenLake" (appendix on the sweep's settings)
SEEDS: dict[str, range] = {env: range(1, 11) if env in LAKES else range(10) for env in METHODS}
MAIN_ENVS = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300")

# paper's metric -> our column; the last two are late-window numbers on FrozenLake, else final ones
METRICS = ("auc_return", "auc_success", "late_or_final_return", "late_or_final_success")


def runs(choice: Choice) -> tuple[Run, ...]:
    """With the paper's seeds and settings, or with those chosen."""
    usual_methods = tuple(dict.fromkeys(m for methods in METHODS.values() for m in methods))
    others = choice.methods_of(usual_methods)[len(usual_methods) :]
    found = []
    for env, methods in METHODS.items():
        for method in (*methods, *others):
            for seed in choice.seeds or SEEDS[env]:
                usual = paper_config(env, method, seed, diagnostics_every=DIAGNOSTICS_EVERY[env])
                found.append(chosen_run(NAME, usual, choice))
    return select(found, choice.envs, choice.methods)


def main_methods(env: str) -> tuple[str, ...]:
    """The methods of the main comparison; AVG-g4 belongs to the reward-schedule figure alone."""
    return tuple(method for method in METHODS[env] if method != "AVG-g4")


# ------------------------------------------------------------------------------- numbers


def column_of(env: str, metric: str) -> str:
    """Which of our summary columns the paper's `late_or_final_*` means in this environment."""
    return metric.replace("late_or_final", "late" if env in LAKES else "final")


def compare(frame: pl.DataFrame) -> pl.DataFrame:
    """The paper's table of tabular metrics; `frame` holds runs of study `exact`."""
    numbers = published.exact()
    rows = []
    for env, methods in METHODS.items():
        for method in methods:
            runs = frame.filter((pl.col("env") == env) & (pl.col("method") == method))
            for metric in METRICS if runs.height else ():
                column = column_of(env, metric)
                ours = beside_paper(runs[column].to_list(), numbers.get((env, method, metric)))
                rows.append({"env": env, "method": method, "metric": column, **ours})
    keys = {"env": pl.String, "method": pl.String, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **COMPARED})


def _main_table(frames: Frames) -> tuple[Table, Count]:
    found = compare(frames[NAME])
    printed = sum(number.se is not None for number in published.exact().values())
    shape = Shape(rows=("method",), block="env", words=WORDS)
    return comparison(found, shape), count(found, printed)


# ------------------------------------------------------------------------------- figures


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
    panels = [_scores(frame, env, "auc_return", METHODS[env]) for env in LAKES]
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


# -------------------------------------------------------------------------------- report

needs = partial(RunNeeds, NAME)
LAKE_MAIN = main_methods(LAKES[0])
MAIN = tuple(dict.fromkeys(method for env in MAIN_ENVS for method in main_methods(env)))

COMPARISON = Section(
    "comparison",
    "Main comparison",
    "Five methods at α = 0.6 with β annealed from 0.4 to 1, exact state-action groups.",
    (
        FigureEntry(
            "exact-results",
            "Figure 1",
            "Exact-group results",
            "AUC return above; success of the final evaluation (FrozenLake: mean of the final "
            "25k steps) below. TwoChains succeeds at the goal by either branch.",
            needs(MAIN_ENVS, MAIN),
            exact_results,
        ),
        TableEntry(
            "tabular-metrics",
            "Table 1",
            "Tabular-environment metrics",
            "Final evaluation in OutlierBandit and TwoChains, final 25k steps in FrozenLake. "
            "Of FrozenLake-H50 and AVG-g4 the paper prints a few AUC means, without errors.",
            needs(),
            _main_table,
        ),
        FigureEntry(
            "frozenlake-curves",
            "Figure 2",
            "FrozenLake learning curves",
            "Evaluation return under both reward schedules; bands are ± one standard error.",
            needs(LAKES, LAKE_MAIN),
            lake_curves,
        ),
        FigureEntry(
            "frozenlake-auc",
            "Figure 10",
            "Two reward schedules and two averaging subsets",
            "AUC return in FrozenLake, with AVG-g2 and AVG-g4.",
            needs(LAKES),
            lake_auc,
        ),
        FigureEntry(
            "frozenlake-late",
            "Figure 7",
            "FrozenLake's late window",
            "Return and success over the final 25k steps; effective sample size of the "
            "importance weights and spread of sampled TD errors over the final 100k.",
            needs(LAKES[:1], LAKE_MAIN, diagnostics=True),
            lake_late,
        ),
        FigureEntry(
            "exact-diagnostics",
            "Figure 8",
            "Replay statistics of the late window",
            "Over the final 25k steps (FrozenLake: 100k): effective sample size of a batch of "
            "32, standard deviation of sampled TD errors, and the mean of R, an entry's "
            "probability under PER over a uniform sibling's. A mean of R above one is "
            "concentration inside groups. For SAMPLE it says what PER would do on the same "
            "buffer; for AVG and MODEL it is of anchors.",
            needs(MAIN_ENVS, MAIN, diagnostics=True),
            exact_diagnostics,
        ),
    ),
)


class ExactStudy(TabularStudy):
    """The main comparison."""

    name = NAME
    about = "the main comparison, 220 runs"
    sections = (COMPARISON,)

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return runs(choice)

    def tables(self, frame: pl.DataFrame) -> Iterator[TerminalTable | str]:
        found = self.compared(frame)
        keys = ("env", "method", "metric")
        if found.height:
            yield comparison_table(compare(found), keys, "Main comparison (annealed beta)")
        yield from self.others(frame, found)


STUDIES = (ExactStudy(),)

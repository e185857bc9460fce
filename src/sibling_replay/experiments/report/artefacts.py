"""The paper's artefacts in the order of the report: what each is made of, and by whom.

To add one, write its builder (a `Figure` from a frame, or a comparison frame) and add an entry
here; page, files, counts and the account of what is missing follow from the entry.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from sibling_replay.experiments import figures, published, tables
from sibling_replay.experiments.figures.comparison import MAIN_ENVS, main_methods
from sibling_replay.experiments.spec import LAKES

from .entries import FigureEntry, Section, TableEntry
from .inputs import Frames, Needs
from .layout import Count, Shape, Table, comparison, count, intervals
from .minatar_artefacts import LATENT

WORDS = {
    "env": "environment",
    "method": "method",
    "alpha": "α",
    "beta": "β",
    "metric": "quantity",
    "auc_return": "AUC return",
    "auc_success": "AUC success",
    "late_return": "late / final return",
    "final_return": "late / final return",
    "late_success": "late / final success",
    "final_success": "late / final success",
    "per_auc": "PER",
    "sample_auc": "SAMPLE",
    "diff": "SAMPLE − PER [simultaneous 95 %]",
    "per_conditional_abs_before_is": "PER, absolute, before IS",
    "per_conditional_abs_after_is": "PER, absolute, after IS",
    "sampled_signed_per": "sampled, signed, PER",
    "sampled_signed_sample": "sampled, signed, SAMPLE",
    "risky_outcome_tv": "outcome TV",
    "risky_shift_before_is": "target shift before IS",
    "risky_shift_after_is": "target shift after IS",
}


def _main_table(frames: Frames) -> tuple[Table, Count]:
    compared = tables.compare_exact(frames["exact"])
    printed = sum(number.se is not None for number in published.exact().values())
    shape = Shape(rows=("method",), block="env", words=WORDS)
    return comparison(compared, shape), count(compared, printed)


def _grid_table(env: str) -> Callable[[Frames], tuple[Table, Count]]:
    def build(frames: Frames) -> tuple[Table, Count]:
        compared = tables.compare_grid(frames["grid"]).filter(pl.col("env") == env)
        printed = sum(where == env for where, *_ in published.grid())
        shape = Shape(rows=("beta",), block="alpha", words=WORDS)
        return comparison(compared, shape), count(compared, printed)

    return build


def _distortion_table(risky: bool) -> Callable[[Frames], tuple[Table, Count]]:
    """The table of target shifts, or the text's numbers on Bandit's risky arm."""

    def build(frames: Frames) -> tuple[Table, Count]:
        of_risky = pl.col("metric").str.starts_with("risky")
        compared = tables.compare_distortion(frames["grid"]).filter(of_risky == risky)
        printed = sum(metric.startswith("risky") == risky for _, metric in published.distortion())
        return comparison(compared, Shape(rows=("env",), words=WORDS)), count(compared, printed)

    return build


def _improvement_table(frames: Frames) -> tuple[Table, Count]:
    whole = pl.when(pl.col("study") == "grid").then(pl.lit(", the whole sweep, cells as tasks"))
    where = pl.concat_str("env", whole.otherwise(pl.lit(""))).alias("where")
    frame = tables.improvements(frames["exact"], frames["grid"]).with_columns(where)
    columns = {"iqm": "IQM of AUC return", "beats_per": "P(beats PER)"}
    shape = Shape(rows=("method", "runs"), block="where", words=WORDS)
    return intervals(frame, shape, columns), Count()


def _sweep_table_entry(number: str, env: str) -> TableEntry:
    return TableEntry(
        name=f"sweep-{env.split('-')[0].lower()}",
        number=number,
        title=f"Fixed α and β in {env}",
        caption="AUC return at each cell, and the paired difference with its simultaneous 95 % "
        "interval over all 48 comparisons. The paper prints intervals of differences, not their "
        "errors; the error beside its difference is the half-width over the same critical value.",
        needs=Needs("grid", (env,)),
        build=_grid_table(env),
    )


LAKE_MAIN = main_methods(LAKES[0])
MAIN = tuple(dict.fromkeys(method for env in MAIN_ENVS for method in main_methods(env)))
BANDIT = "OutlierBandit"

SECTIONS = (
    Section(
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
                Needs("exact", MAIN_ENVS, MAIN),
                figures.exact_results,
            ),
            TableEntry(
                "tabular-metrics",
                "Table 1",
                "Tabular-environment metrics",
                "Final evaluation in OutlierBandit and TwoChains, final 25k steps in FrozenLake. "
                "Of FrozenLake-H50 and AVG-g4 the paper prints a few AUC means, without errors.",
                Needs("exact"),
                _main_table,
            ),
            FigureEntry(
                "frozenlake-curves",
                "Figure 2",
                "FrozenLake learning curves",
                "Evaluation return under both reward schedules; bands are ± one standard error.",
                Needs("exact", LAKES, LAKE_MAIN),
                figures.lake_curves,
            ),
            FigureEntry(
                "frozenlake-auc",
                "Figure 10",
                "Two reward schedules and two averaging subsets",
                "AUC return in FrozenLake, with AVG-g2 and AVG-g4.",
                Needs("exact", LAKES),
                figures.lake_auc,
            ),
            FigureEntry(
                "frozenlake-late",
                "Figure 7",
                "FrozenLake's late window",
                "Return and success over the final 25k steps; effective sample size of the "
                "importance weights and spread of sampled TD errors over the final 100k.",
                Needs("exact", LAKES[:1], LAKE_MAIN, diagnostics=True),
                figures.lake_late,
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
                Needs("exact", MAIN_ENVS, MAIN, diagnostics=True),
                figures.exact_diagnostics,
            ),
        ),
    ),
    Section(
        "sweep",
        "The sweep of α and β",
        "PER and SAMPLE at 16 fixed settings in three environments, ten paired seeds each.",
        (
            FigureEntry(
                "matched-grid",
                "Figure 4",
                "SAMPLE minus PER in AUC return",
                "Mean ± standard error of paired differences; blue favours SAMPLE, orange PER. One "
                "shading scale an environment, shared by our map and the paper's.",
                Needs("grid"),
                figures.matched_grid,
            ),
            *(_sweep_table_entry(f"Table {6 + place}", env) for place, env in enumerate(MAIN_ENVS)),
        ),
    ),
    Section(
        "mechanism",
        "The mechanism",
        "How far prioritized replay bends outcome frequencies and Bellman targets inside a group.",
        (
            FigureEntry(
                "outcome-grid",
                "Figure 5",
                "Outcome distortion across the sweep",
                "PER, averaged over groups by sampling mass and over checkpoints. Above: total "
                "variation between replayed and stored outcomes. Below: absolute shift of the "
                "target under unnormalised importance weights. SAMPLE's are zero by identity.",
                Needs("grid", methods=("PER",), diagnostics=True),
                figures.outcome_grid,
            ),
            FigureEntry(
                "bandit-distortion",
                "Figure 6",
                "The rare reward in OutlierBandit",
                "PER at α = 0.6, β = 0.4. Left: how often the risky arm's reward of 100 is stored "
                "and how often PER replays it. Right: the shift of the arm's mean target in reward "
                "units, before and after unnormalised importance weights.",
                Needs("grid", (BANDIT,), ("PER",), tables.SHIFT_CELL, diagnostics=True),
                figures.bandit_distortion,
            ),
            TableEntry(
                "target-shifts",
                "Table 9",
                "Target shifts at α = 0.6, β = 0.4",
                "Conditional shifts are absolute, of the full buffer, weighted over groups by "
                "mass; sampled shifts are signed, of minibatches, under the weights actually used.",
                Needs("grid", cell=tables.SHIFT_CELL, diagnostics=True),
                _distortion_table(risky=False),
            ),
            TableEntry(
                "risky-arm",
                "Text, appendix C.3",
                "OutlierBandit's risky arm",
                "Means over 50 checkpoints of PER at α = 0.6, β = 0.4.",
                Needs("grid", (BANDIT,), ("PER",), tables.SHIFT_CELL, diagnostics=True),
                _distortion_table(risky=True),
            ),
        ),
    ),
    LATENT,
    Section(
        "beyond",
        "Beyond the paper",
        "The field's robust statistics on the same runs.",
        (
            TableEntry(
                "improvement",
                "Not in the paper",
                "Interquartile mean and probability of improvement",
                "Estimates with 95 % stratified bootstrap intervals. P(beats PER) is the chance "
                "that a run has a higher AUC return than a run of PER.",
                Needs("exact"),
                _improvement_table,
            ),
        ),
    ),
)

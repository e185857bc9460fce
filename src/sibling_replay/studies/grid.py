"""The sweep: PER against SAMPLE at 16 fixed (alpha, beta) cells in three environments, 960 runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import polars as pl
from rich.table import Table as TerminalTable

from sibling_replay.artefacts.comparison import COMPARED, beside_paper
from sibling_replay.artefacts.entries import FigureEntry, Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, comparison, count
from sibling_replay.artefacts.on_terminal import comparison_table
from sibling_replay.artefacts.panels import (
    PAPER,
    Curve,
    Estimate,
    Figure,
    HeatPanel,
    Level,
    LinePanel,
)
from sibling_replay.artefacts.seeds import STEPS, mean_curve, runs_of
from sibling_replay.artefacts.statistics import paired_interval
from sibling_replay.artefacts.summaries import measured, sampled_shift, whole_mean
from sibling_replay.artefacts.words import WORDS
from sibling_replay.running.runs import Run, select
from sibling_replay.studies.paper import numbers as published
from sibling_replay.studies.paper.numbers import COMPARISONS
from sibling_replay.studies.rare_outcome import rare_outcome
from sibling_replay.studies.study import Choice, chosen_run
from sibling_replay.studies.tabular import DIAGNOSTICS_EVERY, RunNeeds, TabularStudy
from sibling_replay.training.config import paper_config

NAME = "grid"
ENVS = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300")
METHODS = ("PER", "SAMPLE")
ALPHAS = (0.1, 0.3, 0.6, 1.0)
BETAS = (0.0, 0.4, 0.7, 1.0)
SEEDS = range(10)
SHIFT_CELL = (0.6, 0.4)  # (alpha, beta) of the table of target shifts
BANDIT = "OutlierBandit"
TV, SHIFT = "outcome TV", "abs. shift after IS"

Cells = Mapping[tuple[float, float], Estimate]


def runs(choice: Choice) -> tuple[Run, ...]:
    """With the paper's seeds and settings, or with those chosen."""
    found = []
    for env in ENVS:
        for method in choice.methods_of(METHODS):
            for alpha in ALPHAS:
                for beta in BETAS:
                    for seed in choice.seeds or SEEDS:
                        usual = paper_config(
                            env,
                            method,
                            seed,
                            alpha=alpha,
                            beta_start=beta,
                            beta_end=beta,
                            diagnostics_every=DIAGNOSTICS_EVERY[env],
                        )
                        cell = (f"alpha={alpha:g}", f"beta={beta:g}")
                        found.append(chosen_run(NAME, usual, choice, *cell))
    return select(found, choice.envs, choice.methods)


# ------------------------------------------------------------------------------- numbers


def cells(frame: pl.DataFrame) -> Iterator[tuple[str, float, float, pl.DataFrame]]:
    """The runs of every cell of the sweep."""
    for env in ENVS:
        for alpha in ALPHAS:
            for beta in BETAS:
                cell = frame.filter(
                    (pl.col("env") == env)
                    & (pl.col("alpha") == alpha)
                    & (pl.col("beta_start") == beta)
                    & (pl.col("beta_end") == beta)
                )
                yield env, alpha, beta, cell


def compare(frame: pl.DataFrame) -> pl.DataFrame:
    """The three sweep tables; `frame` holds runs of study `grid`.

    Differences are SAMPLE minus PER on the seeds both have, with our 95 % simultaneous interval
    over the paper's 48 comparisons in `low` and `high`, which one pair does not have (null).
    """
    numbers = published.grid()
    rows = []
    for env, alpha, beta, cell in cells(frame):
        scores = {
            method: dict(cell.filter(method=method).select("seed", "auc_return").rows())
            for method in ("PER", "SAMPLE")
        }
        shared = sorted(scores["PER"].keys() & scores["SAMPLE"].keys())
        values = {
            "per_auc": list(scores["PER"].values()),
            "sample_auc": list(scores["SAMPLE"].values()),
            "diff": [scores["SAMPLE"][seed] - scores["PER"][seed] for seed in shared],
        }
        for column, ours in values.items():
            if not ours:
                continue
            interval = paired_interval(ours, COMPARISONS) if column == "diff" else None
            known = interval is not None and not math.isnan(interval.low)
            low, high = interval[1:] if interval and known else (None, None)
            key = {"env": env, "alpha": alpha, "beta": beta, "metric": column}
            compared = beside_paper(ours, numbers.get((env, alpha, beta, column)))
            rows.append({**key, **compared, "low": low, "high": high})
    keys = {"env": pl.String, "alpha": pl.Float64, "beta": pl.Float64, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **COMPARED, "low": pl.Float64, "high": pl.Float64})


def compare_distortion(frame: pl.DataFrame) -> pl.DataFrame:
    """The table of target shifts and the text's numbers on Bandit's risky arm; `frame` holds runs
    of study `grid`. All of them are at alpha = 0.6, beta = 0.4."""
    numbers = published.distortion()
    rows = []
    for env, alpha, beta, cell in cells(measured(frame, "outcome_tv")):
        if (alpha, beta) != SHIFT_CELL:
            continue
        per, sample = cell.filter(method="PER"), cell.filter(method="SAMPLE")
        values = {
            "per_conditional_abs_before_is": whole_mean(per, "shift_before_is"),
            "per_conditional_abs_after_is": whole_mean(per, "shift_after_is"),
            "sampled_signed_per": sampled_shift(per),
            "sampled_signed_sample": sampled_shift(sample),
        }
        if env == "OutlierBandit":
            rare = [rare_outcome(row) for row in per.iter_rows(named=True)]
            values |= {
                "risky_outcome_tv": [
                    float(abs(run.probability - run.frequency).mean()) for run in rare
                ],
                "risky_shift_before_is": [float(run.shift_before_is.mean()) for run in rare],
                "risky_shift_after_is": [float(run.shift_after_is.mean()) for run in rare],
            }
        for metric, ours in values.items():
            if ours:
                compared = beside_paper(ours, numbers.get((env, metric)))
                rows.append({"env": env, "metric": metric, **compared})
    return pl.DataFrame(rows, schema={"env": pl.String, "metric": pl.String, **COMPARED})


def _grid_table(env: str) -> Callable[[Frames], tuple[Table, Count]]:
    def build(frames: Frames) -> tuple[Table, Count]:
        compared = compare(frames[NAME]).filter(pl.col("env") == env)
        printed = sum(where == env for where, *_ in published.grid())
        shape = Shape(rows=("beta",), block="alpha", words=WORDS)
        return comparison(compared, shape), count(compared, printed)

    return build


def _distortion_table(risky: bool) -> Callable[[Frames], tuple[Table, Count]]:
    """The table of target shifts, or the text's numbers on Bandit's risky arm."""

    def build(frames: Frames) -> tuple[Table, Count]:
        of_risky = pl.col("metric").str.starts_with("risky")
        compared = compare_distortion(frames[NAME]).filter(of_risky == risky)
        printed = sum(metric.startswith("risky") == risky for _, metric in published.distortion())
        return comparison(compared, Shape(rows=("env",), words=WORDS)), count(compared, printed)

    return build


# ------------------------------------------------------------------------------- figures


def matched_grid(frame: pl.DataFrame) -> Figure | None:
    """Figure 4: SAMPLE minus PER in AUC return; ours in the first row, the paper's in the second.

    One shading scale an environment, for both rows, so that equal shades are equal differences.
    """
    compared = compare(frame).filter(pl.col("metric") == "diff")
    ours: list[HeatPanel] = []
    paper: list[HeatPanel] = []
    for env in ENVS:
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
        columns=tuple(f"{beta:g}" for beta in BETAS),
        rows=tuple(f"{alpha:g}" for alpha in ALPHAS),
        cells=tuple(tuple(cells.get((a, b)) for b in BETAS) for a in ALPHAS),
        limit=limit or 1.0,
        what="SAMPLE − PER",
    )


def outcome_grid(frame: pl.DataFrame) -> Figure | None:
    """Figure 5: PER's outcome TV above, its absolute target shift under unnormalised IS below."""
    per = measured(frame.filter(pl.col("method") == "PER"), "outcome_tv")
    printed = published.distortion()
    panels = []
    for name, label in (("outcome_tv", TV), ("shift_after_is", SHIFT)):
        for env in ENVS:
            found = (
                _over_beta(runs_of(per, env=env, alpha=alpha), name, f"alpha-{i + 1}", alpha)
                for i, alpha in enumerate(ALPHAS)
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
    for beta in BETAS:
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


# -------------------------------------------------------------------------------- report

needs = partial(RunNeeds, NAME)


def _sweep_table_entry(number: str, env: str) -> TableEntry:
    return TableEntry(
        name=f"sweep-{env.split('-')[0].lower()}",
        number=number,
        title=f"Fixed α and β in {env}",
        caption="AUC return at each cell, and the paired difference with its simultaneous 95 % "
        "interval over all 48 comparisons. The paper prints intervals of differences, not their "
        "errors; the error beside its difference is the half-width over the same critical value.",
        needs=needs((env,)),
        build=_grid_table(env),
    )


SWEEP = Section(
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
            needs(),
            matched_grid,
        ),
        *(_sweep_table_entry(f"Table {6 + place}", env) for place, env in enumerate(ENVS)),
    ),
)

MECHANISM = Section(
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
            needs(methods=("PER",), diagnostics=True),
            outcome_grid,
        ),
        FigureEntry(
            "bandit-distortion",
            "Figure 6",
            "The rare reward in OutlierBandit",
            "PER at α = 0.6, β = 0.4. Left: how often the risky arm's reward of 100 is stored "
            "and how often PER replays it. Right: the shift of the arm's mean target in reward "
            "units, before and after unnormalised importance weights.",
            needs((BANDIT,), ("PER",), SHIFT_CELL, diagnostics=True),
            bandit_distortion,
        ),
        TableEntry(
            "target-shifts",
            "Table 9",
            "Target shifts at α = 0.6, β = 0.4",
            "Conditional shifts are absolute, of the full buffer, weighted over groups by "
            "mass; sampled shifts are signed, of minibatches, under the weights actually used.",
            needs(cell=SHIFT_CELL, diagnostics=True),
            _distortion_table(risky=False),
        ),
        TableEntry(
            "risky-arm",
            "Text, appendix C.3",
            "OutlierBandit's risky arm",
            "Means over 50 checkpoints of PER at α = 0.6, β = 0.4.",
            needs((BANDIT,), ("PER",), SHIFT_CELL, diagnostics=True),
            _distortion_table(risky=True),
        ),
    ),
)


class GridStudy(TabularStudy):
    """The sweep of alpha and beta."""

    name = NAME
    about = "the fixed alpha/beta sweep, 960 runs"
    sections = (SWEEP, MECHANISM)

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return runs(choice)

    def tables(self, frame: pl.DataFrame) -> Iterator[TerminalTable | str]:
        found = self.compared(frame)
        keys = ("env", "alpha", "beta", "metric")
        if found.height:
            yield comparison_table(compare(found), keys, "Fixed alpha/beta sweep")
        yield from self.others(frame, found)


STUDIES = (GridStudy(),)

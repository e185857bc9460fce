"""Ours beside the paper's: the published numbers as data, and the arithmetic between the two."""

from __future__ import annotations

import io
import math

import polars as pl
import pytest
from rich.console import Console
from study_jobs import fake_train

from sibling_replay.artefacts.on_terminal import comparison_table
from sibling_replay.artefacts.statistics import mean_se
from sibling_replay.running import display, store
from sibling_replay.running.runs import select
from sibling_replay.studies import exact as exact_study
from sibling_replay.studies import grid as grid_study
from sibling_replay.studies.paper import numbers as published
from support.studies import of_the_paper, study

EXACT_KEYS = ("env", "method", "metric")
GRID_KEYS = ("env", "alpha", "beta", "metric")


@pytest.fixture(scope="module")
def exact():
    runs = select(study("exact"), ["TwoChains", "FrozenLake-H100/H300", "FrozenLake-H50"])
    return pl.concat([store.to_row(run, fake_train(run.config)) for run in runs], how="diagonal")


@pytest.fixture(scope="module")
def grid():
    runs = select(study("grid"), ["OutlierBandit"])
    return pl.concat([store.to_row(run, fake_train(run.config)) for run in runs], how="diagonal")


def test_published_numbers_are_all_there():
    exact, grid = published.exact(), published.grid()
    assert len(exact) == 3 * 5 * 4 + 3 and len(grid) == 48 * 3
    number = exact["FrozenLake-H100/H300", "PER", "auc_return"]
    assert (number.mean, number.se, number.rounding) == (-8.81, 4.69, 0.005)
    assert exact["FrozenLake-H100/H300", "PER", "late_or_final_success"].rounding == 0.0005
    assert exact["FrozenLake-H50", "AVG-g2", "auc_return"].se is None
    assert grid["TwoChains", 0.1, 0.0, "sample_auc"].mean == 0.957


def test_every_published_number_has_runs_of_ours():
    cells = {(run.config.env, run.config.method) for run in study("exact")}
    assert {key[:2] for key in published.exact()} <= cells
    fixed = {(r.config.env, r.config.alpha, r.config.beta_start) for r in study("grid")}
    assert {key[:3] for key in published.grid()} == fixed


def test_exact_comparison(exact):
    compared = exact_study.compare(exact)
    assert compared.height == 5 * 4 + 2 * 6 * 4  # no row for OutlierBandit: no run of it
    row = compared.row(
        by_predicate=(pl.col("env") == "FrozenLake-H100/H300")
        & (pl.col("method") == "PER")
        & (pl.col("metric") == "late_return"),
        named=True,
    )
    runs = exact.filter(env="FrozenLake-H100/H300", method="PER")
    mean, se = mean_se(runs["late_return"])
    assert (row["seeds"], row["mean"], row["se"]) == (10, mean, se)
    assert (row["paper_mean"], row["paper_se"]) == (55.72, 7.58)
    assert row["distance"] == pytest.approx((mean - 55.72 + 0.005) / math.hypot(se, 7.58))


def test_last_columns_are_late_on_frozenlake_and_final_elsewhere(exact):
    compared = exact_study.compare(exact)
    toys = set(compared.filter(env="TwoChains")["metric"])
    assert toys == {"auc_return", "auc_success", "final_return", "final_success"}
    lakes = set(compared.filter(env="FrozenLake-H50")["metric"])
    assert lakes == {"auc_return", "auc_success", "late_return", "late_success"}


def test_what_the_paper_does_not_print_has_no_distance(exact):
    lake = exact_study.compare(exact).filter(env="FrozenLake-H50")
    assert lake["distance"].null_count() == lake.height
    assert lake["paper_mean"].drop_nulls().to_list() == [13.47, 9.9]


def test_grid_comparison_pairs_seeds(grid):
    compared = grid_study.compare(grid)
    assert compared.height == 16 * 3
    partial = grid.filter(~((pl.col("method") == "PER") & (pl.col("seed") < 4)))
    row = grid_study.compare(partial).filter(alpha=0.6, beta=0.4, metric="diff").row(0, named=True)
    assert row["seeds"] == 6
    cell = partial.filter(alpha=0.6, beta_start=0.4)
    difference = (
        cell.filter(pl.col("method") == "SAMPLE", pl.col("seed") >= 4).sort("seed")["auc_return"]
        - cell.filter(method="PER").sort("seed")["auc_return"]
    )
    assert row["mean"] == pytest.approx(difference.mean())
    assert row["low"] < row["mean"] < row["high"]


def test_only_the_papers_runs_are_compared(grid):
    own = [run for run in study("grid", [0, 10]) if run.config.env == "OutlierBandit"]
    rows = [store.to_row(run, fake_train(run.config)) for run in own if run.config.seed == 10]
    both = pl.concat([grid, *rows], how="diagonal")
    assert both.height == 320 + 32
    assert of_the_paper(both, "grid").equals(pl.concat([grid, rows[0][:0]], how="diagonal"))


def test_printed_tables_hold_both_numbers(exact, grid):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(comparison_table(exact_study.compare(exact), EXACT_KEYS, "exact"))
    console.print(comparison_table(grid_study.compare(grid), GRID_KEYS, "grid"))
    console.file.close()
    text = console.export_text()
    assert "67.710 ± 3.830" in text  # FrozenLake DDQN, late return
    assert "combined standard errors" in text
    assert " *" in text  # random numbers are far from the paper's
    assert "[" in text  # our simultaneous intervals


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.4, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7260, "2 h 01 min")],
)
def test_duration(seconds, text):
    assert display.duration(seconds) == text


def printed(table) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    return " ".join(console.export_text().split())


def test_one_seed_has_no_interval_and_the_table_says_so(grid):
    compared = grid_study.compare(grid.filter(seed=3))
    diff = compared.filter(metric="diff")
    assert diff.height == 16 and diff["low"].null_count() == diff["high"].null_count() == 16
    assert diff["mean"].is_finite().all()
    said = printed(comparison_table(compared, GRID_KEYS, "grid"))
    assert "nan" not in said and "one seed has neither error nor interval" in said
    whole = printed(comparison_table(grid_study.compare(grid), GRID_KEYS, "grid"))
    assert "one seed" not in whole and "[" in whole


def test_runs_evaluated_once_have_no_auc_and_the_table_says_so(exact):
    alone = exact.with_columns(auc_return=pl.lit(math.nan))
    said = printed(comparison_table(exact_study.compare(alone), EXACT_KEYS, "exact"))
    assert "nan" not in said and said.count("no AUC") == 5 + 2 * 6 + 1  # and the note
    assert "one point has no area under it" in said

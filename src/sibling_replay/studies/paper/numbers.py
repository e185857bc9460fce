"""The paper's numbers, read from its tables as data. The one place they come from."""

from __future__ import annotations

import csv
from importlib.resources import files

from sibling_replay.artefacts.comparison import Published
from sibling_replay.artefacts.statistics import Interval, critical_value

SEEDS = 10  # of every cell of the sweep
COMPARISONS = 48  # cells of the sweep, for Bonferroni


def exact() -> dict[tuple[str, str, str], Published]:
    """(env, method, metric) -> number, from table "Tabular-environment metrics" and the text.

    Metrics are `auc_return`, `auc_success`, `late_or_final_return` and `late_or_final_success`.
    """
    rows = _rows("exact_summary.csv") + _rows("exact_text.csv")
    return {
        (row["env"], row["method"], row["metric"]): _number(row["mean"], row["se"]) for row in rows
    }


def grid() -> dict[tuple[str, float, float, str], Published]:
    """(env, alpha, beta, column) -> number; columns are `per_auc`, `sample_auc` and `diff`.

    A difference is printed with its simultaneous interval, whose half-width is t times its error.
    """
    numbers = {}
    for name in ("grid_bandit.csv", "grid_twochains.csv", "grid_frozenlake.csv"):
        for row in _rows(name):
            env, alpha, beta = row["env"], float(row["alpha"]), float(row["beta"])
            for column in ("per_auc", "sample_auc"):
                number = _number(row[f"{column}_mean"], row[f"{column}_se"])
                numbers[env, alpha, beta, column] = number
            half = (float(row["diff_ci_high"]) - float(row["diff_ci_low"])) / 2.0
            se = half / critical_value(SEEDS, COMPARISONS)
            numbers[env, alpha, beta, "diff"] = _number(row["diff_mean"], str(se))
    return numbers


def groupings() -> dict[tuple[str, str, int], dict[str, float]]:
    """(game, grid, K) -> column -> number, from table "Selected VQ-VAE grouping statistics"."""
    columns = {
        "reconstruction": "recon_bce",
        **{name: name for name in ("perplexity", "pair_coverage", "median_bucket", "frac_ge_100")},
    }
    return {
        (row["game"], row["grid"], int(row["codebook"])): {
            name: float(row[column]) for name, column in columns.items()
        }
        for row in _rows("vqvae_grouping.csv")
    }


def minatar() -> dict[tuple[str, str, str], Published]:
    """(condition, game, column) -> AUC return, from the mp-tail and the clean table.

    Columns are methods; of mp-tail also `SAMPLE-PER` and `SAMPLE-DDQN`.
    """
    tables = {"clean": "minatar_clean_auc.csv", "mp-tail": "minatar_mptail_auc.csv"}
    return {
        (condition, row["game"], row["method"]): _number(row["mean"], row["se"])
        for condition, name in tables.items()
        for row in _rows(name)
    }


def minatar_intervals() -> dict[tuple[str, str], Interval]:
    """(game, comparison) -> interval, from table "Paired MinAtar mp-tail AUC differences"."""
    return {
        (row["game"], row["comparison"]): Interval(
            float(row["mean"]), float(row["ci_low"]), float(row["ci_high"])
        )
        for row in _rows("minatar_mptail_paired_ci.csv")
    }


def distortion() -> dict[tuple[str, str], Published]:
    """(env, metric) -> number, from table "Target shifts" and the text on Bandit's risky arm."""
    rows = _rows("target_shifts.csv") + _rows("distortion_text.csv")
    return {(row["env"], row["metric"]): _number(row["mean"], row["se"]) for row in rows}


def learning_rates() -> dict[tuple[str, str], float]:
    """(game, method) -> the selected learning rate (table `tab:lr-sweep`)."""
    rows = _rows("minatar_learning_rates.csv")
    return {(row["game"], row["method"]): float(row["learning_rate"]) for row in rows}


def _rows(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(mean: str, se: str) -> Published:
    decimals = len(mean.partition(".")[2])
    return Published(float(mean), float(se) if se else None, 0.5 * 10.0**-decimals)

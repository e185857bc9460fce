"""MinAtar, ours beside the paper's: frames of runs in, comparison frames out, no ink.

Every row has a length in environment steps, `steps`, and `horizon`, the same in words. Runs of
different lengths are different experiments: a distance to the published number is given at the
paper's length only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from typing import Any

import polars as pl

from sibling_replay.artefacts.comparison import COMPARED, beside_paper
from sibling_replay.artefacts.statistics import mean_se, paired_interval
from sibling_replay.envs import GAMES
from sibling_replay.studies.minatar.coverage import PAPER_STEPS, described, horizons
from sibling_replay.studies.minatar.runs import rate_grid, selected_rates
from sibling_replay.studies.paper import numbers as published
from sibling_replay.training.minatar.config import (
    CONDITIONS,
    MINATAR_METHODS,
    MinAtarConfig,
)

DIFFERENCES = {"SAMPLE-PER": "PER", "SAMPLE-DDQN": "DDQN"}  # column -> whom SAMPLE is paired with
COLUMNS = (*MINATAR_METHODS, *DIFFERENCES)

_KEYS: dict[str, Any] = {
    "condition": pl.String,
    "steps": pl.Int64,
    "horizon": pl.String,
    "env": pl.String,
}


def compare_auc(frame: pl.DataFrame) -> pl.DataFrame:
    """AUC return of each method and its paired differences, in each condition, length and game.

    `of` says how many seeds a game's methods have: "2", or "1 to 2" where they differ.
    """
    numbers = published.minatar()
    rows = []
    for keys, scores in _games(frame):
        values = {method: list(seeds.values()) for method, seeds in scores.items()}
        values |= {column: _difference(scores, other) for column, other in DIFFERENCES.items()}
        found = {column: ours for column, ours in values.items() if ours}
        sizes = sorted({len(found[method]) for method in MINATAR_METHODS if method in found})
        for column, ours in found.items():
            paper = numbers.get((keys["condition"], keys["env"], column))
            compared = beside_paper(ours, paper)
            if keys["steps"] != PAPER_STEPS:
                compared["distance"] = None
            of = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
            rows.append({**keys, "of": of, "metric": column, **compared})
    schema = {**_KEYS, "of": pl.String, "metric": pl.String, **COMPARED}
    return pl.DataFrame(rows, schema=schema)


def paired_differences(frame: pl.DataFrame) -> pl.DataFrame:
    """SAMPLE minus each other method under mp-tail on the seeds both have: mean and unadjusted 95 %
    t interval, which one pair does not have (null)."""
    numbers = published.minatar_intervals()
    rows = []
    for keys, scores in _games(frame.filter(pl.col("condition") == "mp-tail")):
        for column, other in DIFFERENCES.items():
            pairs = _difference(scores, other)
            if not pairs:
                continue
            mean, low, high = paired_interval(pairs)
            ends = {} if math.isnan(low) else {"low": low, "high": high}
            paper = numbers[keys["env"], column]
            row = {**keys, "metric": column, "seeds": len(pairs), "mean": mean, **ends}
            row |= {"paper_mean": paper.value, "paper_low": paper.low, "paper_high": paper.high}
            rows.append(row)
    values = [f"{whose}{end}" for whose in ("", "paper_") for end in ("mean", "low", "high")]
    schema = {**_KEYS, "metric": pl.String, "seeds": pl.Int64}
    return pl.DataFrame(rows, schema={**schema, **dict.fromkeys(values, pl.Float64)})


def tail_effect(frame: pl.DataFrame) -> pl.DataFrame:
    """AUC return under mp-tail minus clean, method by method, of runs that differ in nothing else.
    The paper's is the difference of its two printed means; it prints no paired error."""
    numbers = published.minatar()
    same = [field.name for field in fields(MinAtarConfig) if field.name != "condition"]
    tail, clean = (frame.filter(condition=condition) for condition in ("mp-tail", "clean"))
    both = tail.join(clean, on=same, suffix="_clean")
    rows = []
    for steps, game, method in product(horizons(both), GAMES, MINATAR_METHODS):
        pairs = both.filter(steps=steps, env=game, method=method)
        if pairs.is_empty():
            continue
        mean, se = mean_se(pairs["auc_return"] - pairs["auc_return_clean"])
        paper = numbers["mp-tail", game, method].mean - numbers["clean", game, method].mean
        row = {"steps": steps, "horizon": described(steps), "env": game, "metric": method}
        rows.append({**row, "seeds": pairs.height, "mean": mean, "se": se, "paper_mean": paper})
    keys_of = {name: kind for name, kind in _KEYS.items() if name != "condition"}
    values = {"seeds": pl.Int64, **dict.fromkeys(("mean", "se", "paper_mean"), pl.Float64)}
    return pl.DataFrame(rows, schema={**keys_of, "metric": pl.String, **values})


def rates_used(frame: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """Learning rates that runs used (a row each if conditions differ), and those that `trials` on
    clean games select where every rate of the grid was tried; by length of training, each with the
    paper's."""
    rows: list[tuple[Any, ...]] = []
    for steps in horizons(frame):
        runs = frame.filter(pl.col("steps") == steps)
        used = runs.select("env", "method", "learning_rate").unique().rows()
        rows += [("used", steps, *row) for row in _ordered(used)]
    trials = trials.filter(pl.col("method").is_in(MINATAR_METHODS))
    for steps in horizons(trials):
        tried = trials.filter(pl.col("steps") == steps)
        chosen = [
            (*key, rate) for key, rate in selected_rates(tried).items() if _whole(tried, *key)
        ]
        rows += [("selected", steps, *row) for row in _ordered(chosen)]
    paper = published.learning_rates()
    keys = {"kind": pl.String, "steps": pl.Int64, "env": pl.String, "method": pl.String}
    found = [(*row, paper[row[2], row[3]]) for row in rows]
    schema = {**keys, "learning_rate": pl.Float64, "paper": pl.Float64}
    return pl.DataFrame(found, schema=schema, orient="row")


_Scores = dict[str, dict[int, float]]  # method -> seed -> AUC return


def _games(frame: pl.DataFrame) -> Iterator[tuple[dict[str, Any], _Scores]]:
    """The scores of each game that has any, by condition and length, the longest first."""
    for condition in CONDITIONS:
        for steps in horizons(frame):
            for game in GAMES:
                runs = frame.filter(
                    (pl.col("condition") == condition)
                    & (pl.col("steps") == steps)
                    & (pl.col("env") == game)
                ).sort("seed")
                scores = {
                    method: dict(
                        runs.filter(pl.col("method") == method)
                        .select("seed", "auc_return")
                        .iter_rows()
                    )
                    for method in MINATAR_METHODS
                }
                if runs.height:
                    keys = {"condition": condition, "steps": steps}
                    yield {**keys, "horizon": described(steps), "env": game}, scores


def _difference(scores: _Scores, other: str) -> list[float]:
    """SAMPLE minus another method, seed by seed."""
    sample, others = scores["SAMPLE"], scores[other]
    return [sample[seed] - others[seed] for seed in sorted(sample.keys() & others.keys())]


def _whole(trials: pl.DataFrame, game: str, method: str) -> bool:
    """Whether every rate of the grid was tried, all with the same seeds."""
    runs = trials.filter((pl.col("env") == game) & (pl.col("method") == method))
    tried = set(runs.select("learning_rate", "seed").iter_rows())
    return tried >= set(product(rate_grid(method), set(runs["seed"])))


def _ordered(rates: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(game, method, rate) in the order of the paper's table."""
    games = tuple(GAMES)
    return sorted(
        rates, key=lambda row: (games.index(row[0]), MINATAR_METHODS.index(row[1]), row[2])
    )

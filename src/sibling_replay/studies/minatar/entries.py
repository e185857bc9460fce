"""The paper's MinAtar artefacts: what each is made of, and by whom."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import FigureEntry, Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, comparison, count, number, texts
from sibling_replay.studies.minatar import figures
from sibling_replay.studies.minatar import tables as minatar_tables
from sibling_replay.studies.minatar.coverage import described
from sibling_replay.studies.minatar.encoders import MEASURES, SAMPLE
from sibling_replay.studies.minatar.needs import ENCODERS, EncoderNeeds, MinAtarNeeds, RateNeeds
from sibling_replay.studies.minatar.runs import RATE_STUDY, STUDY
from sibling_replay.studies.paper import numbers as published
from sibling_replay.training.minatar.config import MINATAR_METHODS

WORDS = {
    "env": "game",
    "of": "seeds",
    "SAMPLE-PER": "SAMPLE − PER",
    "SAMPLE-DDQN": "SAMPLE − DDQN",
}
LENGTH = (
    "AUC is the area from the first evaluation (step 10,000) on, over the length of training. Runs "
    "of different lengths are different experiments: beside shorter ones the paper's numbers, of "
    "five million steps, are for orientation, and agreement is neither judged nor counted."
)


def _auc_table(condition: str, columns: tuple[str, ...]) -> Callable[[Frames], tuple[Table, Count]]:
    def build(frames: Frames) -> tuple[Table, Count]:
        of_table = (pl.col("condition") == condition) & pl.col("metric").is_in(columns)
        compared = minatar_tables.compare_auc(frames[STUDY]).filter(of_table)
        printed = sum(where == condition for where, *_ in published.minatar())
        shape = Shape(("env", "of"), block="horizon", words=WORDS, order=columns)
        return comparison(compared, shape), count(compared, printed)

    return build


def _interval_table(frames: Frames) -> tuple[Table, Count]:
    """Not counted: the same means are counted with their errors in table 2."""
    rows = [
        {
            **{key: row[key] for key in ("horizon", "env", "metric")},
            "of": str(row["seeds"]),
            "ours": _interval(row["mean"], row["low"], row["high"]),
            "paper": _interval(row["paper_mean"], row["paper_low"], row["paper_high"]),
        }
        for row in minatar_tables.paired_differences(frames[STUDY]).rows(named=True)
    ]
    order = tuple(minatar_tables.DIFFERENCES)
    shape = Shape(("env", "of"), block="horizon", words=WORDS, order=order)
    return texts(rows, shape), Count()


def _interval(mean: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" [{number(low, 2)}, {number(high, 2)}]"
    return number(mean, 2, sign=True) + ends


def _effect_table(frames: Frames) -> tuple[Table, Count]:
    """Not counted: made of numbers that are."""
    rows = [
        {
            **{key: row[key] for key in ("horizon", "env", "metric")},
            "ours": f"{_signed(row['mean'], row['se'])} ({row['seeds']})",
            "paper": number(row["paper_mean"], 2, sign=True),
        }
        for row in minatar_tables.tail_effect(frames[STUDY]).rows(named=True)
    ]
    shape = Shape(("env",), block="horizon", words=WORDS, order=MINATAR_METHODS)
    return texts(rows, shape), Count()


def _signed(mean: float, se: float) -> str:
    error = "" if math.isnan(se) else f" ± {number(se, 2)}"
    return number(mean, 2, sign=True) + error


def _rate_table(frames: Frames) -> tuple[Table, Count]:
    rates = minatar_tables.rates_used(frames[STUDY], frames[RATE_STUDY])
    rows: list[dict[str, Any]] = []
    keys = ("kind", "steps", "env", "method", "paper")
    for (kind, steps, env, method, paper), cell in rates.group_by(keys, maintain_order=True):
        rows.append(
            {
                "block": f"{kind}; {described(steps)}",
                "env": env,
                "metric": method,
                "ours": " and ".join(map(_rate, cell["learning_rate"])),
                "paper": _rate(paper),
            }
        )
    shape = Shape(("env",), block="block", words=WORDS, order=MINATAR_METHODS)
    return texts(rows, shape), Count()


def _rate(rate: float) -> str:
    """As 6e-5, all alike."""
    return np.format_float_scientific(rate, trim="-", exp_digits=1)


def _encoder_table(frames: Frames) -> tuple[Table, Count]:
    rows = []
    for row in frames[ENCODERS].rows(named=True):
        labels = {
            "block": f"{row['transitions']:,} transitions of random play"
            + ("" if row["transitions"] == SAMPLE else f" (paper: about {SAMPLE:,})"),
            "env": row["game"],
            "form": f"{row['grid']}, {row['codebook']}",
            "loss": row["loss"],
            "seed": str(row["seed"]),
            "updates": f"{row['updates']:,}",
        }
        for name, (head, form) in MEASURES.items():
            paper = row[f"paper_{name}"]
            beside = "" if paper is None else f"{paper:{form}}"
            rows.append({**labels, "metric": head, "ours": f"{row[name]:{form}}", "paper": beside})
    words = {**WORDS, "form": "grid, K"}
    shape = Shape(("env", "form", "loss", "seed", "updates"), block="block", words=words)
    return texts(rows, shape), Count()


LATENT = Section(
    "minatar",
    "MinAtar with latent siblings",
    "DDQN, PER and SAMPLE on five games, groups made by a frozen VQ-VAE. Under mp-tail, positive "
    "training rewards have a rare, large, mean-preserving loss; evaluation is of the clean game.",
    (
        FigureEntry(
            "minatar-curves",
            "Figure 3",
            "MinAtar learning curves",
            "Evaluation return of greedy episodes of the clean game, for clean training and under "
            "mp-tail; bands are ± one standard error.",
            MinAtarNeeds(),
            figures.minatar_curves,
        ),
        TableEntry(
            "minatar-tail",
            "Table 2",
            "MinAtar AUC return under mean-preserving tails",
            f"Differences are paired by seed. {LENGTH}",
            MinAtarNeeds(("mp-tail",)),
            _auc_table("mp-tail", minatar_tables.COLUMNS),
        ),
        TableEntry(
            "minatar-paired",
            "Table 4",
            "Paired differences in MinAtar under mp-tail",
            "AUC return, mean with the unadjusted paired 95 % t interval over the seeds that both "
            f"methods have; the paper's have five. Positive favours SAMPLE. {LENGTH}",
            MinAtarNeeds(("mp-tail",)),
            _interval_table,
        ),
        TableEntry(
            "minatar-clean",
            "Table 11",
            "Clean MinAtar AUC return",
            LENGTH,
            MinAtarNeeds(("clean",)),
            _auc_table("clean", MINATAR_METHODS),
        ),
        TableEntry(
            "minatar-effect",
            "Not in the paper",
            "What the tail does to each method",
            "AUC return under mp-tail minus clean, paired by seed (how many, in brackets), mean ± "
            "standard error, of runs that differ in nothing else. The paper's is the difference of "
            f"its two printed means. {LENGTH}",
            MinAtarNeeds(),
            _effect_table,
        ),
        FigureEntry(
            "minatar-diagnostics",
            "Figure 9",
            "MinAtar replay statistics under mp-tail",
            "Effective sample size of a batch of 32, standard deviation of sampled TD errors, and "
            "the L1 distance between cumulative behaviour and replay action frequencies, over the "
            "final fifth of training (at least 25,000 steps).",
            MinAtarNeeds(("mp-tail",), diagnostics=True),
            figures.minatar_diagnostics,
        ),
        TableEntry(
            "minatar-rates",
            "Table 3",
            "MinAtar learning rates",
            "Rates that the runs here used, the paper's unless chosen by --select-lr; and rates "
            "that its protocol selects here by AUC on clean games, where its whole grid was tried.",
            RateNeeds(),
            _rate_table,
        ),
        TableEntry(
            "vqvae-grouping",
            "Table 10",
            "VQ-VAE grouping statistics",
            "Reconstruction loss (nats an element for bce; ours the mean over the last 500 "
            "minibatches), exponentiated entropy of code use, part of "
            "the possible code-action buckets that occur, transitions in the median bucket, part "
            "of the transitions in buckets of at least 100. They depend on seed and encoder.",
            EncoderNeeds(),
            _encoder_table,
        ),
    ),
)

"""MinAtar runs whose every number is known.

A run is evaluated four times, at a quarter, a half, three quarters and the end of training, always
with the same return, four thirds of its score: its AUC return is exactly its score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sibling_replay.running import store
from sibling_replay.studies.minatar.runs import RATE_STUDY, STUDY, minatar_config, minatar_run
from sibling_replay.training.results import RunResult

SHORT = 200_000
ENCODER = "e" * 32

# (game, method) -> AUC return by seed, in both conditions
SCORES = {
    ("SpaceInvaders", "DDQN"): (6.0, 9.0),
    ("SpaceInvaders", "PER"): (3.0, 3.0),
    ("SpaceInvaders", "SAMPLE"): (9.0, 15.0),
    ("Breakout", "PER"): (2.0,),
}


def row(
    game: str,
    method: str,
    seed: int,
    score: float,
    condition: str = "mp-tail",
    study: str = STUDY,
    **settings: Any,
) -> pl.DataFrame:
    """A stored run. Its ESS is 30 + seed in the last fifth, 1000 before, nan at first."""
    encoder = ENCODER if method == "SAMPLE" else ""
    settings = {"steps": SHORT, "encoder": encoder, **settings}
    config = minatar_config(game, method, condition, seed, **settings)
    places = np.linspace(config.steps / 4, config.steps, 4).astype(np.int64)
    known = {"ess": 30.0, "td_std": 2.0, "action_l1": 0.25}
    diagnostics = {name: np.array([np.nan, 1000.0, x + seed]) for name, x in known.items()}
    diagnostics["step"] = np.array([places[0] // 10, places[1], places[3]])
    result = RunResult(
        config=config,
        eval_step=places,
        eval_episode=places,
        eval_return=np.full(4, score / 0.75),
        eval_success=np.full(4, np.nan),
        episodes=int(places[3]),
        updates=config.steps,
        diagnostics=diagnostics if config.diagnostics_every else {},
    )
    return store.to_row(minatar_run(study, config), result)


def stack(*rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(rows, how="diagonal")


def scored(condition: str = "mp-tail", **settings: Any) -> pl.DataFrame:
    """The runs of SCORES."""
    rows = [
        row(game, method, seed, score, condition, **settings)
        for (game, method), scores in SCORES.items()
        for seed, score in enumerate(scores)
    ]
    return stack(*rows)


def trial(game: str, method: str, rate: float, score: float, seed: int = 0) -> pl.DataFrame:
    """A run that helps to choose a learning rate."""
    return row(game, method, seed, score, "clean", RATE_STUDY, learning_rate=rate)


def encoder_row(game: str, codes: int, **changed: object) -> dict[str, Any]:
    """A row of the table of encoders; the paper's numbers are left out unless given."""
    measures = {"reconstruction": 0.0301, "perplexity": 9.04, "pair_coverage": 0.1234,
                "median_bucket": 101.5, "frac_ge_100": 0.95}  # fmt: skip
    paper = {f"paper_{name}": None for name in measures}
    config = {"grid": "2x1", "codebook": codes, "loss": "bce", "seed": 0}
    size = {"observations": 1_500_000, "updates": 100_000, "transitions": 100_000}
    return {"game": game, **config, **size, **measures, **paper, **changed}

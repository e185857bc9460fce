"""The paper's MinAtar study as plain data, and the protocol that chose its learning rates.

150 runs: five games, three methods, clean and mp-tail, five seeds, five million steps each. A
shorter study is the beginning of the same runs; its ids say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sibling_replay.envs import GAMES
from sibling_replay.running.runs import Run, own_settings, run_id
from sibling_replay.studies.paper.numbers import learning_rates
from sibling_replay.training.config import RunConfig, usual_alpha
from sibling_replay.training.methods import check_options, strategy_of
from sibling_replay.training.minatar.config import (
    CONDITIONS,
    MINATAR_METHODS,
    MinAtarConfig,
)

STUDY = "minatar"
RATE_STUDY = "minatar-rates"
SEEDS = range(5)

# "a factor-of-two grid around 3e-5 ..., plus 3.75e-6 and 1.875e-6 for PER"
RATES = (1.2e-4, 6e-5, 3e-5, 1.5e-5, 7.5e-6)
PER_RATES = (*RATES, 3.75e-6, 1.875e-6)

Rates = Mapping[tuple[str, str], float]  # (game, method) -> learning rate
NO_RATES: Rates = {}


def minatar_config(
    game: str, method: str, condition: str, seed: int, **overrides: Any
) -> MinAtarConfig:
    """The paper's run, with its learning rate; keyword arguments replace settings."""
    unknown = sorted(set(overrides) - set(MinAtarConfig.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    rates = learning_rates()
    # Methods that the paper did not try take SAMPLE's rate, or PER's where there are no groups; a
    # game without published rates is refused by name, not for its missing rate.
    grouped = overrides.get("encoder") or overrides.get("key")
    like = method if (game, method) in rates else "SAMPLE" if grouped else "PER"
    usual = {"learning_rate": rates.get((game, like), 3e-5), "alpha": usual_alpha(method)}
    settings = {**usual, **overrides}
    return MinAtarConfig(env=game, method=method, condition=condition, seed=seed, **settings)


def needs_groups(method: str) -> bool:
    """Whether a method draws by siblings."""
    return strategy_of(RunConfig(env="any", method=method, seed=0, steps=1)).needs.groups


def rate_grid(method: str) -> tuple[float, ...]:
    """The learning rates that the paper tries for a method."""
    return PER_RATES if method == "PER" else RATES


def minatar_runs(
    encoders: Mapping[str, str],
    rates: Rates = NO_RATES,
    seeds: Iterable[int] = SEEDS,
    methods: Iterable[str] = MINATAR_METHODS,
    **overrides: Any,
) -> tuple[Run, ...]:
    """Every run of the study. `encoders`: each game's digest; `rates`, `seeds` and `methods`
    replace the paper's."""
    runs = []
    for condition in CONDITIONS:
        for game in GAMES:
            for method in methods:
                settings = dict(overrides)
                if needs_groups(method) and not settings.get("key"):
                    settings["encoder"] = encoders[game]
                elif not needs_groups(method):
                    settings.pop("key", None)
                if (game, method) in rates:
                    settings["learning_rate"] = rates[game, method]
                for seed in seeds:
                    config = minatar_config(game, method, condition, seed, **settings)
                    runs.append(minatar_run(STUDY, config))
    return tuple(runs)


def rate_runs(
    encoders: Mapping[str, str],
    seeds: Iterable[int] = SEEDS,
    methods: Iterable[str] = MINATAR_METHODS,
    **overrides: Any,
) -> tuple[Run, ...]:
    """The runs that choose learning rates: every rate of the grid, on clean games."""
    runs = []
    for game in GAMES:
        for method in methods:
            grouped = needs_groups(method)
            own = grouped and overrides.get("key")
            encoder = encoders[game] if grouped and not own else ""
            for rate in rate_grid(method):
                for seed in seeds:
                    settings = {**overrides, "learning_rate": rate, "encoder": encoder}
                    settings["key"] = own or ""
                    config = minatar_config(game, method, "clean", seed, **settings)
                    runs.append(minatar_run(RATE_STUDY, config))
    return tuple(runs)


def selected_rates(frame: pl.DataFrame) -> dict[tuple[str, str], float]:
    """The rate of largest mean AUC on the clean game; of equal ones the larger."""
    means = frame.group_by("env", "method", "learning_rate").agg(pl.col("auc_return").mean())
    best = means.sort("auc_return", "learning_rate", descending=True)
    chosen = best.unique(["env", "method"], keep="first", maintain_order=True)
    return {
        (env, method): rate
        for env, method, rate in chosen.select("env", "method", "learning_rate").iter_rows()
    }


def minatar_run(study: str, config: MinAtarConfig) -> Run:
    """A run; its id names the encoder and every setting that is not the paper's."""
    check_options(config)
    paper = minatar_config(config.env, config.method, config.condition, config.seed, encoder="any")
    encoder = [f"encoder={config.encoder[:8]}"] if config.encoder else []
    settings = own_settings(config, paper, apart=("encoder",))
    return Run(study, run_id(study, config, config.condition, *encoder, *settings), config)

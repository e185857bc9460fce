"""The contenders worth trying on an environment of one's own, and what comes of it as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sibling_replay.artefacts.statistics import (
    mean_se,
    paired_interval,
    probability_of_improvement,
)
from sibling_replay.running.runs import Run, run_id
from sibling_replay.studies.own_code import code_of
from sibling_replay.studies.rivals.declared import Contender
from sibling_replay.studies.rivals.scores import with_contender
from sibling_replay.studies.rivals.settings import bench_config
from sibling_replay.training.config import RunConfig, gym_id
from sibling_replay.training.gym_config import GymConfig, gym_config

NAME = "bench"
SHORTLIST = ("DDQN", "DDQN-3step", "PER", "LAP", "SAMPLE", "AVG-uniform")
_IN_TABLES = ("update_all_siblings",)  # settings that only tables have
_CALLED = {"updates_a_step": "updates_a_round"}  # what `DQN` calls what tables call otherwise


def bench_run(env: str, contender: Contender, seed: int, table: bool, **others: Any) -> Run:
    """A contender on an environment: by the trainer of tables, or by `DQN`."""
    if table:
        config: RunConfig = bench_config(env, contender.method, seed, **contender.settings)
    else:
        config = network_config(gym_id(env), contender, seed)
    settings = {name: value for name, value in others.items() if value is not None}
    if "steps" in settings:  # schedules follow the length of a run
        scale = settings["steps"] / config.steps
        for name in ("epsilon_decay_steps", "beta_updates"):
            settings.setdefault(name, int(scale * getattr(config, name)))
    config = replace(config, **settings)
    cell = [f"{name}={value}" for name, value in sorted(others.items()) if value is not None]
    cell += code_of(env, contender.method)
    return Run(NAME, run_id(NAME, config, contender.name, *cell), config)


def network_config(env: str, contender: Contender, seed: int, **others: Any) -> GymConfig:
    """A run of `DQN` with a contender's settings. Averages are over eight siblings: groups that a
    map makes have hundreds, and targets of all of them cost as many network passes."""
    own = {
        _CALLED.get(name, name): each
        for name, each in contender.settings.items()
        if name not in _IN_TABLES
    }
    method = "AVG-g8" if contender.method == "AVG" else contender.method
    return gym_config(env, method, seed, **{**own, **others})


def as_in_networks(contender: Contender) -> Contender:
    """With words for what `network_config` makes of it."""
    if contender.method != "AVG":
        return contender
    return replace(contender, words=f"{contender.words} (of up to eight siblings)")


def bench_rows(frame: pl.DataFrame, contenders: Sequence[Contender]) -> list[dict[str, str]]:
    """A contender a row: score, difference to the first with an interval that is simultaneous over
    all of them, the chance to beat it."""
    named = with_contender(frame)
    names = [each.name for each in contenders]
    scores = {
        name: named.filter(pl.col("contender") == name).sort("seed")["auc_return"].to_numpy()
        for name in names
    }
    base, rng = scores[names[0]], np.random.default_rng(0)
    found = []
    for name, words in ((each.name, each.words) for each in contenders):
        mean, error = mean_se(scores[name])
        row = {"contender": name, "AUC": f"{mean:.4g} ± {error:.2g}"}
        if name != names[0] and len(base) > 1:
            gap = paired_interval(scores[name] - base, len(names) - 1)
            chance = probability_of_improvement(scores[name], base, rng)
            row[f"minus {names[0]}"] = f"{gap.value:+.3g} [{gap.low:+.3g}, {gap.high:+.3g}]"
            row[f"beats {names[0]}"] = f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]"
            row["shown"] = "above" if gap.low > 0 else "below" if gap.high < 0 else "not shown"
        found.append(row | {"what": words})
    return found

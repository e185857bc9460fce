"""A study whose trainer and config are its own. Workers import this file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.running.runs import Run, select
from sibling_replay.studies.study import Choice, Study, chosen_run
from sibling_replay.training.config import RunConfig
from sibling_replay.training.results import RunResult


@dataclass(frozen=True, kw_only=True)
class CoinConfig(RunConfig):
    """A run of the trainer below."""

    kind = "coin"
    bias: float = 0.5


def toss(config: RunConfig) -> RunResult:
    """No learning at all: evaluations are coins."""
    assert isinstance(config, CoinConfig)
    rng = np.random.default_rng(config.seed)
    step = np.arange(1, 11) * (config.steps // 10)
    score = (rng.random(10) < config.bias).astype(np.float64)
    return RunResult(config, step, step // 5, score, score.copy(), 10, 0)


class CoinStudy(Study):
    """Two coins."""

    name = "coins"
    about = "coins"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        found = []
        for seed in choice.seeds or range(3):
            usual = CoinConfig(env="coin", method="DDQN", seed=seed, steps=1_000)
            found.append(chosen_run("coins", usual, choice))
        return select(found, choice.envs, choice.methods)

    def job(self, choice: Choice):
        return toss

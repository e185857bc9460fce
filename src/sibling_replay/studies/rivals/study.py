"""The bench, and the runs that choose its learning rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.rivals.declared import (
    NAME,
    RATE_NAME,
    Rates,
    main_runs,
    rate_runs,
)
from sibling_replay.studies.rivals.rates import chosen_rates
from sibling_replay.studies.rivals.scores import contender_of
from sibling_replay.studies.rivals.tables import SECTION
from sibling_replay.studies.study import Choice, Source, Stage, Study
from sibling_replay.studies.tabular import TabularJob
from sibling_replay.training.config import TabularConfig
from sibling_replay.training.results import RunResult

WAY_OUT = "(`collect rivals --back` lays out those of results/)"  # where its runs are missing


@dataclass(frozen=True)
class BenchJob(TabularJob):
    """A run of the compiled trainer, measured as the bench does."""

    def __call__(self, config: TabularConfig) -> RunResult:
        from sibling_replay.training.tabular.bench_measure import bench_measure  # slow to import
        from sibling_replay.training.tabular.trainer import train_tabular

        return train_tabular(config, observe=bench_measure(_optimal(config.env, config.gamma)))


@cache
def _optimal(env: str, gamma: float) -> NDArray[np.float64]:
    from sibling_replay.envs import optimal_values
    from sibling_replay.training.tabular.trainer import tabular_model

    return optimal_values(tabular_model(env), gamma)


class BenchStudy(Study):
    """Runs that are measured as the bench does."""

    def job(self, choice: Choice) -> JobFunction:
        return BenchJob()

    def contender(self, run: Run) -> str:
        return contender_of(run.id)


class RateStudy(BenchStudy):
    """Three learning rates of every contender in every environment."""

    name = RATE_NAME
    about = "the runs that choose the learning rates of `rivals`: some 4 core-hours"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return rate_runs(choice)


class RivalStudy(BenchStudy):
    """Twenty seeds of every contender in every environment, after the rates are chosen."""

    name = NAME
    about = (
        "the bench: ways to replay side by side, with and without noise; first the runs that "
        "choose learning rates, some 10 core-hours in all"
    )
    sections = (SECTION,)

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return main_runs(choice)

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        """Rates are chosen on seeds of their own, whatever seeds are asked for; not at all if one
        is given."""
        runs = main_runs(choice)  # what cannot be is refused before hours of trials
        if "learning_rate" not in choice.settings:
            trials = Choice(out=choice.out, envs=choice.envs, methods=choice.methods)
            yield Stage(RATE_NAME, rate_runs(trials), self.job(choice))
            runs = main_runs(choice, stored_rates(Source(choice.out, collected=False)))
        yield from self._others_mentioned(runs)
        yield Stage(NAME, runs, self.job(choice))

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        return {**super().frames(source), RATE_NAME: _trials(source)}


def _trials(source: Source) -> pl.DataFrame:
    """The study's own: others with seeds or settings of one's own may be there."""
    return study_named(RATE_NAME).compared(source.runs(RATE_NAME))


def stored_bench(out: Path) -> pl.DataFrame:
    """The bench's own runs in a directory of runs."""
    return study_named(NAME).compared(Source(out, collected=False).runs(NAME))


def stored_rates(source: Source) -> Rates:
    return chosen_rates(_trials(source))

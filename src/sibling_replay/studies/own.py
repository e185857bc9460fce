"""Runs of one's own, by `sibling-replay train` and `sibling-replay bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from rich.table import Table

from sibling_replay.artefacts.on_terminal import CELL, run_tables, with_settings
from sibling_replay.running import store
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run, own_settings, run_id
from sibling_replay.studies.gym_job import GymJob
from sibling_replay.studies.own_code import code_of
from sibling_replay.studies.rivals.settings import bench_config
from sibling_replay.studies.rivals.shortlist import NAME as BENCH
from sibling_replay.studies.study import Choice, Stage
from sibling_replay.studies.tabular import TabularJob, TabularStudy
from sibling_replay.training.config import RunConfig, TabularConfig
from sibling_replay.training.gym_config import STEPS, GymConfig, gym_config
from sibling_replay.training.interaction import refuse_unknown_signals
from sibling_replay.training.methods import check_options, strategy_of
from sibling_replay.training.plan import Plan
from sibling_replay.training.results import RunResult

NAME = "train"
PAPER = "as the paper"  # what settings are that an id does not name
DEFAULT = "as DQN has it"


def own_run(config: RunConfig) -> Run:
    """Its id names every setting that is not the usual one (the bench's or the paper's on
    environments with a table, elsewhere the default), and the code of what is one's own."""
    check_options(config)
    if isinstance(config, TabularConfig):
        usual: RunConfig = bench_config(config.env, config.method, config.seed)
        settings = own_settings(config, usual)
    else:  # schedules follow the length of a run and its updates
        assert isinstance(config, GymConfig)
        usual = gym_config(config.env, config.method, config.seed, steps=config.steps)
        rounds = {"train_every": config.train_every, "updates_a_round": config.updates_a_round}
        beta = gym_config(config.env, config.method, config.seed, steps=config.steps, **rounds)
        usual = replace(usual, beta_updates=beta.beta_updates)
        length = [f"steps={config.steps}"] if config.steps != STEPS else []
        settings = [*length, *own_settings(config, usual, apart=("steps",))]
    settings += code_of(config.env, config.method)
    return Run(NAME, run_id(NAME, config, *settings), config)


def refuse_idle(config: TabularConfig | GymConfig) -> None:
    """Raise for a run that cannot train, or would train nothing: its numbers would look like any
    others."""
    first = config.learning_starts
    if isinstance(config, GymConfig):
        refuse_unknown_signals(strategy_of(config))
        first = Plan(config, config.steps).first_update
    if config.steps < first:
        raise ValueError(
            f"{config.steps:,} steps end before the first update, which follows step {first:,} "
            f"(learning_starts={config.learning_starts:,}): nothing would be learnt"
        )


@dataclass(frozen=True)
class OwnJob(GymJob):
    """Any run of one's own, by the trainer of its config."""

    def __call__(self, config: RunConfig) -> RunResult:
        if isinstance(config, GymConfig):
            return super().__call__(config)
        assert isinstance(config, TabularConfig)
        return TabularJob()(config)


class OwnRuns(TabularStudy):
    """Whatever `train` was asked for."""

    name = NAME
    about = "the runs of your own, by `sibling-replay train`"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return ()

    def job(self, choice: Choice) -> JobFunction:
        return OwnJob(choice.out.resolve() / "checkpoints")

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        raise ValueError(f"runs of your own are made by `sibling-replay {self.name}`")

    def compared(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame

    def tables(self, frame: pl.DataFrame) -> Iterator[Table | str]:
        with_table = pl.col("kind") == TabularConfig.kind
        yield from run_tables(frame.filter(with_table), PAPER)
        yield from run_tables(frame.filter(~with_table), DEFAULT)

    def status_lines(self, out: Path) -> list[str]:
        if not any((out / self.name).rglob(f"*{store.SUFFIX}")):
            return [f"{self.name}: no runs of your own"]
        stored = store.load_runs(out, [self.name])
        unsaid = {kind: PAPER if kind == TabularConfig.kind else DEFAULT for kind in stored["kind"]}
        frame = pl.concat(
            [with_settings(stored.filter(kind=kind), text) for kind, text in unsaid.items()]
        )
        lines = [f"{self.name}: {frame.height} runs of your own"]
        for (env, method, settings), runs in frame.group_by(*CELL, maintain_order=True):
            seeds = ", ".join(map(str, runs["seed"]))
            lines.append(f"  {env:<22} {method:<7} {settings}; seed {seeds}")
        return lines


class BenchRuns(OwnRuns):
    """Whatever `bench` was asked for."""

    name = BENCH
    about = "the shortlist on environments of your own, by `sibling-replay bench`"


OWN = OwnRuns()
STUDIES = (OWN, BenchRuns())

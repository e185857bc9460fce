"""What `reproduce minatar` was asked for, as runs, a job, and the learning rates it selects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sibling_replay.experiments import store
from sibling_replay.experiments.minatar_choice import beginning_lines, rate_lines
from sibling_replay.experiments.minatar_job import MinAtarJob
from sibling_replay.experiments.minatar_spec import (
    NO_RATES,
    RATE_STUDY,
    SEEDS,
    STUDY,
    Rates,
    minatar_run,
    minatar_runs,
    rate_runs,
    selected_rates,
)
from sibling_replay.experiments.runner import Report
from sibling_replay.experiments.spec import Run, select
from sibling_replay.grouping.vqvae.files import encoder_files, own_encoders
from sibling_replay.training.minatar_config import MinAtarConfig


@dataclass(frozen=True)
class MinAtarPlan:
    """The choice of runs; an empty tuple chooses all."""

    games: tuple[str, ...]
    methods: tuple[str, ...]
    conditions: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int | None  # None: the paper's
    job: MinAtarJob

    def carry_out(
        self,
        out: Path,
        select_lr: bool,
        run: Callable[[tuple[Run, ...], str], Report],
        say: Callable[[str], None] = lambda line: None,
    ) -> Report:
        """Do the runs by `run(runs, title)`, first those that select learning rates if asked to.
        `say` is told what is chosen on the user's behalf."""
        for line in self.encoder_lines():
            say(line)
        rates: Rates = NO_RATES
        if select_lr:
            trials = self.rate_runs()
            for trial in trials:
                _check_comparable(trial)
            self._prepare(out, trials, say)
            report = run(trials, "minatar, learning rates")
            if report.failures:
                return report
            rates = self.selected(out)
            for line in rate_lines(self._trials(out), rates):
                say(line)
        chosen = self.runs(rates)
        self._prepare(out, chosen, say)
        return run(chosen, "minatar")

    def runs(self, rates: Rates = NO_RATES) -> tuple[Run, ...]:
        """The chosen runs, with the paper's learning rates or those given."""
        runs = minatar_runs(self._digests(), rates, self._seeds, **self._shortened())
        return select(runs, self.games, self.methods, self._seeds, self.conditions)

    def rate_runs(self) -> tuple[Run, ...]:
        """The runs that choose the learning rates of the chosen games and methods."""
        runs = rate_runs(self._digests(), self._seeds, **self._shortened())
        return select(runs, self.games, self.methods, self._seeds)

    def selected(self, out: Path) -> dict[tuple[str, str], float]:
        """The learning rates that the finished `rate_runs` choose."""
        return selected_rates(self._trials(out))

    def _trials(self, out: Path) -> pl.DataFrame:
        ids = [run.id for run in self.rate_runs()]
        frame = store.load_runs(out, [RATE_STUDY])
        return frame.filter(frame["run"].is_in(ids))

    def encoder_lines(self) -> list[str]:
        """Which encoder makes the groups of each chosen game, and where it is from."""
        configs = [run.config for run in self.runs()]
        games = list(dict.fromkeys(c.env for c in configs if c.method == "SAMPLE"))
        place = self.job.encoders
        own = {} if place is None else own_encoders(place)
        if place is not None and not games:
            raise ValueError("--encoders is for SAMPLE's groups, and no chosen run is of SAMPLE")
        if place is not None and not own.keys() & set(games):
            raise ValueError(f"--encoders {place}: no encoder of {', '.join(games)} is there")
        files = encoder_files(place)
        lines = []
        for game in games:
            of = f"of {place}" if game in own else "of the package"
            if place is not None and game not in own:
                of += f", as {place} has none of {game}"
            lines.append(f"encoder {files[game].description} ({of})")
        return lines

    def _prepare(self, out: Path, runs: tuple[Run, ...], say: Callable[[str], None]) -> None:
        """What is to be seen to before these runs are done."""
        self.settle(out, runs)
        finished = store.finished(out, runs)
        todo = [run.config for run in runs if run.id not in finished]
        configs = [config for config in todo if isinstance(config, MinAtarConfig)]
        for config in configs:
            self.job.checkpoint(config).check_free()
        for line in beginning_lines(out, configs, self.job):
            say(line)

    def settle(self, out: Path, runs: tuple[Run, ...]) -> None:
        """Before these runs are done: a run that selects a rate and a clean run of the study may
        be the same, and is done once. And whoever was killed after it had stored a run could not
        delete its checkpoints."""
        twins = {run.id: _twin(run) for run in runs}
        there = store.check_finished(out, twins.values())
        finished = store.check_finished(out, runs)
        for run in runs:
            if run.id not in finished and twins[run.id].id in there:
                store.adopt_run(out, run, twins[run.id])
                finished.add(run.id)
            if run.id in finished:
                self.job.forget(run)

    def _digests(self) -> dict[str, str]:
        files = encoder_files(self.job.encoders)
        return {game: file.encoder.digest for game, file in files.items()}

    @property
    def _seeds(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.seeds)) or tuple(SEEDS)

    def _shortened(self) -> dict[str, int]:
        return {} if self.steps is None else {"steps": self.steps}


def _twin(run: Run) -> Run:
    """The run of the same config in the other of the two studies."""
    assert isinstance(run.config, MinAtarConfig)
    return minatar_run(STUDY if run.study == RATE_STUDY else RATE_STUDY, run.config)


def _check_comparable(trial: Run) -> None:
    """Refuse a run without an area under its curve, by which rates are compared."""
    config = trial.config
    if isinstance(config, MinAtarConfig) and config.steps <= config.eval_interval:
        raise ValueError(
            f"--select-lr compares areas under curves, which take two evaluations: "
            f"--steps must be more than {config.eval_interval}, got {config.steps}"
        )

"""The MinAtar study, and the one that chooses its learning rates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
from rich.table import Table

from sibling_replay.artefacts.entries import Frames
from sibling_replay.artefacts.on_terminal import NOTE, comparison_table
from sibling_replay.grouping.vqvae.files import encoder_files, own_encoders
from sibling_replay.running import store
from sibling_replay.running.kept_states import STATES
from sibling_replay.running.runs import Run, select
from sibling_replay.studies.minatar import coverage, tables
from sibling_replay.studies.minatar.choice import beginning_lines, rate_lines
from sibling_replay.studies.minatar.encoders import no_support, read_support
from sibling_replay.studies.minatar.entries import LATENT
from sibling_replay.studies.minatar.job import MinAtarJob
from sibling_replay.studies.minatar.needs import ENCODERS, MinAtarNeeds
from sibling_replay.studies.minatar.runs import (
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
from sibling_replay.studies.study import Choice, Coverage, Source, Stage, Study
from sibling_replay.training.minatar.config import MINATAR_METHODS, MinAtarConfig

DEVICE, GPU_SHARE, CHECKPOINT_MINUTES = "cpu", 0.125, 5.0


class _Games(Study):
    """What the two studies share: the job, and what is to be seen to before runs are done."""

    options = frozenset(
        {"condition", "encoders", "device", "gpu_share", "checkpoint_minutes", "keep_states"}
    )

    def job(self, choice: Choice) -> MinAtarJob:
        # a node of a cluster works in another directory: the job says where, from the root
        here, own = choice.out.resolve(), choice.options.get("encoders")
        return MinAtarJob(
            here / "checkpoints",
            own and own.resolve(),
            60.0 * choice.options.get("checkpoint_minutes", CHECKPOINT_MINUTES),
            choice.options.get("device", DEVICE),
            here / STATES if choice.options.get("keep_states", True) else None,
        )

    def _stage(self, choice: Choice, title: str, runs: tuple[Run, ...]) -> Iterator[str | Stage]:
        """Runs that go on from their checkpoints."""
        job = self.job(choice)
        share = choice.options.get("gpu_share", GPU_SHARE)
        if not 0.0 < share <= 1.0:
            raise ValueError(f"--gpu-share must be in (0, 1], got {share:g}")
        settle(choice.out, runs, job)
        finished = store.finished(choice.out, runs)
        todo = [run.config for run in runs if run.id not in finished]
        configs = [config for config in todo if isinstance(config, MinAtarConfig)]
        for config in configs:
            job.checkpoint(config).check_free()
        yield from beginning_lines(choice.out, configs, job)
        yield Stage(title, runs, job, share if job.device.startswith("cuda") else 0.0)


class MinAtarStudy(_Games):
    """Five games, three methods, clean and with the tail."""

    name = STUDY
    about = (
        "the games, 150 runs of 5 million steps (5 to 11 core-hours each: see --game, --method, "
        "--condition, --seeds and --steps); a run that is interrupted goes on from its checkpoint"
    )
    options = _Games.options | {"select_lr"}
    sections = (LATENT,)

    def runs(self, choice: Choice, rates: Rates = NO_RATES) -> tuple[Run, ...]:
        """With the paper's learning rates, or those given."""
        seeds = _seeds(choice)
        methods = choice.methods_of(MINATAR_METHODS)
        runs = minatar_runs(_digests(choice), rates, seeds, methods, **choice.settings)
        conditions = choice.options.get("condition", ())
        return select(runs, choice.envs, choice.methods, seeds, conditions)

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        runs = self.runs(choice)
        yield from encoder_lines(choice, runs)
        yield from own_lines(runs)
        rates: Rates = NO_RATES
        if choice.options.get("select_lr"):
            yield from RATES.trials(choice)
            found = RATES.finished(choice)
            rates = selected_rates(found)
            yield from rate_lines(found, rates)
        yield from self._stage(choice, STUDY, self.runs(choice, rates))

    def compared(self, frame: pl.DataFrame) -> pl.DataFrame:
        return coverage.of_the_paper(frame)

    def own(self, frame: pl.DataFrame) -> pl.Series:
        return coverage.has_own_settings(frame)

    def status_lines(self, out: Path) -> list[str]:
        return coverage.status_lines(out)

    def tables(self, frame: pl.DataFrame) -> Iterator[Table | str]:
        """AUC return by condition and length; runs shorter than the paper's are not judged."""
        found = self.compared(frame)
        if found.height:
            yield comparison_table(
                tables.compare_auc(found),
                ("condition", "steps", "env", "metric"),
                f"MinAtar AUC return (paper: {coverage.PAPER_STEPS:,} steps)",
                f"{NOTE}; none for runs of another length than the paper's",
            )
        yield from self.others(frame, found)

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        encoders = source.directory / f"{ENCODERS}.csv"
        trials = source.runs(RATE_STUDY)
        return {
            STUDY: self.compared(source.runs(STUDY)),
            RATE_STUDY: trials.filter(~coverage.has_own_settings(trials)),
            ENCODERS: read_support(encoders) if encoders.is_file() else no_support(),
        }

    def coverage(self, frames: Frames) -> Coverage:
        needs = MinAtarNeeds()
        return Coverage(needs.done(frames), needs.total, needs.gap(frames))


class RateChoice(_Games):
    """The runs by which learning rates are chosen, as the paper chose its own."""

    name = RATE_STUDY
    about = "the runs on clean games that choose learning rates, as in `minatar --select-lr`"
    options = _Games.options - {"condition"}

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        seeds = _seeds(choice)
        methods = choice.methods_of(MINATAR_METHODS)
        runs = rate_runs(_digests(choice), seeds, methods, **choice.settings)
        return select(runs, choice.envs, choice.methods, seeds)

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        yield from encoder_lines(choice, self.runs(choice))
        yield from self.trials(choice)
        found = self.finished(choice)
        yield from rate_lines(found, selected_rates(found))

    def trials(self, choice: Choice) -> Iterator[str | Stage]:
        """The runs that choose, and nothing else."""
        runs = self.runs(choice)
        for run in runs:
            _check_comparable(run)
        yield from self._stage(choice, "minatar, learning rates", runs)

    def finished(self, choice: Choice) -> pl.DataFrame:
        """The stored ones among the chosen runs."""
        ids = [run.id for run in self.runs(choice)]
        frame = store.load_runs(choice.out, [RATE_STUDY])
        return frame.filter(frame["run"].is_in(ids))


RATES = RateChoice()


def _seeds(choice: Choice) -> tuple[int, ...]:
    return tuple(dict.fromkeys(choice.seeds)) or tuple(SEEDS)


def _digests(choice: Choice) -> dict[str, str]:
    files = encoder_files(choice.options.get("encoders"))
    return {game: file.encoder.digest for game, file in files.items()}


def encoder_lines(choice: Choice, runs: tuple[Run, ...]) -> list[str]:
    """Which encoder makes the groups of each chosen game, and where it is from."""
    place = choice.options.get("encoders")
    configs = [run.config for run in runs if isinstance(run.config, MinAtarConfig)]
    games = list(dict.fromkeys(config.env for config in configs if config.encoder))
    own = {} if place is None else own_encoders(place)
    if place is not None and not games:
        raise ValueError("--encoders is for groups, as SAMPLE's, and no chosen run has any")
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


def own_lines(runs: tuple[Run, ...]) -> list[str]:
    """What is chosen that the paper does not have."""
    frame = pl.DataFrame({"run": [run.id for run in runs]}, schema={"run": pl.String})
    settings = int(coverage.has_own_settings(frame).sum())
    methods = dict.fromkeys(run.config.method for run in runs)
    others = [method for method in methods if method not in MINATAR_METHODS]
    lines = []
    if settings:
        lines.append(
            f"{settings} of these runs have settings of your own: no comparison counts them"
        )
    if others:
        lines.append(
            f"{', '.join(others)}: not in the paper, so without published numbers or learning rate "
            "(SAMPLE's is taken, or PER's where there are no groups)"
        )
    return lines


def settle(out: Path, runs: tuple[Run, ...], job: MinAtarJob) -> None:
    """Reuse results of identical configs, as a run that selects a rate and a clean run of the study
    may be, and delete checkpoints that were left over by a kill after a run was stored."""
    twins = {run.id: _twin(run) for run in runs}
    there = store.check_finished(out, twins.values())
    finished = store.check_finished(out, runs)
    for run in runs:
        if run.id not in finished and twins[run.id].id in there:
            store.adopt_run(out, run, twins[run.id])
            finished.add(run.id)
        if run.id in finished:
            job.forget(run)


def _twin(run: Run) -> Run:
    """The run of the same config in the other of the two studies."""
    assert isinstance(run.config, MinAtarConfig)
    return minatar_run(STUDY if run.study == RATE_STUDY else RATE_STUDY, run.config)


def _check_comparable(trial: Run) -> None:
    """Refuse a run without an area under its curve, by which rates are compared."""
    config = trial.config
    if isinstance(config, MinAtarConfig) and config.steps <= config.eval_every_steps:
        raise ValueError(
            f"--select-lr compares areas under curves, which take two evaluations: "
            f"--steps must be more than {config.eval_every_steps}, got {config.steps}"
        )

"""What studies of the compiled trainer share: their job, how often they are measured, what an
artefact of theirs needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from sibling_replay.artefacts.entries import Frames, Gap
from sibling_replay.artefacts.summaries import measured
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.study import Choice, Coverage, Study
from sibling_replay.training.config import ENVIRONMENTS, TabularConfig, paper_config
from sibling_replay.training.results import RunResult

LAKES = ("FrozenLake-H100/H300", "FrozenLake-H50")

# "every 1000 steps in Bandit and TwoChains and every 2000 steps in FrozenLake" (appendix
# "Measurements across the parameter sweep"); the main comparison is measured as often
DIAGNOSTICS_EVERY: dict[str, int] = {env: 2_000 if env in LAKES else 1_000 for env in ENVIRONMENTS}

MOST_CELLS = 40  # of which the report says one by one what is missing

# every part of the trainer once, in a few milliseconds
_TINY = {
    "steps": 20,
    "learning_starts": 5,
    "capacity": 10,
    "batch_size": 2,
    "hidden": 2,
    "eval_episodes": 1,
    "eval_every_episodes": 1,
    "diagnostics_every": 10,
}


@dataclass(frozen=True)
class TabularJob:
    """What a worker calls with a config."""

    def __call__(self, config: TabularConfig) -> RunResult:
        # slow to import: by workers only
        from sibling_replay.training.tabular.trainer import train_tabular

        return train_tabular(config)

    def prepare(self) -> None:
        """Compile the trainer's kernels, or load them from disk, so that the first run is timed as
        all others are."""
        _compile()


@cache
def _compile() -> None:
    TabularJob()(paper_config("OutlierBandit", "AVG", seed=0, **_TINY))


@dataclass(frozen=True)
class RunNeeds:
    """The runs of a study that an artefact is made of; an empty filter lets everything pass."""

    study: str
    envs: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    cell: tuple[float, float] | None = None  # (alpha, beta) of the sweep
    diagnostics: bool = False

    def runs(self) -> list[Run]:
        return [
            run
            for run in study_named(self.study).declared
            if (not self.envs or run.config.env in self.envs)
            and (not self.methods or run.config.method in self.methods)
            and self.cell in (None, (run.config.alpha, run.config.beta_start))
        ]

    @property
    def total(self) -> int:
        return len(self.runs())

    def done(self, frames: Frames) -> int:
        return len({run.id for run in self.runs()} & set(frames[self.study]["run"]))

    def gap(self, frames: Frames) -> Gap | None:
        frame = frames[self.study]
        wanted = self.runs()
        stored = set(frame["run"])
        usable = set(measured(frame, "outcome_tv")["run"]) if self.diagnostics else stored
        missing = [run for run in wanted if run.id not in usable]
        if not missing:
            return None
        lines = _by_environment(wanted, usable, study_named(self.study).contender)
        if any(run.id in stored for run in missing):
            lines.append("some stored runs recorded no diagnostics: delete their files first")
        command = f"sibling-replay reproduce {self.study}"
        envs = dict.fromkeys(run.config.env for run in missing)
        if len(envs) < len({run.config.env for run in study_named(self.study).declared}):
            command += f" --env {' '.join(envs)}"
        return Gap(tuple(lines), command, everything=len(missing) == len(wanted))


def _by_environment(
    wanted: Sequence[Run], usable: set[str], contender: Callable[[Run], str]
) -> list[str]:
    """ "TwoChains: PER 4 of 10 runs, AVG none"; of a large study how many there are, no more."""
    done: dict[str, dict[str, list[bool]]] = {}
    for run in wanted:
        methods = done.setdefault(run.config.env, {})
        methods.setdefault(contender(run), []).append(run.id in usable)
    if sum(map(len, done.values())) > MOST_CELLS:
        return [f"{sum(run.id in usable for run in wanted):,} of {len(wanted):,} runs"]
    lines = []
    for env, methods in done.items():
        parts = [
            f"{method} {sum(there)} of {len(there)} runs" if any(there) else f"{method} none"
            for method, there in methods.items()
            if not all(there)
        ]
        if len(parts) == len(methods) and not any(any(there) for there in methods.values()):
            parts = [f"none of {sum(map(len, methods.values()))} runs"]
        if parts:
            lines.append(f"{env}: {', '.join(parts)}")
    return lines


class TabularStudy(Study):
    """A study of the compiled trainer."""

    def job(self, choice: Choice) -> JobFunction:
        return TabularJob()

    def coverage(self, frames: Frames) -> Coverage | None:
        if not self.sections:
            return None
        needs = RunNeeds(self.name)
        return Coverage(needs.done(frames), needs.total, needs.gap(frames))

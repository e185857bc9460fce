"""Run what is missing of a study, and never lose a run.

A run is a pure function of its config, so a study is a bag of independent jobs: in any order, on
any backend, any number of times, each gives the same bytes. That makes recovery simple enough to
trust. The process that calls `run_study` is the only writer: workers compute and send results back,
it stores each one atomically as it arrives. Whatever dies, what was stored stays, and the next call
does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from sibling_replay.experiments import store
from sibling_replay.experiments.jobs import Backend, Outcome
from sibling_replay.experiments.spec import Run


@dataclass(frozen=True)
class Progress:
    """How far a study is; steps are environment steps and count only runs done in this call."""

    total: int  # runs asked for
    already: int  # of these, on disk before this call
    done: int
    failed: int
    steps: int
    steps_left: int
    seconds: float  # since the call began
    seconds_left: float | None  # None until a run has finished
    last: Outcome | None = None

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds > 0 else 0.0


@dataclass
class Report:
    """What a call of `run_study` did. `failures` is what a command must exit non-zero for."""

    total: int
    already: int
    done: int = 0
    failures: list[Outcome] = field(default_factory=list)


def run_study(
    runs: Sequence[Run],
    root: Path,
    backend: Backend,
    observe: Callable[[Progress], None] = lambda progress: None,
) -> Report:
    """Do the runs that `root` lacks, storing each as it finishes.

    `observe` is called once at the start and after every run. A failing run is kept for the report
    and stops nothing; a failing disk (OSError) stops everything.
    """
    store.clean(root)
    finished = store.check_finished(root, runs)
    todo = [run for run in runs if run.id not in finished]
    report = Report(total=len(runs), already=len(finished))
    steps, left = 0, sum(run.config.steps for run in todo)
    start = time.monotonic()
    busy = 0.0  # seconds of all workers together
    pace: list[float] = []  # seconds per step of each run done

    def tell(last: Outcome | None) -> None:
        elapsed = time.monotonic() - start
        # the median forgets the first runs, which wait for compilation
        remaining = left * median(pace) / max(1.0, busy / elapsed) if pace else None
        observe(
            Progress(
                total=report.total,
                already=report.already,
                done=report.done,
                failed=len(report.failures),
                steps=steps,
                steps_left=left,
                seconds=elapsed,
                seconds_left=remaining,
                last=last,
            )
        )

    tell(None)
    if not todo:
        return report
    with closing(backend.execute(todo)) as outcomes:
        for outcome in outcomes:
            left -= outcome.run.config.steps
            if outcome.result is None:
                report.failures.append(outcome)
            else:
                store.save_run(root, outcome.run, outcome.result)
                report.done += 1
                steps += outcome.run.config.steps
                busy += outcome.seconds
                pace.append(outcome.seconds / outcome.run.config.steps)
            tell(outcome)
    return report

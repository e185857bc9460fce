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

from sibling_replay.files import make_writable, remove_leftovers
from sibling_replay.running import store
from sibling_replay.running.jobs import FROM_SCRATCH, Backend, Outcome, Preparing, Resumable
from sibling_replay.running.runs import Run


@dataclass(frozen=True)
class Progress:
    """How far a study is; steps are environment steps, and those taken in this call count."""

    total: int  # runs asked for
    already: int  # of these, on disk before this call
    done: int
    failed: int
    underway: float  # parts of the runs that have begun, added up
    steps: int
    steps_left: int
    seconds: float  # since the first step, as far as one knows: compiling comes before it
    seconds_left: float | None  # None until a step is known of
    last: Outcome | None = None
    preparing: bool = False  # no worker is ready yet

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds > 0 else 0.0


@dataclass
class Tally:
    """What a call of `run_study` did. `failures` is what a command must exit non-zero for."""

    total: int
    already: int
    done: int = 0
    failures: list[Outcome] = field(default_factory=list)


class _Pace:
    """How fast steps are taken, by the runs that ended and those that are under way."""

    def __init__(self, todo: Sequence[Run], jobs: Resumable) -> None:
        self._jobs = jobs
        self._open = {run.id: run for run in todo}
        self._before = {run.id: jobs.steps_done(run) for run in todo}  # steps of earlier calls
        self._ended = 0  # steps of runs that ended
        self._busy = 0.0  # seconds of all workers together
        self._each: list[float] = []  # seconds a step of each run that ended
        self._seen = False  # whether runs tell how far they are
        self._start = time.monotonic()
        self._first: float | None = None  # when the first of the runs that ended began

    def end(self, outcome: Outcome) -> None:
        del self._open[outcome.run.id]
        if outcome.result is not None:
            steps = max(1, outcome.run.config.steps - self._before[outcome.run.id])
            self._ended += steps
            self._busy += outcome.seconds
            self._each.append(outcome.seconds / steps)
            began = time.monotonic() - outcome.seconds
            self._first = began if self._first is None else min(self._first, began)

    def progress(self, report: Tally, last: Outcome | None, preparing: bool = False) -> Progress:
        done = {name: self._jobs.steps_done(run) for name, run in self._open.items()}
        left = sum(run.config.steps - done[name] for name, run in self._open.items())
        # a run that was killed goes back to its checkpoint, so it may be behind its last note
        taken = sum(max(0, now - self._before[name]) for name, now in done.items())
        steps = self._ended + taken
        self._seen = self._seen or any(done.values())
        start = self._start if self._seen or self._first is None else self._first
        elapsed = time.monotonic() - start
        remaining = None
        if self._seen and steps:
            remaining = left * elapsed / steps
        elif self._each:
            remaining = left * median(self._each) / max(1.0, self._busy / elapsed)
        return Progress(
            total=report.total,
            already=report.already,
            done=report.done,
            failed=len(report.failures),
            underway=sum(done[name] / run.config.steps for name, run in self._open.items()),
            steps=steps,
            steps_left=left,
            seconds=elapsed,
            seconds_left=remaining,
            last=last,
            preparing=preparing,
        )


def run_study(
    runs: Sequence[Run],
    root: Path,
    backend: Backend,
    observe: Callable[[Progress], None] = lambda progress: None,
    jobs: Resumable = FROM_SCRATCH,
) -> Tally:
    """Do the runs that `root` lacks, storing each as it finishes.

    `observe` is called once at the start, after every run, and now and then in between (`last` is
    None then). A failing run is kept for the report and stops nothing; a failing disk (OSError)
    stops everything, before the first run if it fails already.
    """
    remove_leftovers(root)
    finished = store.check_finished(root, runs)
    todo = [run for run in runs if run.id not in finished]
    report = Tally(total=len(runs), already=len(finished))
    pace = _Pace(todo, jobs)
    observe(pace.progress(report, None))
    if not todo:
        return report
    make_writable(root)
    with closing(backend.execute(todo)) as outcomes:
        for outcome in outcomes:
            last = outcome if isinstance(outcome, Outcome) else None
            if last is not None:
                if last.result is None:
                    report.failures.append(last)
                else:
                    store.save_run(root, last.run, last.result)
                    jobs.forget(last.run)
                    report.done += 1
                pace.end(last)
            observe(pace.progress(report, last, isinstance(outcome, Preparing)))
    return report

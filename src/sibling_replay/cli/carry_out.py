"""Carrying out runs for a command: the backend, the bar, the last word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sibling_replay import terminal
from sibling_replay.running.display import StudyDisplay
from sibling_replay.running.jobs import FROM_SCRATCH, Backend, JobFunction, Resumable
from sibling_replay.running.local import LocalBackend
from sibling_replay.running.runner import Tally, run_study
from sibling_replay.running.runs import Run


def new_backend(
    name: str, workers: int, address: str | None, job: JobFunction, gpus: float = 0.0
) -> Backend:
    """Something that does jobs, by its name on the command line."""
    if name == "local":
        return LocalBackend(job, workers)
    from sibling_replay.running.ray_cluster import RayBackend

    return RayBackend(job, workers, address, gpus=gpus)


def carry_out(
    runs: Sequence[Run], out: Path, backend: Backend, title: str, job: JobFunction
) -> Tally:
    """Do the runs, showing progress."""
    resumable = job if isinstance(job, Resumable) else FROM_SCRATCH
    with StudyDisplay(terminal.new_console(), title) as shown:
        return run_study(runs, out, backend, shown.observe, resumable)


def finish(report: Tally, where: Path) -> int:
    """Tell failures and counts. Returns the exit code."""
    for failure in report.failures:
        say(f"\nFAILED {failure.run.id}\n{failure.error}")
    counts = f"{report.done} done, {report.already} already there, {len(report.failures)} failed"
    say(f"{counts}: {where}")
    return 1 if report.failures else 0


def say(text: str) -> None:
    """A line, or several, on standard output."""
    shown = terminal.printable_lines(text)
    terminal.new_console().print(shown, markup=False, highlight=False, soft_wrap=True)

"""What a backend is given and gives back. Workers import this file, so it loads little.

A job is a config for a pure function; a backend is anything that does jobs.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sibling_replay.checkpoint import StateInUse
from sibling_replay.running.runs import Run
from sibling_replay.training.config import RunConfig
from sibling_replay.training.results import RunResult

JobFunction = Callable[[Any], RunResult]  # of the configs it is for

TICK = 2.0  # seconds a backend waits before it says that nothing has ended

# One job, one core. Linear-algebra libraries may also add in another order with another number of
# threads, and then the bytes would depend on the machine's load.
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "POLARS_MAX_THREADS",
    )
}


@dataclass(frozen=True)
class Outcome:
    """What came of one job: a result, or the reason there is none (a traceback, or a death)."""

    run: Run
    result: RunResult | None
    error: str = ""
    seconds: float = 0.0  # wall time of the attempt that counted; reported, never stored


class Preparing:
    """What a backend says while no worker is ready to begin with the first job."""


class Backend(Protocol):
    """Something that does jobs. Yields each outcome once, as it comes, in any order; and None (or
    `Preparing`) now and then, while there is none, so that whoever waits can look around.

    An exception in a job is an outcome. Closing the generator abandons the jobs in flight.
    """

    def execute(self, runs: Sequence[Run]) -> Generator[Outcome | Preparing | None, None, None]: ...


@runtime_checkable
class Resumable(Protocol):
    """What is known of unfinished runs whose jobs go on where they were killed."""

    def steps_done(self, run: Run) -> int:
        """Environment steps it has taken, as far as one knows."""

    def forget(self, run: Run) -> None:
        """Delete what it left behind: its result is stored."""


class _FromScratch:
    """Short jobs: they tell nothing while they run and leave nothing behind."""

    def steps_done(self, run: Run) -> int:
        return 0

    def forget(self, run: Run) -> None:
        pass


FROM_SCRATCH = _FromScratch()


@runtime_checkable
class Preparable(Protocol):
    """A job function that has something slow to do once in every process, such as compiling."""

    def prepare(self) -> None:
        """Do it; calling it again costs nothing."""


@runtime_checkable
class Checkable(Protocol):
    """A job function that may not work on every machine."""

    def check(self) -> None:
        """Refuse here and now what would fail every run."""


def attempt(function: JobFunction, config: RunConfig) -> tuple[RunResult | None, str, float]:
    """What every backend's worker does with a job: (result, what went wrong or "", wall seconds).

    Preparing is no part of a job, so it is not in the seconds.
    """
    start = time.perf_counter()
    try:
        if isinstance(function, Preparable):
            function.prepare()
            start = time.perf_counter()
        result = function(config)
    except StateInUse as error:  # no failure of the run: somebody else is at it
        return None, f"{error}\n", time.perf_counter() - start
    except OSError as error:  # a full disk, say: where is all there is to know
        return None, f"{type(error).__name__}: {error}", time.perf_counter() - start
    except Exception:
        return None, traceback.format_exc(), time.perf_counter() - start
    return result, "", time.perf_counter() - start


@contextmanager
def environment(variables: dict[str, str]) -> Generator[None, None, None]:
    """Set environment variables for the processes started inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""Jobs on this machine's cores, in worker processes that may die.

Why processes, when the compiled trainer releases the GIL and threads would share its compiled code:
a thread cannot be killed or crash alone. A worker that is out of memory, segfaults or is killed
takes down only its own job; the others do not notice. The price is half a second of imports per
worker, once. Processes are spawned, not forked: Numba's and Polars' threads do not survive a fork.

The standard pool is not used because it treats one dead worker as the end of the pool, and every
job in flight is lost with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from sibling_replay.first_use import NOTICE
from sibling_replay.running.jobs import (
    ONE_THREAD,
    TICK,
    JobFunction,
    Outcome,
    Preparable,
    Preparing,
    attempt,
    environment,
)
from sibling_replay.running.runs import Run


class WorkersCannotStart(RuntimeError):
    """Worker after worker died before it was ready: no run can be done on this machine."""


@dataclass
class _Job:
    run: Run
    deaths: int = 0  # workers that died under this job


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    ready: bool = False
    job: _Job | None = None


class LocalBackend:
    """`workers` processes, each doing one job at a time.

    A job whose worker dies is given to a new worker, at most `retries` times: a job that kills
    every worker it meets must end as a failure, not as a loop. An exception is not retried, since
    a pure function would raise it again.

    If the function has to be prepared, the first worker does so before others are started: they
    find its compiled kernels on disk, instead of all compiling the same at once.
    """

    def __init__(self, function: JobFunction, workers: int, retries: int = 2) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.function = function
        self.workers = workers
        self.retries = retries

    def execute(self, runs: Sequence[Run]) -> Generator[Outcome | Preparing | None, None, None]:
        waiting = deque(_Job(run) for run in runs)
        workers: list[_Worker] = []
        prepared = not isinstance(self.function, Preparable)
        failed_starts = 0  # in a row
        try:
            while waiting or any(worker.job for worker in workers):
                in_flight = sum(worker.job is not None for worker in workers)
                wanted = min(self.workers, len(waiting) + in_flight)
                while len(workers) < (wanted if prepared else 1):
                    workers.append(_start(self.function))
                heard = wait([worker.pipe for worker in workers], TICK)
                if not heard:
                    yield None if prepared else Preparing()
                for pipe in heard:
                    worker = next(worker for worker in workers if worker.pipe is pipe)
                    try:
                        message = worker.pipe.recv()
                    except (EOFError, OSError):  # it is dead: the other end is closed
                        workers.remove(worker)
                        death = _death(worker)
                        if not worker.ready:
                            failed_starts += 1
                            if failed_starts > self.retries:
                                raise WorkersCannotStart(
                                    f"{failed_starts} workers in a row died while starting, "
                                    f"the last {death}; their messages are on stderr"
                                ) from None
                        elif worker.job is not None:
                            job = worker.job
                            job.deaths += 1
                            if job.deaths <= self.retries:
                                waiting.appendleft(job)
                            else:
                                yield Outcome(job.run, None, _killed(job, death))
                        continue
                    if worker.ready and worker.job is not None:
                        result, error, seconds = message
                        done, worker.job = worker.job, None
                        _feed(worker, waiting)  # before the yield: storing must not idle a core
                        yield Outcome(done.run, result, error, seconds)
                    else:
                        worker.ready, failed_starts, prepared = True, 0, True
                        _feed(worker, waiting)
        finally:
            for worker in workers:
                worker.process.kill()  # a job in flight has nothing to clean up
            for worker in workers:
                worker.process.join()
                worker.pipe.close()


def _feed(worker: _Worker, waiting: deque[_Job]) -> None:
    if not waiting:
        return
    job = waiting.popleft()
    worker.job = job
    with suppress(BrokenPipeError, ConnectionResetError):  # died idle: noticed at the next wait
        worker.pipe.send(job.run.config)


def _start(function: JobFunction) -> _Worker:
    """A new process, single-threaded in its libraries and deaf to Ctrl-C.

    Ctrl-C reaches every process of the terminal; only the runner may answer it. Blocking it here,
    around the start, leaves no moment at which a half-started child could be interrupted.
    """
    resource_tracker.ensure_running()  # starting it with the first process would undo the mask
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, function), daemon=True)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with environment(ONE_THREAD):
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    theirs.close()  # else the pipe would stay open, and a death unnoticed
    return _Worker(process, ours)


def _work(pipe: Connection, function: JobFunction) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    NOTICE.silent = True  # the display says that workers prepare
    if isinstance(function, Preparable):
        with suppress(Exception):  # the first job meets it again, and reports it as its failure
            function.prepare()
    pipe.send("ready")
    with suppress(EOFError, OSError):  # the runner is gone or has no more for us
        while True:
            pipe.send(attempt(function, pipe.recv()))


def _die_with_parent() -> None:
    """A killed runner cannot tell its workers; they watch it, and stop in mid-run."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _death(worker: _Worker) -> str:
    worker.process.join()
    worker.pipe.close()
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _killed(job: _Job, death: str) -> str:
    return f"its worker process died {job.deaths} times, the last {death}; given up\n"

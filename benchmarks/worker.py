"""A process that hosts one contestant on one core and obeys JSON commands, a line each, on stdin.

The driver keeps one worker per contestant alive and lets only one of them work at a time. Times are
CPU times of this process: what another process does on the machine shows in them only through the
caches.

    {"do": "build", "capacity": 5000, "batch_size": 32, "payload": "tabular"}
    {"do": "cycles", "n": 1000}   1 add + 1 sample + 1 update, no timer inside: the headline
    {"do": "parts", "n": 1000}    add, sample and update each in a loop of its own
    {"do": "versions"}            what is being measured
Each answer is a line of JSON; one with the key "error" means the command failed.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import platform
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version

from contestants import CONTESTANTS, load

WARM_UP = 200  # cycles after a fill, untimed
HELD_BATCHES = 16  # drawn before the loop of updates, which would else write the same leaves always
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Host:
    """The commands, as methods."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contestant = None
        self.added = 0

    def build(self, capacity: int, batch_size: int, payload: str) -> dict:
        self.contestant = None  # let the last cell's memory go first
        gc.collect()
        started = time.perf_counter()
        self.contestant = load(self.name)(capacity, batch_size, payload)
        self.contestant.fill()
        self.cycles(WARM_UP)
        self.parts(HELD_BATCHES)
        gc.collect()
        return {"seconds": time.perf_counter() - started}

    def cycles(self, n: int) -> dict:
        self._cycle(n // 4)  # the caches hold what the last contestant left there
        started = time.process_time_ns()
        self._cycle(n)
        return {"cycle": (time.process_time_ns() - started) / n / 1e3}

    def _cycle(self, n: int) -> None:
        add, sample, update = self.contestant.add, self.contestant.sample, self.contestant.update
        first, self.added = self.added, self.added + n
        for i in range(first, first + n):
            add(i)
            sample()
            update()

    def parts(self, n: int) -> dict:
        contestant = self.contestant
        add, sample, update = contestant.add, contestant.sample, contestant.update
        clock = time.process_time_ns
        first, self.added = self.added, self.added + n
        t0 = clock()
        for i in range(first, first + n):
            add(i)
        t1 = clock()
        for _ in range(n):
            sample()
        t2 = clock()
        held = [sample() for _ in range(HELD_BATCHES)]
        t3 = clock()
        for contestant.last in itertools.islice(itertools.cycle(held), n):
            update()
        t4 = clock()
        times = {"add": t1 - t0, "sample": t2 - t1, "update": t4 - t3}
        return {part: ns / n / 1e3 for part, ns in times.items()}

    def versions(self) -> dict:
        names = (CONTESTANTS[self.name][2], "numpy", "numba", "torch", "tensordict")
        found = {}
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return {"python": platform.python_version(), **found}


def main() -> None:
    name, core = sys.argv[1], int(sys.argv[2])
    os.sched_setaffinity(0, {core})
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read when the contestant's library is loaded
    host = Host(name)
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints does no harm
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(host, command.pop("do"))(**command)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

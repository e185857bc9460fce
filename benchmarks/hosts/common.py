"""What the host benchmarks share: one core, one thread, pieces in turn, CPU time, a JSON file.

Import it before numpy and torch: they read the number of threads when they are loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

PIECES = 40  # of each contestant; a figure is the median piece

Piece = Callable[[], int]  # takes some training steps and returns how many


def race(contestants: Mapping[str, Piece], pieces: int = PIECES) -> dict[str, float]:
    """CPU microseconds per step of each, on one core, their pieces interleaved."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = list(contestants)
    for name in names:  # compile, fill caches
        contestants[name]()
    figures: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(pieces):
        shift = turn % len(names)  # nobody always follows the same neighbour
        for name in names[shift:] + names[:shift]:
            start = time.process_time_ns()
            steps = contestants[name]()
            figures[name].append((time.process_time_ns() - start) / 1e3 / steps)
    return {name: statistics.median(values) for name, values in figures.items()}


def learning(model: Any, filled: int, steps: int) -> Piece:
    """Whole steps of an SB3 model: act, step the environment, store, draw, update, refresh. Its
    buffer is filled with random play first."""
    model.learn(filled)

    def piece() -> int:
        model.learn(steps, reset_num_timesteps=False)
        return steps

    return piece


def output_file() -> Path:
    """The FILE of `--out FILE`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args().out


def result(host: str, version: str, figures: Mapping[str, float], note: str) -> dict[str, Any]:
    """A table of `hosts.md`."""
    rows = [{"variant": name, "us_per_step": value} for name, value in figures.items()]
    return {"host": host, "version": version, "rows": rows, "note": note}


def write(path: Path, host: str, version: str, figures: Mapping[str, float], note: str) -> None:
    """What `benchmarks/hosts.py` reads: one table."""
    path.write_text(json.dumps(result(host, version, figures, note), indent=1) + "\n")


def write_all(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """The same of several."""
    path.write_text(json.dumps(results, indent=1) + "\n")

"""The compiled trainer beside its floor and beside the torch trainer: CPU time per step.

One core, one process, FrozenLake-H100/H300 with the paper's settings. Whole runs (act, step, add,
draw, update, refresh, and the evaluations when they are due) are cut into pieces, and a piece of
every contestant is timed in turn, so that whatever else the machine does hits all of them alike.

The second table is of every contender of the bench (`sibling_replay.studies.rivals`) beside PER.

The floor is three 64x64x64 float32 products (BLAS) and one Adam pass over as many parameters as the
network has: what one update would cost if nothing else did. The torch trainer is timed without its
evaluations, which flatters it.

    python benchmarks/train.py [--steps 500000] [--out benchmarks/train.md]
"""

# ruff: noqa: E402  (libraries read the number of threads when they are loaded)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch are loaded

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numba import njit

from sibling_replay.studies.rivals.declared import CONTENDERS, contender_config
from sibling_replay.training.adam import adam_pass
from sibling_replay.training.config import TabularConfig, paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run
from sibling_replay.training.torch.reference import set_up

ENV = "FrozenLake-H100/H300"
METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG-g2", "AVG-g4")
TORCH_METHODS = ("PER", "SAMPLE")
SEED = 1
PIECES = 50
FLOOR_REPEATS = 2_000  # a piece
TORCH_STEPS = 40  # a piece
WIDTH = 64

# The requirements, on every method.
OVER_FLOOR = 2.0
OVER_TORCH = 20.0
SAMPLE_OVER_PER = 1.3
OVER_PER = 2.5  # of every contender of the bench, but for those that do more by their rule:
BY_NATURE = {
    "DDQN-2updates": "two updates a step",
    "AVG": "refreshes every sibling that a mean is made of, as in the paper",
    "LABER": "values and targets of four times the batch",
}

Piece = Callable[[], int]  # does some steps and returns how many


@njit(cache=True)
def floor_steps(a, b, c, theta, mean, square, grad, repeats):
    f = np.float32
    coefficients = (f(1), f(0.9), f(0.999), f(0.1), f(1e-3), f(1e-3), f(1), f(1e-8), f(1e-30))
    for _ in range(repeats):
        np.dot(a, b, c)
        np.dot(a, c, b)
        np.dot(a, b, c)
        adam_pass(theta, mean, square, grad, coefficients)


def floor_piece(n_parameters: int) -> Piece:
    rng = np.random.default_rng(0)
    # an orthogonal factor, so that repeated products neither grow nor vanish
    a = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    b, c = (rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(2))
    vectors = [rng.random(n_parameters, dtype=np.float32) for _ in range(4)]

    def piece() -> int:
        floor_steps(a, b, c, *vectors, FLOOR_REPEATS)
        return FLOOR_REPEATS

    return piece


def compiled_piece(config: TabularConfig) -> tuple[Piece, int]:
    """A piece of a whole run, and the number of its network's parameters."""
    run, draws = new_run(config)
    lent, size = Lent(run), config.steps // PIECES
    ends = itertools.count(size, size)

    def piece() -> int:
        advance(lent, draws, next(ends), False)
        return size

    return piece, run.network.theta.size


def torch_piece(method: str) -> Piece:
    """Steps with updates; those before learning starts are taken here."""
    config = paper_config(ENV, method, SEED)
    steps = set_up(config).steps(config)
    for _ in range(config.learning_starts):
        next(steps)

    def piece() -> int:
        for _ in range(TORCH_STEPS):
            next(steps)
        return TORCH_STEPS

    return piece


def measure(steps: int) -> dict[str, list[float]]:
    """CPU microseconds per step of every contestant in every piece."""
    compiled_piece(paper_config(ENV, "PER", 0, steps=6_000))[0]()  # compile
    contestants: dict[str, Piece] = {}
    for method in METHODS:
        contestants[method], n_parameters = compiled_piece(
            paper_config(ENV, method, SEED, steps=steps)
        )
    for each in CONTENDERS:
        config = contender_config(ENV, each, SEED, steps=steps)
        contestants[f"bench {each.name}"] = compiled_piece(config)[0]
    contestants = {"floor": floor_piece(n_parameters), **contestants}
    for method in TORCH_METHODS:
        contestants[f"torch {method}"] = torch_piece(method)
    contestants["floor"]()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(PIECES):
        for name, piece in contestants.items():
            before = time.process_time()
            done = piece()
            times[name].append((time.process_time() - before) / done * 1e6)
    return times


def report(times: dict[str, list[float]], steps: int) -> tuple[str, bool]:
    """The table, the requirements, and whether all are met. Whole runs count, so means do."""
    mean = {name: statistics.fmean(values) for name, values in times.items()}
    lines = [
        "# CPU time per environment step of training",
        "",
        f"{ENV}, paper settings, runs of {steps:,} steps, one core ({platform.machine()}), "
        f"{PIECES} interleaved pieces each.",
        "Written by `make bench-train`.",
        "",
        "| | us per step | of the floor | torch takes |",
        "|---|---:|---:|---:|",
        f"| floor: three 64x64x64 products, one Adam pass | {mean['floor']:.1f} | 1.00 | |",
    ]
    for method in METHODS:
        beside = mean.get(f"torch {method}")
        times_torch = f"{beside / mean[method]:.0f} x" if beside else ""
        ratio = mean[method] / mean["floor"]
        lines.append(
            f"| {method}, with evaluations | {mean[method]:.1f} | {ratio:.2f} | {times_torch} |"
        )
    for method in TORCH_METHODS:
        value = mean[f"torch {method}"]
        lines.append(f"| torch {method}, without evaluations | {value:.0f} | | 1 x |")
    lines += [
        "",
        "Every contender of the bench (`sibling-replay reproduce rivals`):",
        "",
        "| contender | what it does | us per step | of PER's | more by its rule |",
        "|---|---|---:|---:|---|",
    ]
    per = mean["bench PER"]
    for each in CONTENDERS:
        value, why = mean[f"bench {each.name}"], BY_NATURE.get(each.name, "")
        lines.append(f"| {each.name} | {each.words} | {value:.1f} | {value / per:.2f} | {why} |")
    checks = [(f"{m} over the floor", mean[m] / mean["floor"], "<=", OVER_FLOOR) for m in METHODS]
    checks += [
        (f"torch over compiled, {m}", mean[f"torch {m}"] / mean[m], ">=", OVER_TORCH)
        for m in TORCH_METHODS
    ]
    checks += [
        (f"{each.name} over PER", mean[f"bench {each.name}"] / per, "<=", OVER_PER)
        for each in CONTENDERS
        if each.name not in BY_NATURE
    ]
    low, high = sorted((mean["PER"], mean["SAMPLE"]))
    checks.append(("PER and SAMPLE, larger over smaller", high / low, "<=", SAMPLE_OVER_PER))
    lines += ["", "Required:", ""]
    passed = True
    for what, value, sign, bound in checks:
        ok = value <= bound if sign == "<=" else value >= bound
        passed &= ok
        lines.append(f"* {'pass' if ok else 'FAIL'}: {what} {value:.2f} ({sign} {bound:g})")
    return "\n".join(lines) + "\n", passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=500_000, help="steps of each compiled run")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("train.md"))
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    text, passed = report(measure(options.steps), options.steps)
    options.out.write_text(text)
    print(text)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()

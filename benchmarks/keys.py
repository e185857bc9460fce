"""What the key maps cost: one more `add`, a batch of keys, grouping anew, bytes an entry.

One core, one process. Full buffers of the same transitions, with exact keys and with each map, take
pieces of `add` in turn, so that whatever else the machine does hits all of them alike; what a map
costs is its piece minus that of exact keys in the same round. Vectors are normal and never repeat,
MinAtar's images are random play (SpaceInvaders), frames are random bytes. Maps are fitted before.

    python benchmarks/keys.py [--out benchmarks/keys.md]
"""

# ruff: noqa: E402  (libraries read the number of threads when they are loaded)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is loaded

import argparse
import gc
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sibling_replay import ReplayBuffer, SiblingSample
from sibling_replay.envs import MinAtarEnv
from sibling_replay.grouping import Downscale, FittableMap, Grid, KMeans, SimHash
from sibling_replay.replay.payload import Field

GAME = "SpaceInvaders"
ROUNDS, PIECE = 40, 1_000  # of adds
BATCH_ROUNDS = 20
FITTED = 5_000  # observations that a map is fitted to
FRAME = Downscale((11, 8), 8, KMeans(256))

Rows = np.ndarray[Any, np.dtype[Any]]
Bar = float | None  # of the requirement, where there is one


class Adds(NamedTuple):
    """Buffers of one kind of observation."""

    name: str
    obs: Rows  # twice as many as a buffer holds
    maps: dict[FittableMap, Bar]  # microseconds an add may take beyond one with exact keys


class Measured(NamedTuple):
    what: str
    value: float
    bar: Bar
    unit: str
    ratio: float | None = None  # to an exact-key add


def vectors(dims: int, count: int = 20_000) -> Rows:
    return np.random.default_rng(dims).normal(size=(count, dims)).astype(np.float32)


def random_play(count: int) -> Rows:
    env = MinAtarEnv(GAME)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    seen = []
    for _ in range(count):
        seen.append(np.array(obs))
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            obs, _ = env.reset()
    return np.stack(seen)


def buffer_of(obs: Rows, capacity: int, key: Any) -> ReplayBuffer:
    one, truth = Field(obs.dtype, obs.shape[1:]), Field(np.dtype(np.bool_))
    fields = {
        "obs": one, "action": Field(np.dtype(np.int64)), "reward": Field(np.dtype(np.float32)),
        "next_obs": one, "terminated": truth, "truncated": truth,
    }  # fmt: skip
    return ReplayBuffer(fields, capacity, SiblingSample(), key=key, seed=0)


def filled(obs: Rows, capacity: int, key: Any) -> ReplayBuffer:
    buffer = buffer_of(obs, capacity, key)
    for start in range(0, capacity, 10_000):
        part = obs[start % len(obs) :][: min(10_000, capacity - start)]
        no = np.zeros(len(part), dtype=np.int64)
        buffer.extend(part, no, no, part, no > 0, no > 0)
    return buffer


def spent(work: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds."""
    before = time.process_time()
    work(*arguments)
    return time.process_time() - before


def add_all(buffer: ReplayBuffer, rows: Iterable[Rows]) -> None:
    add = buffer.add
    for row in rows:
        add(row, 0, 0.0, row, False, False)


def time_adds(cases: list[Adds]) -> list[Measured]:
    buffers: list[tuple[Adds, list[Rows], dict[FittableMap | None, ReplayBuffer]]] = []
    for case in cases:
        keys = {None: "exact"} | {m: m.unfitted().fit(case.obs[:FITTED]) for m in case.maps}
        half = len(case.obs) // 2
        mine = {kind: filled(case.obs, half, key) for kind, key in keys.items()}
        buffers.append((case, list(case.obs), mine))
    found: dict[tuple[str, FittableMap | None], list[float]] = {}
    for number in range(ROUNDS + 1):
        for case, rows, mine in buffers:
            first = (len(rows) // 2 + number * PIECE) % (len(rows) - PIECE)
            for kind, buffer in mine.items():
                took = spent(add_all, buffer, rows[first : first + PIECE])
                if number:  # the first compiles
                    found.setdefault((case.name, kind), []).append(took / PIECE * 1e6)
    measured = []
    for case in cases:
        exact = found[case.name, None]
        measured.append(Measured(f"{case.name}, exact keys", statistics.median(exact), None, "us"))
        for kind, bar in case.maps.items():
            pairs = list(zip(found[case.name, kind], exact, strict=True))
            more = statistics.median(mine - base for mine, base in pairs)
            ratio = statistics.median(mine / base for mine, base in pairs)
            measured.append(Measured(f"{case.name}, {kind!r}", more, bar, "us more", ratio))
    return measured


def time_batches(cases: list[tuple[str, Rows, FittableMap, Bar]]) -> list[Measured]:
    works = [(name, obs, kind.unfitted().fit(obs[:FITTED]), bar) for name, obs, kind, bar in cases]
    found: dict[int, list[float]] = {}
    for number in range(BATCH_ROUNDS + 1):
        for place, (_, obs, key, _) in enumerate(works):
            took = spent(key.keys, obs)
            if number:
                found.setdefault(place, []).append(took / len(obs) * 1e6)
    return [
        Measured(f"{name}, {key!r}", statistics.median(found[place]), bar, "us")
        for place, (name, _, key, bar) in enumerate(works)
    ]


def time_rekeys(play: Rows) -> list[Measured]:
    measured = []
    wide = vectors(8, 100_000)
    for name, obs, entries, rounds, bar in (
        ("8 dims, 100,000 entries", wide, 100_000, 9, 150.0),
        ("8 dims, 1,000,000 entries", wide, 1_000_000, 3, 2_000.0),
        (f"{GAME}, 100,000 entries", play, 100_000, 5, 150.0),
    ):
        kinds = (SimHash(12), KMeans(256)) if obs is play else (Grid(4), SimHash(12))
        keys = [kind.fit(obs[:FITTED]) for kind in kinds]
        buffer = filled(obs, entries, keys[1])
        found: dict[int, list[float]] = {0: [], 1: []}
        for number in range(rounds + 1):
            for place, key in enumerate(keys):
                took = spent(buffer.rekey, key)
                if number:
                    found[place].append(took * 1e3)
        for place, key in enumerate(keys):
            # 6 us a key of KMeans are asked for, which 150 ms for 100,000 of them cannot hold.
            asked = None if isinstance(key, KMeans) else bar
            middle = statistics.median(found[place])
            measured.append(Measured(f"{name}, to {key!r}", middle, asked, "ms"))
        del buffer
        gc.collect()
    return measured


def count_bytes() -> list[Measured]:
    """Of all arrays of a buffer, as it is made: by how much they grow with an entry more."""

    def made(obs: Rows, entries: int, key: Any) -> int:
        gc.collect()
        tracemalloc.start()
        kept = buffer_of(obs, entries, key)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del kept
        return size

    def an_entry(obs: Rows, key: Any) -> float:
        few, many = 10_000, 1_000_000  # what does not depend on the number goes out
        return (made(obs, many, key) - made(obs, few, key)) / (many - few)

    measured = []
    for dims, kind, bar in ((8, Grid(4), 8.0), (32, SimHash(12), 8.0), (32, Grid(4), None)):
        obs = vectors(dims, 5_000)
        more = an_entry(obs, kind.fit(obs)) - an_entry(obs, "exact")
        # Objects that come with a map differ by some hundred bytes from buffer to buffer.
        measured.append(Measured(f"{dims} dims, {kind!r}", round(more, 2), bar, "bytes more"))
    return measured


def measure() -> dict[str, list[Measured]]:
    play = random_play(20_000)
    frames = np.random.default_rng(0).integers(256, size=(4_000, 84, 84), dtype=np.uint8)
    adds = [
        Adds(f"{dims} dims", vectors(dims), {
            Grid(2): 1.5, Grid(4): 1.5, Grid(16): 1.5, SimHash(12): 1.5, SimHash(40): 1.5
        })
        for dims in (4, 8, 32)
    ]  # fmt: skip
    adds += [
        Adds(f"MinAtar {GAME}", play, {SimHash(12): 4.0, SimHash(40): 4.0, KMeans(256): None}),
        Adds("84x84 frame", frames, {FRAME: 15.0}),
    ]
    return {
        "add": time_adds(adds),
        "a key in a batch": time_batches([
            ("8 dims", vectors(8), Grid(4), 0.2),
            ("8 dims", vectors(8), Grid(16), 0.2),
            (f"MinAtar {GAME}", play, SimHash(12), 1.0),
            (f"MinAtar {GAME}", play, KMeans(256), 6.0),
        ]),
        "rekey": time_rekeys(play),
        "memory": count_bytes(),
    }  # fmt: skip


def report(found: dict[str, list[Measured]]) -> tuple[str, bool]:
    lines = [
        "# What key maps cost",
        "",
        f"CPU time on one core ({platform.machine()}); medians of {ROUNDS} interleaved pieces of "
        f"{PIECE:,} adds to full buffers,",
        f"{BATCH_ROUNDS} batches, 3 to 9 times `rekey`. Differences and ratios are within a round. "
        "Written by `make bench-keys`.",
        "",
        "| | | | of an exact-key add | asked |",
        "|---|---|---:|---:|---:|",
    ]
    checks = []
    for part, rows in found.items():
        for row in rows:
            ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
            asked = f"{row.bar:g}" if row.bar is not None else ""
            number = f"{row.value:.2f}" if row.value < 10 else f"{row.value:.0f}"
            lines.append(f"| {part} | {row.what} | {number} {row.unit} | {ratio} | {asked} |")
            if row.bar is not None:
                checks.append((f"{part}, {row.what}", row.value, row.unit, row.bar))
    lines += [
        "",
        "No bar: a key of several integers, as of 32 dimensions in 4 bins (64 bits), takes 8 bytes "
        "for each, more than the 8 that are asked, as nothing is merged to fit; and the 6 us that "
        "are asked of a key of `KMeans(256)` are 600 ms for 100,000.",
        "",
        "Required:",
        "",
    ]
    for what, value, unit, bar in checks:
        verdict = "pass" if value <= bar else "FAIL"
        lines.append(f"* {verdict}: {what} {value:.3g} {unit} (<= {bar:g})")
    return "\n".join(lines) + "\n", all(value <= bar for _, value, _, bar in checks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("keys.md"))
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    text, passed = report(measure())
    options.out.write_text(text)
    print(text)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()

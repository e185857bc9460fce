"""Resident bytes per entry beyond the payload, in a full buffer of a million: one process a case.

The overhead is the growth of the process while the buffer is made, filled by bulk adds and used
once, less the bytes of the fields themselves. "singletons" gives every entry a group of its own;
"grouped" has the tens of entries per group of the speed benchmark; "churned" has been through
singletons, groups of a few of all sizes, and pairs, so that it has touched most of what it may.

Usage: python benchmarks/memory.py STRATEGY tabular|minatar singletons|grouped|churned
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Iterator

import numpy as np
from contestants.ours import Spaces
from workload import ALPHA, BETA, CHUNK, SEED, Columns, Workload

import sibling_replay

ENTRIES = 1_000_000
WARM_UP = 1_000
FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


def resident() -> int:
    """Bytes of this process in RAM now, once the allocator has given back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def numbered(work: Workload, numbers: np.ndarray) -> Iterator[Columns]:
    """Transitions that are siblings if their numbers are equal."""
    images = work.pool[:1].repeat(CHUNK, axis=0)
    for slots, columns in work.chunks():
        mine = numbers[slots]
        columns["action"][:] = 0
        if work.payload == "tabular":
            columns["obs"] = mine
        else:  # the number is in the first 24 pixels
            columns["obs"] = images[: len(mine)]
            flat = columns["obs"].reshape(len(mine), -1)
            flat[:, :24] = (mine[:, None] >> np.arange(24)) & 1
        yield columns


def contents(work: Workload, groups: str) -> Iterator[Columns]:
    entries = work.capacity
    singletons = np.arange(entries)
    if groups == "grouped":
        yield from (columns for _, columns in work.chunks())
    else:
        yield from numbered(work, singletons)
    if groups == "churned":
        rng = np.random.default_rng(SEED)
        yield from numbered(work, rng.integers(max(1, entries // 3), size=entries))
        yield from numbered(work, rng.permutation(singletons // 2))


def fill(strategy: str, payload: str, groups: str, entries: int) -> object:
    """A full buffer of `entries` that has been through a cycle."""
    buffer = sibling_replay.ReplayBuffer.for_env(
        Spaces(payload, n_states=ENTRIES),
        capacity=entries,
        strategy=getattr(sibling_replay, strategy)(alpha=ALPHA),
        seed=SEED,
    )
    for columns in contents(Workload(entries, payload), groups):
        buffer.extend(*columns.values(), np.zeros_like(columns["done"]))
    batch = buffer.sample(32, beta=BETA)
    batch.average(np.zeros(len(batch.outcomes)))
    buffer.update_priorities(batch, np.ones(32))
    return buffer


def payload_bytes(buffer: object) -> int:
    """Per entry: the fields at the width of a batch, boolean images as bits, no padding."""
    batch = buffer.sample(1, beta=BETA)
    total = 0
    for name in FIELDS:
        column = np.asarray(getattr(batch, name))
        bits = column.dtype == np.bool_ and column.ndim > 1
        total += -(-column.size // 8) if bits else column.nbytes
    return total


def main() -> None:
    strategy, payload, groups = sys.argv[1:]
    fill(strategy, payload, groups, WARM_UP)  # compile first: that grows the process too
    before = resident()
    buffer = fill(strategy, payload, groups, ENTRIES)
    grown = resident() - before
    stored = payload_bytes(buffer)
    report = {
        "strategy": strategy,
        "payload": payload,
        "groups": groups,
        "entries": ENTRIES,
        "resident": grown,
        "payload_bytes": stored,
        "overhead": grown / ENTRIES - stored,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()

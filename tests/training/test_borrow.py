"""Borrowed arrays: used in place, and neither freed nor kept by the kernel that borrows them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sibling_replay.training.config import paper_config
from sibling_replay.training.tabular.borrow import borrowed
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run


class Pair(NamedTuple):
    first: np.ndarray
    rest: tuple[np.ndarray, float]


@njit
def add_ones(pair, times):
    pair = borrowed(pair)
    for _ in range(times):
        pair.first[:] += 1.0
        pair.rest[0][:] += pair.rest[1]


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [a for part in value for a in arrays_in(part)] if isinstance(value, tuple) else []


def counts(value: Any) -> list[int]:
    return [sys.getrefcount(array) for array in arrays_in(value)]


def test_a_kernel_works_on_the_callers_arrays() -> None:
    pair = Pair(np.zeros(3), (np.zeros((2, 2)), 2.0))
    before = counts(pair)
    add_ones(pair, 1000)
    assert (pair.first == 1000.0).all() and (pair.rest[0] == 2000.0).all()
    assert counts(pair) == before


def test_a_run_keeps_its_arrays() -> None:
    run, draws = new_run(paper_config("OutlierBandit", "SAMPLE", 0, steps=2_000))
    before = counts(run)
    advance(run, draws, 2_000, False)
    assert len(before) > 30 and counts(run) == before

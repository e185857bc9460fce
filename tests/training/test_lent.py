"""Tuples lent to kernels: used in place, and neither freed nor kept by the kernel."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from sibling_replay.training.config import paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run


class Rest(NamedTuple):
    table: np.ndarray
    step: float
    times: int
    on: bool


class Pair(NamedTuple):
    first: np.ndarray
    rest: Rest
    flags: np.ndarray
    records: np.ndarray


def new_pair(on: bool = True) -> Pair:
    records = np.zeros(2, np.dtype([("count", np.int64), ("sum", np.float64)]))
    rest = Rest(np.zeros((2, 3), np.float32), -0.5, 3, on)
    return Pair(np.zeros(3), rest, np.array([False, True, True]), records)


@njit
def add(pair):
    rest = pair.rest
    for _ in range(rest.times):
        pair.first[:] += 1.0
        if rest.on:
            rest.table[:, 1] += np.float32(rest.step)
    last = pair.records[1]
    for flag in pair.flags:
        last.count += np.int64(flag)
    last.sum = rest.table.sum()


@njit
def unknown_field(pair):
    return pair.second


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [a for part in value for a in arrays_in(part)] if isinstance(value, tuple) else []


def counts(value: Any) -> list[int]:
    return [sys.getrefcount(array) for array in arrays_in(value)]


@pytest.mark.parametrize("on", [True, False])
def test_a_kernel_works_on_the_lenders_arrays(on: bool) -> None:
    pair = new_pair(on)
    before = counts(pair)
    lent = Lent(pair)
    add(lent)
    assert (pair.first == 3.0).all()
    assert np.array_equal(pair.rest.table, [[0.0, -1.5 * on, 0.0]] * 2)
    assert pair.records[1]["count"] == 2 and pair.records[1]["sum"] == -3.0 * on
    assert counts(pair) == before


def test_tuples_of_the_same_fields_share_a_kernel() -> None:
    first, second = Lent(new_pair()), Lent(new_pair())
    assert first.kind == second.kind and first.address != second.address
    other = new_pair()._replace(first=np.zeros((3, 1)))
    assert Lent(other).kind != first.kind


def test_what_cannot_be_lent_is_refused() -> None:
    with pytest.raises(ValueError, match="only C-contiguous arrays"):
        Lent(new_pair()._replace(first=np.zeros((3, 2))[:, 0]))
    with pytest.raises(ValueError, match="not 'text'"):
        Lent(new_pair()._replace(first="text"))  # type: ignore[arg-type]
    with pytest.raises(TypingError, match="second"):
        unknown_field(Lent(new_pair()))


def test_a_run_keeps_its_arrays() -> None:
    run, draws = new_run(paper_config("OutlierBandit", "SAMPLE", 0, steps=2_000))
    before = counts(run)
    advance(Lent(run), draws, 2_000, False)
    assert len(before) > 30 and counts(run) == before

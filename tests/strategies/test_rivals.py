"""Replay methods from elsewhere: each through the public kit, its tilt, and its identity."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from test_conformance import per, the_trained

from sibling_replay import LAP, Prioritized, RankBased, ReLo, SiblingSample
from sibling_replay.testing import CheckFailed, check_strategy
from support.scenes import add_entries, new_buffer

ALPHA = 0.8

# ------------------------------------------------------------- naive laws and refreshes


def with_floor(entries, rows):
    return [(row.slot, max(abs(row.td_error), 0.7)) for row in rows]


def reducible(entries, rows):
    return [
        (row.slot, max(row.td_error**2 - row.signals["target_error"] ** 2, 0.0) + 1e-5)
        for row in rows
    ]


def squared(entries, rows):
    return [(row.slot, row.td_error**2 + 1e-5) for row in rows]


class Case(NamedTuple):
    strategy: Any
    law: Any
    refresh: Any
    weights: str | None
    wrong: dict[str, Any]  # what is to be stated otherwise, for the kit to find out, and by what
    sweep: Any = None
    signals: Any = None


CASES = {
    "LAP": Case(
        LAP(alpha=ALPHA, floor=0.7), per, with_floor, "ones",
        {"refresh": {"refresh": the_trained}, "weights": {"weights": "trained"}},
    ),
    "ReLo": Case(
        ReLo(alpha=ALPHA), per, reducible, "trained",
        {"refresh": {"refresh": squared}, "weights": {"weights": "ones"}},
    ),
}  # fmt: skip


def tried(case: Case, **changes: Any) -> None:
    stated = {
        "law": case.law,
        "refresh": case.refresh,
        "weights": case.weights,
        "sweep": case.sweep,
        "signals": case.signals,
        **changes,
    }
    check_strategy(case.strategy, **stated)


@pytest.mark.parametrize("name", CASES)
def test_the_kit_accepts_it(name: str) -> None:
    tried(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_kit_tells_it_from_another_rule(name: str) -> None:
    case = CASES[name]
    for check, changes in case.wrong.items():
        with pytest.raises(CheckFailed, match=f"check `{check}` failed"):
            tried(case, **changes)


# ----------------------------------------------------------------------------------- tilt

N, RARE = 1_000, 10  # entries of OutlierBandit's risky arm: 100 with 1 %, else 0, and Q = 1
ERRORS = np.where(np.arange(N) < RARE, 99.0, -1.0)
TILT = {
    "PER": (Prioritized(alpha=0.6), 13.7),
    "rank": (RankBased(alpha=0.7, every=1), 16.75),  # of a thousand entries: see below
    "LAP": (LAP(alpha=0.4), 6.0),
    "SAMPLE": (SiblingSample(alpha=0.6), 1.0),
}


@pytest.mark.parametrize("name", TILT)
def test_how_often_the_rare_outcome_is_replayed(name: str) -> None:
    """Percent of the draws of the risky arm, once every entry has been refreshed."""
    strategy, percent = TILT[name]
    buffer = new_buffer(strategy, N, key="default")
    add_entries(buffer, np.zeros(N, int), (np.arange(N) >= RARE).astype(int))
    signals = {name: np.asarray(SIGNALS[name]) for name in strategy.needs.signals}
    buffer.update_priorities(buffer.batch_of(np.arange(N)), ERRORS, **signals)
    assert 100.0 * buffer.probabilities().trained[:RARE].sum() == pytest.approx(percent, abs=0.05)


def ranks_to(n: float) -> float:
    """The sum of r^-0.7 over r from 1 to n, by Euler and Maclaurin."""
    zeta = -2.778388  # of 0.7
    return n**0.3 / 0.3 + zeta + 0.5 * n**-0.7


def test_by_ranks_the_tilt_depends_on_how_much_is_stored() -> None:
    """Of ever more entries it tends to 0.01^0.3, 25.1 %."""
    assert 100.0 * ranks_to(RARE) / ranks_to(N) == pytest.approx(TILT["rank"][1], abs=0.05)
    assert 100.0 * ranks_to(1e13) / ranks_to(1e15) == pytest.approx(25.1, abs=0.05)


SIGNALS: dict[str, Any] = {}

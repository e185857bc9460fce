"""Replay methods from elsewhere: each through the public kit, its tilt, and its identity."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_conformance import (
    all_averaged,
    model,
    nothing,
    per,
    sample,
    stratified,
    the_anchor,
    the_trained,
    uniform,
)

from sibling_replay import (
    LAP,
    UPER,
    AgeDecayed,
    Combined,
    ControlVariate,
    ExpectedTD,
    GroupPrioritized,
    LaBER,
    Prioritized,
    RankBased,
    ReLo,
    SiblingAverage,
    SiblingSample,
    Stratified,
)
from sibling_replay.testing import CheckFailed, Update, check_strategy
from support.marks import long_but_for
from support.scenes import add_entries, new_buffer

ALPHA, EPSILON = 0.8, 1e-6

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


def gained(entries, rows):
    """UPER."""
    for row in rows:
        noise = row.signals["aleatoric"] + 1e-10
        gain = 0.5 * math.log(1.0 + (row.signals["epistemic"] + row.td_error**2) / noise)
        yield row.slot, max(gain, EPSILON)


def variances(rng, size):
    return {name: rng.exponential(size=size) for name in ("epistemic", "aleatoric")}


def newest_and_uniform(entries, size):
    youngest = min(entry.age for entry in entries)
    others = (size - 1) / len(entries)
    return ([(others + (entry.age == youngest)) / size for entry in entries],) * 3


def by_age(entries, size):
    shares = [0.9**entry.age for entry in entries]
    return ([share / sum(shares) for share in shares],) * 3


def the_target(entries, rows):
    return [Update(row.slot, columns={"target": row.signals["target"]}) for row in rows]


def the_target_and_the_error(entries, rows):
    return [
        Update(row.slot, abs(row.td_error) + EPSILON, {"target": row.signals["target"]})
        for row in rows
    ]


def by_group_scores(kappa):
    def law(entries, size):
        """n_g^kappa v_g^alpha for the group, spread over its n_g members."""
        keys = [entry.key for entry in entries]
        shares = [e.score**ALPHA * keys.count(e.key) ** (kappa - 1.0) for e in entries]
        return ([share / sum(shares) for share in shares],) * 3

    return law


def group_scores(score, *signals):
    """`score` of all groups that were replayed, from the last errors of their members."""

    def refresh(entries, rows):
        noted = {name: {e.slot: e.columns[name] for e in entries} for name in ("error", *signals)}
        for row in rows:
            noted["error"][row.slot] = row.td_error
            for name in signals:
                noted[name][row.slot] = row.signals[name]
        key_of = {entry.slot: entry.key for entry in entries}
        groups = {}
        for key in sorted({key_of[row.slot] for row in rows}):
            members = [slot for slot in key_of if key_of[slot] == key]
            columns = [[noted[name][slot] for slot in members] for name in noted]
            groups[key] = [np.array(c)[~np.isnan(c)] for c in columns]
        scores = dict(zip(groups, score(list(groups.values())), strict=True))
        for row in rows:
            columns = {"error": row.td_error, **row.signals}
            yield Update(row.slot, None, columns, scores[key_of[row.slot]] + EPSILON)

    return refresh


def mean_score(groups):
    return [abs(errors.mean()) for errors, *_ in groups]


def neyman_score(groups):
    return [math.sqrt((errors**2).mean()) for errors, *_ in groups]


def relo_score(groups):
    return [root_of_rest(errors.mean() ** 2, beyond.mean() ** 2) for errors, beyond in groups]


def shrunk_score(groups):
    spreads = [((errors - errors.mean()) ** 2).sum() for errors, *_ in groups]
    pooled = sum(spreads) / max(sum(len(errors) - 1 for errors, *_ in groups), 1)
    for (errors, *_), spread in zip(groups, spreads, strict=True):
        variance = (spread + pooled) / len(errors)
        yield root_of_rest(errors.mean() ** 2, variance / len(errors))


def root_of_rest(square, less):
    return 0.0 if square - less <= 1e-12 * square else math.sqrt(square - less)


def scored(score, naive, *signals, kappa=0.5, **options):
    strategy = GroupPrioritized(alpha=ALPHA, kappa=kappa, score=score, **options)
    other = mean_score if score != "mean" else neyman_score
    wrong = {
        "refresh": {"refresh": group_scores(other, *signals)},
        "law": {"law": by_group_scores(1.0)},
        "weights": {"weights": "ones"},
    }
    law, refresh = by_group_scores(kappa), group_scores(naive, *signals)
    return Case(strategy, law, refresh, "trained", wrong)


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
    "Stratified": Case(
        Stratified(), stratified, nothing, "ones",
        {"law": {"law": uniform}, "weights": {"weights": "trained"},
         "refresh": {"refresh": the_trained}},
    ),
    "ControlVariate": Case(
        ControlVariate(), uniform, the_target, "ones",
        {"law": {"law": stratified}, "refresh": {"refresh": nothing}},
    ),
    "ControlVariate by mass": Case(
        ControlVariate(alpha=ALPHA), sample, the_target_and_the_error, "trained",
        {"law": {"law": per}, "refresh": {"refresh": the_target}, "weights": {"weights": "ones"}},
    ),
    "ExpectedTD": Case(
        ExpectedTD(alpha=ALPHA), by_group_scores(1.0), group_scores(mean_score), "trained",
        {"law": {"law": stratified}, "refresh": {"refresh": group_scores(neyman_score)},
         "weights": {"weights": "ones"}},
    ),
    "groups by mean": scored("mean", mean_score),
    "groups by Neyman": scored("neyman", neyman_score),
    "groups by ReLo": scored("relo", relo_score, "target_error"),
    "groups, shrunk": scored("shrunk", shrunk_score),
    "groups, averaged": scored("mean", mean_score, trains="average"),
    "groups, average of two": scored("neyman", neyman_score, trains="average", k=2),
    "Combined": Case(
        Combined(), newest_and_uniform, nothing, "ones",
        {"law": {"law": uniform}, "refresh": {"refresh": the_trained}},
    ),
    "AgeDecayed": Case(
        AgeDecayed(decay=0.1), by_age, nothing, "ones",
        {"law": {"law": uniform}, "refresh": {"refresh": the_trained}},
    ),
    "LaBER": Case(
        LaBER(), uniform, nothing, "ones",
        {"law": {"law": stratified}, "refresh": {"refresh": the_trained}},
    ),
    "residuals": Case(
        SiblingAverage(alpha=ALPHA, of="residuals"), model, the_anchor, "outcome",
        {"law": {"law": per}, "refresh": {"refresh": nothing}, "weights": {"weights": "trained"}},
    ),
    "residuals of two": Case(
        SiblingAverage(alpha=ALPHA, of="residuals", max_siblings=2, update_all_siblings=True),
        model, all_averaged, "outcome", {"refresh": {"refresh": the_anchor}},
    ),
    "UPER": Case(
        UPER(alpha=ALPHA), per, gained, "trained",
        {"refresh": {"refresh": the_trained}, "weights": {"weights": "ones"}}, signals=variances,
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


VARIANTS = (
    "groups by ReLo", "groups, shrunk", "groups, average of two", "residuals of two",
)  # fmt: skip


@pytest.mark.parametrize("name", long_but_for(CASES, CASES.keys() - set(VARIANTS)))
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
    "UPER": (UPER(alpha=0.6), 28.5),
    "EPER": (ExpectedTD(alpha=0.6), 1.0),
    "stratified": (Stratified(), 1.0),
    "control variate": (ControlVariate(), 1.0),
    "groups": (GroupPrioritized(score="neyman"), 1.0),
    "ReLo, a target network at 0": (ReLo(alpha=0.6), 0.0),
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


# Nothing unknown, and the variance of what the arm pays; the target network says 0, so that its
# error is 100 or 0.
SIGNALS: dict[str, Any] = {
    "epistemic": np.zeros(N),
    "aleatoric": np.full(N, 99.0),
    "target": ERRORS + 1.0,
    "target_error": ERRORS + 1.0,
}

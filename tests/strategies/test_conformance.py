"""Every strategy through the public kit, each with saboteurs that the same call must reject.

Saboteurs (`support.saboteurs`) are right strategies in NumPy, tried here as well, with one mistake
each, so nothing but the mistake can be why one is rejected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from sibling_replay import (
    Prioritized,
    RankBased,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.testing import Update, check_strategy
from support import saboteurs as wrong
from support.numpy_strategies import NumPyAverage, NumPyModel, NumPySample, NumPyUniform, PlainPER
from support.saboteurs import EvenGroups, GroupMean, RankBasedNumPy

ALPHA, EPSILON = 0.8, 1e-6
OPTIONS = {"alpha": ALPHA, "epsilon": EPSILON}


# ------------------------------------------------------------- naive laws and refreshes


def uniform(entries, size):
    return ([1 / len(entries)] * len(entries),) * 3


def by_mass(entries):
    total = sum(entry.mass for entry in entries)
    return [entry.mass / total for entry in entries]


def by_group(entries):
    """Any sibling through any sibling: the sum over anchors of u_i / S times 1 / n_g."""
    total = sum(entry.mass for entry in entries)
    law = []
    for entry in entries:
        siblings = [other.mass for other in entries if other.key == entry.key]
        law.append(sum(mass / total / len(siblings) for mass in siblings))
    return law


def together(entries):
    """Anchor i, then outcome j of a uniform sibling: u_i / S times 1 / n_g."""
    joint = []
    for entry, chance in zip(entries, by_mass(entries), strict=True):
        siblings = [other.key == entry.key for other in entries]
        joint.append([chance * sibling / sum(siblings) for sibling in siblings])
    return joint


def per(entries, size):
    return (by_mass(entries),) * 3


def sample(entries, size):
    return by_mass(entries), by_group(entries), by_group(entries), together(entries)


def model(entries, size):
    return by_mass(entries), by_mass(entries), by_group(entries), together(entries)


def stratified(entries, size):
    keys = [entry.key for entry in entries]
    return ([1 / (len(set(keys)) * keys.count(key)) for key in keys],) * 3


def nothing(entries, rows):
    return []


def the_trained(entries, rows):
    return [(row.slot, abs(row.td_error) + EPSILON) for row in rows]


def largest(proposals):
    """The same updates, each with the largest priority that is proposed for its slot."""
    most = {}
    for slot, priority in proposals:
        most[slot] = max(priority, most.get(slot, 0.0))
    return [(slot, most[slot]) for slot, _ in proposals]


def the_anchor(entries, rows):
    return largest(the_trained(entries, rows))


def all_averaged(entries, rows):
    return largest([(slot, abs(row.td_error) + EPSILON) for row in rows for slot in row.terms])


def whole_groups(entries, rows):
    """One update an entry, however often its group was drawn."""
    proposed = [(slot, abs(row.td_error) + EPSILON) for row in rows for slot in row.siblings]
    return dict(largest(proposed)).items()


def the_error(entries, rows):
    """Rank-based in NumPy: only noted, until the next sweep."""
    return [Update(row.slot, columns={"error": abs(row.td_error)}) for row in rows]


def ranks(entries):
    ranked = sorted(entries, key=lambda entry: (-entry.columns["error"], entry.slot))
    return [(entry.slot, 1 / place) for place, entry in enumerate(ranked, 1)]


class Ranking:
    """Rank-based, compiled: refreshed entries get their rank among the errors ranked last."""

    def __init__(self) -> None:
        self.ranked: list[float] = []

    def refresh(self, entries, rows):
        for row in rows:
            error = abs(row.td_error)
            rank = 1 + sum(other > error for other in self.ranked)
            yield Update(row.slot, 1 / rank, columns={"error": error})

    def sweep(self, entries):
        self.ranked = [entry.columns["error"] for entry in entries]
        return ranks(entries)


def the_signed_error(entries, rows):
    return [Update(row.slot, columns={"error": row.td_error}) for row in rows]


def group_means(entries):
    for entry in entries:
        siblings = [other.columns["error"] for other in entries if other.key == entry.key]
        known = [error for error in siblings if not np.isnan(error)]
        if known:
            yield Update(entry.slot, score=abs(sum(known) / len(known)) + EPSILON)


def by_score(entries, size):
    """n_g v_g^alpha for the group, spread over its n_g members."""
    shares = [entry.score**ALPHA for entry in entries]
    return ([share / sum(shares) for share in shares],) * 3


# ---------------------------------------------------------------------------------- cases


class Case(NamedTuple):
    strategy: object
    right: object  # the same in NumPy: what the saboteurs are made of
    law: object
    refresh: object
    weights: str
    saboteurs: dict  # class -> the check that must find it
    sweep: object = None


PER_SABOTEURS = {
    wrong.AlphaTwice: "refresh",
    wrong.AlphaTwiceInDraws: "draws",
    wrong.OffByOneSlot: "draws",
    wrong.UniformInstead: "draws",
    wrong.FirstDuplicateStays: "refresh",
    wrong.NoWeights: "weights",
    wrong.WeightsAtBetaOne: "weights",
    wrong.SignedPriorities: "refresh",
    wrong.OwnRandomness: "state",
    wrong.StaleRowsWritten: "refresh",
}
RANK_SABOTEURS = {
    wrong.RanksFromBelow: "refresh",
    wrong.NeverRanked: "refresh",
    wrong.SignedErrorsNoted: "refresh",
    wrong.SweptByHalf: "refresh",
}
AVERAGE_SABOTEURS = {
    wrong.AnchorAloneAveraged: "draws",
    wrong.SharesByMass: "draws",
    wrong.LastStays: "refresh",
    wrong.AverageWithWeightsOfPER: "weights",
    wrong.OthersRefreshed: "refresh",
}


def average(refresh, **options):
    options = {**OPTIONS, **options}
    saboteurs = dict(AVERAGE_SABOTEURS)
    if options.get("max_siblings"):
        saboteurs[wrong.FirstTwoAveraged] = "draws"
    elif options.get("update_all_siblings"):  # the others of the group stay as they were
        saboteurs[wrong.AnchorAloneAveraged] = "refresh"
    strategy, right = SiblingAverage(**options), NumPyAverage(**options)
    return Case(strategy, right, model, refresh, "outcome", saboteurs)


CASES = {
    "uniform": Case(
        Uniform(**OPTIONS), NumPyUniform(**OPTIONS), uniform, nothing, "ones",
        {wrong.LastNeverDrawn: "draws", wrong.HalfWeights: "weights",
         wrong.UniformRefreshes: "refresh"},
    ),
    "prioritized": Case(
        Prioritized(**OPTIONS), None, per, the_trained, "trained", PER_SABOTEURS
    ),
    "sample": Case(
        SiblingSample(**OPTIONS), NumPySample(**OPTIONS), sample, the_trained, "trained",
        {wrong.AnchorTrained: "draws", wrong.AnchorLessOften: "draws",
         wrong.AnchorRefreshed: "refresh",
         wrong.SampleWithWeightsOfPER: "weights", wrong.SampleFirstStays: "refresh"},
    ),
    "model": Case(
        SiblingModel(**OPTIONS), NumPyModel(**OPTIONS), model, the_trained, "outcome",
        {wrong.OutcomeOfTheAnchor: "draws", wrong.SourceRefreshed: "refresh",
         wrong.SiblingTrained: "draws",
         wrong.ModelWithWeightsOfPER: "weights", wrong.OutcomesOfOtherGroups: "draws"},
    ),
    "average": average(the_anchor),
    "average-all": average(whole_groups, update_all_siblings=True),
    "average-2": average(the_anchor, max_siblings=2),
    "average-2-all": average(all_averaged, max_siblings=2, update_all_siblings=True),
    "even-groups": Case(
        EvenGroups(), None, stratified, nothing, "trained",
        {wrong.EntriesUniform: "draws", wrong.EvenGroupsUnweighted: "weights",
         wrong.EvenGroupsRefresh: "refresh"},
    ),
    "rank-based": Case(
        RankBased(**OPTIONS, every=3), None, per, Ranking, "trained",
        {**RANK_SABOTEURS, wrong.RankedBySweepsAlone: "refresh"},
    ),
    "rank-based in NumPy": Case(
        RankBasedNumPy(**OPTIONS, every=3), None, per, the_error, "trained", RANK_SABOTEURS, ranks,
    ),
    "group-mean": Case(
        GroupMean(**OPTIONS), None, by_score, the_signed_error, "trained",
        {wrong.MeanOfAbsolutes: "refresh", wrong.EntriesOfScores: "draws",
         wrong.ScoresOfTheFirst: "refresh"}, group_means,
    ),
    "plain-per": Case(
        PlainPER(**OPTIONS), None, per, the_trained, "trained",
        {wrong.AlphaTwice: "refresh", wrong.NoWeights: "weights",
         wrong.FirstDuplicateStays: "refresh"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_kit_accepts_the_strategy_and_rejects_its_saboteurs(name) -> None:
    case = CASES[name]
    options = case.strategy.options()
    reasons = check_strategy(
        case.strategy,
        law=case.law,
        refresh=case.refresh,
        weights=case.weights,
        sweep=case.sweep,
        saboteurs=[kind(**options) for kind in case.saboteurs],
    )
    assert len(reasons) >= 3
    for (kind, check), reason in zip(case.saboteurs.items(), reasons, strict=True):
        assert reason.startswith(f"{kind.__name__}: check `{check}` failed in a "), reason


@pytest.mark.long
@pytest.mark.parametrize("name", ["uniform", "sample", "model", "average", "average-2-all"])
def test_what_saboteurs_are_made_of_is_right(name) -> None:
    case = CASES[name]
    draws = 2_000 if name == "uniform" else 1_200  # as few as tell 53 equal entries apart
    check_strategy(
        case.right, law=case.law, refresh=case.refresh, weights=case.weights, draws=draws
    )

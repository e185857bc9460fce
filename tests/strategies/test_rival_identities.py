"""What replay methods from elsewhere are in their limits, and what their formulas give by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sibling_replay import (
    LAP,
    UPER,
    AgeDecayed,
    ControlVariate,
    ExpectedTD,
    GroupPrioritized,
    Refresh,
    SiblingSample,
    Stratified,
    View,
)
from sibling_replay.strategies.group_scores import SCORES
from sibling_replay.strategies.noting import write_refresh
from support.scenes import add_entries, new_buffer

EPSILON = 1e-6


def random_buffer(strategy: Any, seed: int, sizes: tuple[int, ...] = (1, 2, 3, 5)) -> Any:
    """Groups of these sizes, and the TD errors that every entry was refreshed with."""
    rng = np.random.default_rng(seed)
    keys = np.repeat(np.arange(len(sizes)), sizes)
    buffer = new_buffer(strategy, keys.size)
    add_entries(buffer, keys, np.arange(keys.size))
    errors = rng.normal(rng.normal(size=len(sizes))[keys], rng.exponential(size=len(sizes))[keys])
    signals = {name: errors + 1.0 for name in strategy.needs.signals}
    batch = buffer.batch_of(np.arange(keys.size))
    buffer.update_priorities(batch, errors, **signals)
    return buffer, keys, errors


@pytest.mark.parametrize("score", SCORES)
def test_limits_of_kappa_and_alpha(score: str) -> None:
    """kappa 1 and alpha 0: uniform; both 0: every group equally often."""
    uniform_limit, *_ = random_buffer(GroupPrioritized(score=score, kappa=1.0, alpha=0.0), 1)
    np.testing.assert_allclose(uniform_limit.probabilities().trained, 1.0 / 11, rtol=1e-12)
    groups_limit, keys, _ = random_buffer(GroupPrioritized(score=score, kappa=0, alpha=0), 1)
    expected, *_ = random_buffer(Stratified(), 1)
    law = expected.probabilities().trained
    np.testing.assert_allclose(groups_limit.probabilities().trained, law, rtol=1e-12)
    np.testing.assert_allclose(law, 1.0 / (4 * np.bincount(keys)[keys]), rtol=1e-12)
    neither, *_ = random_buffer(GroupPrioritized(score=score), 1)
    assert np.abs(neither.probabilities().trained - law).max() > 0.01


def test_with_the_mean_mass_for_a_score_it_is_sample() -> None:
    """kappa 1, v_g = s_g / n_g and alpha 1."""
    ours, keys, errors = random_buffer(GroupPrioritized(kappa=1.0, alpha=1.0), 2)
    masses = (np.abs(errors) + EPSILON) ** 0.6
    view = View(ours._memory)
    scores = np.bincount(keys, masses) / np.bincount(keys)
    write_refresh(
        ours._memory,
        Refresh(slots=np.zeros(0, np.int64), groups=view.groups(view.slots), scores=scores[keys]),
        1.0,
    )
    sample_buffer, *_ = random_buffer(SiblingSample(alpha=0.6), 2)
    np.testing.assert_allclose(
        ours.probabilities().trained, sample_buffer.probabilities().trained, rtol=1e-12
    )


def test_expected_td_is_groups_by_their_mean() -> None:
    first, *_ = random_buffer(ExpectedTD(alpha=0.6), 3)
    second, keys, errors = random_buffer(GroupPrioritized(alpha=0.6), 3)
    law = first.probabilities().trained
    np.testing.assert_array_equal(law, second.probabilities().trained)
    means = np.abs(np.bincount(keys, errors) / np.bincount(keys)) + EPSILON
    np.testing.assert_allclose(law, means[keys] ** 0.6 / (means[keys] ** 0.6).sum(), rtol=1e-12)


def second_moment(law_of_groups, keys, errors, k: int) -> float:
    """Of the unbiased gradient: a group, then the mean of k of its members, by enumeration."""
    total = 0.0
    for group, chance in enumerate(law_of_groups):
        own = errors[keys == group]
        subsets = list(itertools.combinations(own, min(k, own.size)))
        weight = own.size / (errors.size * chance)
        total += chance * np.mean([(weight * np.mean(each)) ** 2 for each in subsets])
    return total


@pytest.mark.parametrize("k", (1, 2, 3, 99))
@pytest.mark.parametrize("seed", range(4))
def test_neymans_law_has_the_least_second_moment(k: int, seed: int) -> None:
    """The score is the root mean square of what is trained on: of the errors themselves, and for
    averages of k of the averages' errors. No other law of groups does better."""
    whole, keys, errors = random_buffer(GroupPrioritized(score="neyman", epsilon=1e-12), seed)
    roots = np.empty(4)
    for group in range(4):
        own = errors[keys == group]
        subsets = list(itertools.combinations(own, min(k, own.size)))
        roots[group] = math.sqrt(np.mean([np.mean(each) ** 2 for each in subsets]))
        left = 0.0 if own.size == 1 else 1.0 - (min(k, own.size) - 1) / (own.size - 1)
        tau = own.var() / min(k, own.size) * left
        assert roots[group] ** 2 == pytest.approx(own.mean() ** 2 + tau, rel=1e-9)
    law = np.bincount(keys) * roots
    law = law / law.sum()
    if k == 1:  # the strategy's own
        found = np.bincount(keys, whole.probabilities().trained)
        np.testing.assert_allclose(found, law, rtol=1e-9)
    least = second_moment(law, keys, errors, k)
    assert least == pytest.approx(((np.bincount(keys) * roots).sum() / errors.size) ** 2, rel=1e-9)
    rng = np.random.default_rng(seed)
    others = [*rng.dirichlet(np.ones(4), 300), *(law * np.exp(0.1 * rng.normal(size=(300, 4))))]
    assert min(second_moment(each / each.sum(), keys, errors, k) for each in others) > least


def test_rescored_groups_follow_present_values() -> None:
    """Every other refresh, from last targets and the values that the learner has by then."""
    options = {"score": "mean", "rescore_every": 2, "alpha": 1.0}
    buffer = new_buffer(GroupPrioritized(**options), 12)
    keys = np.repeat([0, 1, 2], [2, 4, 6])
    add_entries(buffer, keys, np.arange(12))
    table = np.zeros((3, 2))
    with pytest.raises(ValueError, match="rescores by present values: tell the buffer once"):
        for _ in range(2):
            targets = np.arange(12.0)
            buffer.update_priorities(buffer.batch_of(np.arange(12)), targets, target=targets)
    buffer.use_values(lambda obs, action: table[obs, action])
    buffer.update_priorities(buffer.batch_of([0]), [0.0], target=[0.0])
    table += 3.0  # what has been learnt since
    buffer.update_priorities(buffer.batch_of([0]), [-3.0], target=[0.0])
    means = np.bincount(keys, np.arange(12) - 3.0) / np.bincount(keys)
    expected = np.abs(means[keys]) + EPSILON
    np.testing.assert_allclose(
        buffer.probabilities().trained, expected / expected.sum(), rtol=1e-12
    )


def test_the_control_variate_by_hand() -> None:
    """Shifts are lam (c - c_j), of a group they add up to nothing, and newcomers have none."""
    buffer, keys, errors = random_buffer(ControlVariate(lam=0.5), 5)
    targets = errors + 1.0  # as they were handed in
    add_entries(buffer, [0, 3], [20, 21])  # overwrites slots 0 and 1: two without a target
    batch = buffer.sample(200)
    shift = np.full(11, np.nan)
    shift[batch.slots] = batch.shift
    keys[:2], targets[:2] = (0, 3), np.nan
    for group in np.unique(keys):
        own = np.flatnonzero((keys == group) & ~np.isnan(targets))
        if own.size:
            expected = 0.5 * (targets[own].mean() - targets[own])
            np.testing.assert_allclose(shift[own], expected, rtol=1e-9, atol=1e-12)
            assert abs(shift[own].sum()) < 1e-12
    assert shift[0] == shift[1] == 0.0 and np.abs(shift).max() > 0.1
    assert (batch.weights == 1.0).all()


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (LAP, {"floor": 0.0}, "floor must be finite and positive, got 0.0"),
        (ControlVariate, {"lam": -1.0}, "lam must be finite and not negative, got -1.0"),
        (AgeDecayed, {"decay": 1.0}, "decay must be from 0 to below 1, got 1.0"),
        (GroupPrioritized, {"score": "median"}, "score must be one of mean, neyman, relo, shrunk"),
        (GroupPrioritized, {"trains": "both"}, "trains must be one of sibling, average"),
        (GroupPrioritized, {"k": 3}, 'give trains="average" as well'),
        (GroupPrioritized, {"k": 0, "trains": "average"}, "k must be at least 1, or None, got 0"),
        (GroupPrioritized, {"rescore_every": -1}, "rescore_every must not be negative"),
        (GroupPrioritized, {"score": "relo", "rescore_every": 5}, "relo. cannot be rescored"),
        (GroupPrioritized, {"kappa": math.inf}, "kappa must be finite and not negative"),
    ],
)
def test_options_that_are_refused(kind: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        kind(**options)


def test_variances_that_are_none_are_refused() -> None:
    buffer = new_buffer(UPER(), 4, key="default")
    add_entries(buffer, [0, 1], [0, 1])
    before = buffer.masses
    with pytest.raises(ValueError, match=r"aleatoric is a variance, and was -1\.0"):
        buffer.update_priorities(
            buffer.batch_of([0, 1]), [1.0, 1.0], epistemic=[0.0, 0.0], aleatoric=[1.0, -1.0]
        )
    assert np.array_equal(buffer.masses, before)

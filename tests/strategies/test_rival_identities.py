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
    LaBER,
    Refresh,
    SiblingAverage,
    SiblingSample,
    Stratified,
    View,
)
from sibling_replay.strategies.group_scores import SCORES
from sibling_replay.strategies.noting import write_refresh
from sibling_replay.testing.chi_square import check_draws
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


# --------------------------------------------------------------------- LaBER's second stage


def two_stages(**options: Any) -> tuple[Any, Any, np.ndarray]:
    buffer = new_buffer(LaBER(**options), 50, seed=3, key="default")
    add_entries(buffer, np.arange(50), np.arange(50))
    many = buffer.sample(24)
    return buffer, many, np.exp(np.random.default_rng(3).normal(size=24)) * (-1.0) ** np.arange(24)


def test_laber_says_when_its_second_stage_is_left_out() -> None:
    buffer, many, errors = two_stages()
    for _ in range(99):
        buffer.update_priorities(many, errors)
    with pytest.warns(UserWarning, match="none was selected: LaBER has two stages"):
        buffer.update_priorities(many, errors)
    buffer.update_priorities(many, errors)  # once
    other, many, errors = two_stages()
    other.select(many, errors, 8)
    for _ in range(150):
        other.update_priorities(many, errors)


def test_laber_is_unbiased() -> None:
    """Given the candidates, the expected weighted gradient is their mean one, exactly; the selected
    ones are drawn by that law, and carry these weights."""
    buffer, many, errors = two_stages()
    chances = buffer.strategy.chances(errors)
    sizes = np.abs(errors) + EPSILON
    np.testing.assert_allclose(chances, sizes / sizes.sum())
    weights = 1.0 / (24 * chances)
    gradients = np.random.default_rng(0).normal(size=(24, 5))
    np.testing.assert_allclose((chances * weights) @ gradients, gradients.mean(axis=0), rtol=1e-12)
    batch = buffer.select(many, errors, 20_000)
    by_slot = np.bincount(many.slots, chances, minlength=50)
    check_draws(batch.slots, by_slot)
    assert by_slot.max() > 3 / 50
    mean_size = sizes.mean()
    last = {slot: place for place, slot in enumerate(many.slots.tolist())}
    alone = np.flatnonzero(np.bincount(many.slots, minlength=50)[batch.slots] == 1)
    own = np.array([errors[last[slot]] for slot in batch.slots[alone].tolist()])
    np.testing.assert_allclose(batch.weights[alone], mean_size / (np.abs(own) + EPSILON), rtol=1e-6)
    with pytest.raises(AssertionError):  # uniform among the candidates
        check_draws(batch.slots, np.bincount(many.slots, minlength=50) / 24)


def test_what_is_selected_is_what_the_candidates_were() -> None:
    """Also if their slots have been overwritten by then."""
    buffer, many, errors = two_stages()
    stored = {name: many.record[name].copy() for name in many.columns}
    date = many.added
    add_entries(buffer, np.arange(50) + 100, np.arange(50))
    batch = buffer.select(many, errors, 8)
    assert batch.size == 8 and batch.added == date and batch.outcomes is batch
    for slot, obs, action, reward in zip(
        batch.slots, batch.obs, batch.action, batch.reward, strict=True
    ):
        place = stored["slots"].tolist().index(slot)
        assert stored["obs"][place] == obs and stored["action"][place] == action
        assert stored["reward"][place] == reward
    buffer.update_priorities(batch, np.ones(8))
    assert (buffer.masses == 1.0).all() and buffer.check_valid() == (True, "")


def test_normalized_weights_of_laber() -> None:
    for normalize in ("batch", "buffer"):
        buffer, many, errors = two_stages(normalize=normalize)
        batch = buffer.select(many, errors, 6)
        plain, same, _ = two_stages()
        weights = plain.select(same, errors, 6).weights
        largest = (
            weights.max()
            if normalize == "batch"
            else (1 / (24 * plain.strategy.chances(errors))).max()
        )
        np.testing.assert_allclose(batch.weights, weights / largest, rtol=1e-6)


def test_what_select_refuses() -> None:
    buffer, many, errors = two_stages()
    state = buffer.state_dict()["header"]["uniforms"]
    for given, size, sentence in (
        (errors[:3], 4, "expected 24 TD errors"),
        (np.full(24, np.nan), 4, "it must be finite"),
        (errors, 0, "batch_size must be from 1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            buffer.select(many, given, size)
    assert buffer.state_dict()["header"]["uniforms"] == state
    other, *_ = two_stages()
    with pytest.raises(ValueError, match="was not drawn from this buffer"):
        other.select(many, errors, 4)
    plain = new_buffer(SiblingSample(), 4)
    add_entries(plain, [0, 1], [0, 1])
    with pytest.raises(TypeError, match="SiblingSample draws in one stage: there is nothing"):
        plain.select(plain.sample(2), [1.0, 1.0], 1)


# --------------------------------------------------------------------- averages of residuals


def averages(key: Any) -> tuple[Any, Any]:
    """Two batches of the same rows, and a table of values by observation and action."""
    found = []
    for of in ("targets", "residuals"):
        buffer = new_buffer(SiblingAverage(alpha=0.0, of=of), 40, seed=2, key=key)
        add_entries(buffer, np.arange(40) % 6, np.arange(40))
        found.append(buffer.sample(16))
    np.testing.assert_array_equal(found[0].slots, found[1].slots)
    return found[0], found[1]


def test_for_exact_groups_residuals_average_to_what_targets_do() -> None:
    table = np.random.default_rng(1).normal(size=(3, 2))
    of_targets, of_residuals = averages("exact")
    targets = of_targets.average(of_targets.outcomes.reward.astype(np.float64))
    assert not of_targets.residuals and of_residuals.residuals
    outcomes = of_residuals.outcomes
    found = of_residuals.average(
        outcomes.reward.astype(np.float64),
        table[of_residuals.obs, of_residuals.action],
        table[outcomes.obs, outcomes.action],
    )
    np.testing.assert_allclose(found, targets, rtol=1e-12)
    assert np.ptp(targets) > 0.1


def test_where_unlike_states_are_merged_each_stays_at_its_level() -> None:
    """Rewards that are the values plus noise: residuals average the noise alone."""
    table = np.array([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]])
    of_targets, of_residuals = averages(lambda obs, action: 0)  # siblings share the action only
    outcomes = of_residuals.outcomes
    own = table[outcomes.obs, outcomes.action]
    noise = np.random.default_rng(2).normal(size=own.size)
    values = table[of_residuals.obs, of_residuals.action]
    found = of_residuals.average(own + noise, values, own)
    for row in range(16):
        terms = slice(outcomes.starts[row], outcomes.starts[row + 1])
        assert found[row] == pytest.approx(values[row] + noise[terms].mean(), rel=1e-12)
        assert outcomes.size // 16 == 20  # every sibling, whatever its outcome
    assert np.abs(found - values).max() < 1.5
    levels = of_targets.average(table[of_targets.outcomes.next_obs % 6 // 2, 0])
    assert np.abs(levels - values).max() > 5.0


def test_residuals_need_values() -> None:
    _, batch = averages("exact")
    with pytest.raises(ValueError, match="this batch averages residuals: give `average`"):
        batch.average(np.zeros(batch.outcomes.size))
    with pytest.raises(ValueError, match="of must be one of targets, residuals, not 'both'"):
        SiblingAverage(of="both")

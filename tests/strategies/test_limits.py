"""The limits of the laws, where the paper has identities: each is an equality, not a statistic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample
from sibling_replay.strategies.weights import UNNORMALIZED, write_weights
from support.averaging import averaged
from support.scenes import (
    SCENES,
    SIBLING_STRATEGIES,
    STRATEGIES,
    add_entries,
    churned_buffer,
    fixed_buffer,
    heavy_tailed,
    new_buffer,
)

scenes = pytest.mark.parametrize("scene", SCENES)
strategies = pytest.mark.parametrize("name", STRATEGIES)

FLOAT32 = 1e-6  # weights leave a buffer as float32


def group_sums(buffer, values):
    return np.bincount(buffer.groups, weights=values)


def exact_weights(buffer, beta):
    """The unnormalised weight of every live slot, by the kernel that draws use, in float64."""
    masses = buffer.masses
    means = masses.copy()
    if buffer.strategy.needs.groups:
        means = (group_sums(buffer, masses) / np.maximum(np.bincount(buffer.groups), 1))[
            buffer.groups
        ]
    out = np.empty(masses.size)
    write_weights(means, masses.sum(), masses.size, 0.0, beta, UNNORMALIZED, out)
    return out


def drawn_weights(buffer, beta):
    """The weight of every live slot as drawn, NaN where it was not drawn."""
    seen = np.full(len(buffer), np.nan)
    for _ in range(200):
        batch = buffer.sample(64, beta)
        seen[batch.slots] = batch.weights
    return seen


# ------------------------------------------------------------------ alpha, beta


@scenes
@strategies
def test_alpha_zero_is_uniform(name, scene):
    """At alpha = 0 every law is 1/N and every weight is one, exactly."""
    buffer = SCENES[scene](STRATEGIES[name](alpha=0.0))
    assert (buffer.masses == 1.0).all()
    law = buffer.probabilities()
    for part in law:
        np.testing.assert_allclose(part, 1.0 / len(buffer), rtol=1e-14)
    for beta in (0.0, 0.4, 1.0):
        assert (buffer.sample(64, beta).weights == 1.0).all()


@scenes
@strategies
@pytest.mark.parametrize("normalize", ["batch", "buffer", None])
def test_beta_zero_weights_are_one(name, scene, normalize):
    buffer = SCENES[scene](STRATEGIES[name](normalize=normalize))
    assert (buffer.sample(64, beta=0.0).weights == 1.0).all()


@scenes
@strategies
def test_beta_one_recovers_the_uniform_gradient(name, scene):
    """sum_j P(j) w_j g_j = mean g for any g, so P(j) w_j = 1 / N for every slot (eq. 3, 9)."""
    buffer = SCENES[scene](STRATEGIES[name](normalize=None))
    law = buffer.probabilities()
    if name == "uniform":
        weights = np.ones(len(buffer))
    else:
        weights = exact_weights(buffer, 1.0)
    # The weight goes with the trained slot; what its outcome contributes has the law `outcome`.
    law_of_contribution = law.trained if name in ("uniform", "prioritized") else law.outcome
    np.testing.assert_allclose(law_of_contribution * weights, 1.0 / len(buffer), rtol=1e-12)
    gradients = np.random.default_rng(0).standard_normal((len(buffer), 3))
    expected = (law_of_contribution * weights) @ gradients
    np.testing.assert_allclose(expected, gradients.mean(axis=0), rtol=1e-9, atol=1e-13)
    drawn = drawn_weights(buffer, 1.0)
    seen = ~np.isnan(drawn)
    assert seen.mean() > 0.8
    np.testing.assert_allclose(drawn[seen], weights[seen], rtol=FLOAT32)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "uniform"])
def test_normalizations_differ_by_a_factor_only(name):
    """One uniform stream, three normalisations: batch divides by the batch's largest weight, buffer
    by the largest there is."""
    batches = {}
    for normalize in ("batch", "buffer", None):
        buffer = new_buffer(
            STRATEGIES[name](normalize=normalize, alpha=0.7),
            40,
            seed=9,
            key=(None if name == "prioritized" else "exact"),
        )
        rng = np.random.default_rng(9)
        add_entries(buffer, rng.integers(0, 8, 40), rng.integers(0, 3, 40))
        for _ in range(5):
            batch = buffer.sample(16, 0.6)
            buffer.update_priorities(averaged(batch), 1.0 + batch.slots % 7)
        batches[normalize] = buffer.sample(64, 0.6)
    plain = batches[None].weights
    assert np.array_equal(batches["batch"].slots, batches[None].slots)
    np.testing.assert_allclose(batches["batch"].weights, plain / plain.max(), rtol=FLOAT32)
    assert batches["batch"].weights.max() == 1.0
    ratio = batches["buffer"].weights / plain
    np.testing.assert_allclose(ratio, ratio[0], rtol=FLOAT32)
    assert batches["buffer"].weights.max() <= 1.0


def test_batch_of_one_is_never_weighted():
    """Of one weight the largest is itself (appendix: "at batch size one ...")."""
    buffer = fixed_buffer(Prioritized())
    for beta in (0.0, 0.4, 1.0):
        assert buffer.sample(1, beta).weights[0] == 1.0


# -------------------------------------------------------------------- singletons


@pytest.mark.parametrize("name", SIBLING_STRATEGIES)
@pytest.mark.parametrize("normalize", ["batch", "buffer", None])
def test_singleton_groups_make_every_sibling_strategy_per(name, normalize):
    """No two entries alike: same anchors, same weights, same masses, bit for bit, for ever."""
    size, rounds = 16, 40
    sibling = new_buffer(STRATEGIES[name](normalize=normalize), 50, seed=4)
    per = new_buffer(Prioritized(normalize=normalize), 50, seed=4, key=None)
    rng = np.random.default_rng(4)
    for number in range(rounds):
        unique = np.arange(7 * number, 7 * number + 7)
        for buffer in (sibling, per):
            add_entries(buffer, unique, unique)
        batches = [buffer.sample(size, 0.5) for buffer in (sibling, per)]
        per._uniforms.take((sibling.strategy.recipe.uniforms - 1) * size)  # those of siblings
        for column in ("anchors", "slots", "outcome_slots", "weights", "reward", "next_obs"):
            assert np.array_equal(getattr(batches[0], column), getattr(batches[1], column)), column
        assert (batches[0].group_sizes == 1).all()
        of_slot = heavy_tailed(rng, 50)  # an entry has one TD error, wherever it stands in a batch
        for buffer, batch in zip((sibling, per), batches, strict=True):
            buffer.update_priorities(averaged(batch), of_slot[batch.slots])
        assert np.array_equal(sibling.masses, per.masses)
        for mine, other in zip(sibling.probabilities(), per.probabilities(), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-14)
        assert sibling.max_priority == per.max_priority


# ------------------------------------------------------------------- averages


def targets_of(block):
    return block.reward * 3.0 + block.next_obs * 1.5 - 7.0 * block.terminated


@scenes
@pytest.mark.parametrize("most", [None, 13, 100])
def test_average_over_the_whole_group_is_the_mean_over_outcomes(scene, most):
    """K = n_g, or more, or "all": the empirical conditional target (eq. 7), with no randomness."""
    buffer = SCENES[scene](SiblingAverage(max_siblings=most))
    targets = targets_of(buffer.batch_of(np.arange(len(buffer))))
    means = group_sums(buffer, targets) / np.maximum(np.bincount(buffer.groups), 1)
    for _ in range(20):
        batch = buffer.sample(16)
        if most == 13 and (batch.group_sizes > 13).any():
            continue
        got = batch.average(targets_of(batch.outcomes))
        np.testing.assert_allclose(got, means[batch.groups], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SIBLING_STRATEGIES)
def test_deterministic_groups_leave_nothing_to_correct(name):
    """One outcome a group: every target is the anchor's own."""
    buffer = new_buffer(STRATEGIES[name](), 40)
    rng = np.random.default_rng(0)
    for _ in range(30):
        groups = rng.integers(0, 6, 5)
        add_entries(buffer, groups, groups)
        batch = buffer.sample(8)
        key = 2 * batch.obs + batch.action
        assert np.array_equal(batch.next_obs, key)
        np.testing.assert_allclose(
            batch.average(targets_of(batch.outcomes)), targets_of(batch), rtol=1e-12, atol=1e-12
        )
        buffer.update_priorities(averaged(batch), heavy_tailed(rng, 8))
    # PER's pull on outcomes inside a group (eq. 14) has nothing to act on either.
    assert np.unique(2 * batch.obs + batch.action).size == np.unique(batch.next_obs).size


# ------------------------------------------------- the decomposition of the paper


@scenes
def test_group_and_conditional_probability(scene):
    """P(i) = P(g) P(i | g), P(g) = s_g / S, P(i | g) = u_i / s_g (eq. 5); SAMPLE keeps the first
    and makes the second 1 / n_g."""
    for strategy in (Prioritized(), SiblingSample()):
        buffer = SCENES[scene](strategy)
        law, groups, masses = buffer.probabilities(), buffer.groups, buffer.masses
        sums, sizes = group_sums(buffer, masses), np.bincount(groups)
        of_group = group_sums(buffer, law.trained)
        np.testing.assert_allclose(of_group, sums / masses.sum(), rtol=1e-12)
        conditional = law.trained / of_group[groups]
        if isinstance(strategy, Prioritized):
            np.testing.assert_allclose(conditional, masses / sums[groups], rtol=1e-12)
        else:
            np.testing.assert_allclose(conditional, 1.0 / sizes[groups], rtol=1e-12)


@scenes
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.7, 1.0])
def test_group_weights_of_the_appendix(scene, beta):
    """The total expected-update weight of a group, from law and weights, against its closed form:
    W_PER(g) = N^-b S^(b-1) sum u_i^(1-b) and W_SAMPLE(g) = N^-b S^(b-1) n_g^b s_g^(1-b)."""
    for strategy in (Prioritized(), SiblingSample(), SiblingModel(), SiblingAverage()):
        buffer = SCENES[scene](strategy)
        groups, masses, n = buffer.groups, buffer.masses, len(buffer)
        total, sums, sizes = masses.sum(), group_sums(buffer, masses), np.bincount(groups)
        law = buffer.probabilities().trained
        got = group_sums(buffer, law * exact_weights(buffer, beta))
        common = n**-beta * total ** (beta - 1)
        if isinstance(strategy, Prioritized):
            closed = common * group_sums(buffer, masses ** (1 - beta))
        else:
            live = sizes > 0
            closed = np.zeros(sizes.size)
            closed[live] = common * sizes[live] ** beta * sums[live] ** (1 - beta)
        np.testing.assert_allclose(got, closed, rtol=1e-10)


@scenes
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_effective_conditional_weighting(scene, beta):
    """pi(i | g) = u_i^(1-b) / sum u_j^(1-b) for PER (eq. 6); uniform for SAMPLE at every beta."""
    for strategy in (Prioritized(), SiblingSample()):
        buffer = SCENES[scene](strategy)
        groups, masses = buffer.groups, buffer.masses
        coefficients = buffer.probabilities().trained * exact_weights(buffer, beta)
        got = coefficients / group_sums(buffer, coefficients)[groups]
        if isinstance(strategy, Prioritized):
            powers = masses ** (1 - beta)
            expected = powers / group_sums(buffer, powers)[groups]
        else:
            expected = 1.0 / np.bincount(groups)[groups]
        np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_variance_of_averages_is_that_of_finite_populations():
    """Over all equally likely subsets: sigma^2 / K (1 - (K-1) / (n-1)), and no bias (appendix)."""
    targets = np.random.default_rng(0).standard_normal(6)
    for k in range(1, 7):
        means = [np.mean(subset) for subset in itertools.combinations(targets, k)]
        assert np.mean(means) == pytest.approx(targets.mean(), rel=1e-12)
        closed = targets.var() / k * (1 - (k - 1) / 5)
        assert np.var(means) == pytest.approx(closed, rel=1e-9, abs=1e-15)


def test_weights_do_not_depend_on_the_sibling():
    """Group weights, and so their maximum, are those of the group, whichever sibling is drawn."""
    buffer = churned_buffer(SiblingSample(normalize=None))
    of_group = {}
    for _ in range(100):
        batch = buffer.sample(32, 0.7)
        for group, weight in zip(batch.groups.tolist(), batch.weights.tolist(), strict=True):
            assert of_group.setdefault(group, weight) == weight

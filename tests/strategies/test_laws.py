"""Every sampler against its own law, on a fixed buffer and after thousands of evictions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sibling_replay import SiblingAverage
from sibling_replay.testing.chi_square import check_counts, check_draws
from support.scenes import SCENES, SIBLING_STRATEGIES, STRATEGIES, draw_many, strata_law

SINGLE_DRAWS = 20_000  # in batches of one: independent draws, the full power of the test
BATCHES, BATCH = 4_000, 8
ALPHA = 0.8

scenes = pytest.mark.parametrize("scene", SCENES)


@scenes
@pytest.mark.parametrize("name", STRATEGIES)
def test_single_draws_follow_the_law(name, scene):
    buffer = SCENES[scene](STRATEGIES[name](alpha=ALPHA))
    law = buffer.probabilities()
    draws = draw_many(buffer, SINGLE_DRAWS, 1)
    check_draws(draws.anchors, law.anchor)
    check_draws(draws.trained, law.trained)
    if not name.startswith("average"):  # which averages several: see below
        check_draws(draws.outcome, law.outcome)


@scenes
@pytest.mark.parametrize("name", STRATEGIES)
def test_each_draw_of_a_batch_follows_its_stratum(name, scene):
    """Place and slot together: in a batch draw b has the law of the b-th interval of the mass."""
    buffer = SCENES[scene](STRATEGIES[name](alpha=ALPHA))
    law = buffer.probabilities()
    of_anchor = strata_law(law.anchor, BATCH)
    if name == "uniform":
        of_anchor = np.tile(law.anchor, (BATCH, 1))  # uniform replay draws independently
    np.testing.assert_allclose(of_anchor.mean(axis=0), law.anchor, rtol=1e-9, atol=1e-12)
    draws = draw_many(buffer, BATCHES, BATCH)
    places = np.arange(BATCH) * len(buffer)
    check_draws(draws.anchors + places, of_anchor / BATCH)

    siblings = buffer.groups[:, None] == buffer.groups[None, :]
    to_sibling = siblings / siblings.sum(axis=1, keepdims=True)
    if name == "sample":
        of_sibling = of_anchor @ to_sibling
        np.testing.assert_allclose(of_sibling.mean(axis=0), law.trained, rtol=1e-9, atol=1e-12)
        check_draws(draws.trained + places, of_sibling / BATCH)
    else:
        assert np.array_equal(draws.trained, draws.anchors)
    if name in ("sample", "model"):
        check_draws(draws.outcome + places, of_anchor @ to_sibling / BATCH)


@scenes
@pytest.mark.parametrize("name", ["sample", "model"])
def test_siblings_are_uniform_given_the_anchor(name, scene):
    """Anchor and sibling together: u_i / S times 1 / n_g."""
    buffer = SCENES[scene](STRATEGIES[name](alpha=ALPHA))
    draws = draw_many(buffer, SINGLE_DRAWS, 1)
    anchor = buffer.probabilities().anchor
    siblings = buffer.groups[:, None] == buffer.groups[None, :]
    joint = anchor[:, None] * siblings / siblings.sum(axis=1, keepdims=True)
    check_draws(draws.anchors * len(buffer) + draws.outcome, joint)


@scenes
def test_model_draws_outcomes_by_their_counts(scene):
    """What MODEL trains toward, as values: outcome o of group g with s_g / S * n_go / n_g."""
    buffer = SCENES[scene](STRATEGIES["model"](alpha=ALPHA))
    law = buffer.probabilities()
    rows = buffer._memory.rows[: len(buffer)].view(np.uint8)[:, : buffer._layout.outcome_bytes]
    distinct, outcome_of = np.unique(rows, axis=0, return_inverse=True)
    of_outcome = np.bincount(outcome_of.ravel(), weights=law.outcome)
    assert len(distinct) < len(buffer)  # some outcomes are there more than once
    drawn = draw_many(buffer, SINGLE_DRAWS, 1).outcome
    check_draws(outcome_of.ravel()[drawn], of_outcome)


def draw_averages(buffer, batches, size):
    """Per draw: its group and the slots averaged with their shares."""
    for _ in range(batches):
        batch = buffer.sample(size)
        found = batch.outcomes
        for b, (low, high) in enumerate(itertools.pairwise(found.starts)):
            yield int(batch.groups[b]), found.slots[low:high], found.shares[low:high]


@scenes
@pytest.mark.parametrize("most", [1, 2, 3])
def test_average_subsets_are_uniform(scene, most):
    """Group and subset together: every subset of min(K, n_g) members is equally likely."""
    buffer = SCENES[scene](SiblingAverage(alpha=ALPHA, max_siblings=most))
    law = buffer.probabilities()
    cells, of_cell = {}, []
    for group in np.unique(buffer.groups):
        members = np.flatnonzero(buffer.groups == group)
        subsets = list(itertools.combinations(members.tolist(), min(most, members.size)))
        for subset in subsets:
            cells[subset] = len(cells)
            of_cell.append(law.anchor[members].sum() / len(subsets))
    counts = np.zeros(len(cells), dtype=np.int64)
    included = np.zeros(len(buffer))
    drawn = 15_000
    for group, slots, shares in draw_averages(buffer, drawn, 1):
        assert (buffer.groups[slots] == group).all()
        assert np.all(shares == 1.0 / slots.size)
        counts[cells[tuple(sorted(slots.tolist()))]] += 1
        included[slots] += shares
    check_counts(counts, of_cell)
    # The expected share of a slot in the target is the law of the outcome.
    error = np.sqrt(law.outcome / drawn)
    assert (np.abs(included / drawn - law.outcome) < 5 * error).all()


@scenes
def test_pairs_are_equally_likely_within_each_group(scene):
    buffer = SCENES[scene](SiblingAverage(alpha=ALPHA, max_siblings=2))
    by_group = {}
    for group, slots, _ in draw_averages(buffer, 4000, 8):
        by_group.setdefault(group, []).append(tuple(sorted(slots.tolist())))
    tested = 0
    for group, pairs in by_group.items():
        members = np.flatnonzero(buffer.groups == group).tolist()
        expected = list(itertools.combinations(members, 2))
        if len(expected) > 1 and len(pairs) > 20 * len(expected):
            cells = {pair: i for i, pair in enumerate(expected)}
            check_draws([cells[pair] for pair in pairs], np.full(len(cells), 1 / len(cells)))
            tested += 1
    assert tested >= 2


@scenes
def test_whole_group_average_is_not_random(scene):
    """Every distinct outcome of the group, with its share: the expected share is the law."""
    buffer = SCENES[scene](SiblingAverage(alpha=ALPHA))
    rows = buffer._memory.rows[: len(buffer)].view(np.uint8)[:, : buffer._layout.outcome_bytes]
    _, outcome_of = np.unique(rows, axis=0, return_inverse=True)
    outcome_of = outcome_of.ravel()
    for group, slots, shares in draw_averages(buffer, 50, 8):
        members = np.flatnonzero(buffer.groups == group)
        counts = np.bincount(outcome_of[members], minlength=outcome_of.max() + 1)
        assert sorted(outcome_of[slots]) == sorted(np.flatnonzero(counts))
        np.testing.assert_allclose(shares, counts[outcome_of[slots]] / members.size, rtol=1e-15)


@pytest.mark.parametrize("name", SIBLING_STRATEGIES)
def test_masses_of_a_churned_buffer_differ(name):
    """The scene the samplers are tested on is not a trivial one."""
    buffer = SCENES["churned"](STRATEGIES[name](alpha=ALPHA))
    ok, why = buffer.check_valid()
    assert ok, why
    sizes = np.unique(buffer.groups, return_counts=True)[1]
    assert len(buffer) == 53 and sizes.size >= 4 and sizes.max() >= 5
    assert buffer.masses.max() > 10 * buffer.masses.min()
    assert buffer.dropped_updates > 0

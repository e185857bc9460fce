"""Wrong samplers, made by small and likely mistakes, that the chi-square helper must reject.

Each is judged on as many draws as the right sampler is, and the right one passes beside it. (More
of them, as whole strategies that `check_strategy` must reject, are in `support.saboteurs`.)
"""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.scenes import (
    add_entries,
    churned_buffer,
    draw_many,
    fixed_buffer,
    strata_law,
)

DRAWS = 20_000
ALPHA = 0.8


def rejected(draws, law) -> None:
    with pytest.raises(LawRejected):
        check_draws(draws, law)


@pytest.fixture(scope="module", params=[fixed_buffer, churned_buffer])
def per(request):
    """A buffer, its law and the right draws."""
    buffer = request.param(Prioritized(alpha=ALPHA))
    draws = draw_many(buffer, DRAWS, 1).anchors.ravel()
    law = buffer.probabilities().anchor
    check_draws(draws, law)
    return buffer, law, draws


def test_prioritized_instead_of_uniform(per):
    buffer, _, draws = per
    rejected(draws, np.full(len(buffer), 1 / len(buffer)))


def test_off_by_one_slot(per):
    buffer, law, draws = per
    rejected((draws + 1) % len(buffer), law)
    rejected((draws - 1) % len(buffer), law)


def test_one_slot_never_drawn(per):
    """As by an off-by-one in the last bound: its draws go to its neighbour."""
    _, law, draws = per
    heaviest = int(np.argmax(law))
    rejected(np.where(draws == heaviest, heaviest - 1, draws), law)


def test_alpha_not_applied(per):
    buffer, law, _ = per
    raw = buffer.masses ** (1 / ALPHA)
    rng = np.random.default_rng(0)
    rejected(rng.choice(raw.size, DRAWS, p=raw / raw.sum()), law)


def test_strata_in_the_wrong_order():
    """The right slots, but a batch that is not stratified place by place."""
    buffer = fixed_buffer(Prioritized(alpha=ALPHA))
    law = strata_law(buffer.probabilities().anchor, 8) / 8
    places = np.arange(8) * len(buffer)
    draws = draw_many(buffer, 4000, 8).anchors
    check_draws(draws + places, law)
    rejected(draws[:, ::-1] + places, law)
    independent = draw_many(buffer, 32_000, 1).anchors.reshape(4000, 8)
    rejected(independent + places, law)


@pytest.fixture(scope="module", params=[fixed_buffer, churned_buffer])
def sample(request):
    buffer = request.param(SiblingSample(alpha=ALPHA))
    draws = draw_many(buffer, DRAWS, 1)
    law = buffer.probabilities()
    check_draws(draws.trained, law.trained)
    return buffer, law, draws


def test_uniform_group_instead_of_prioritized_group(sample):
    buffer, law, _ = sample
    rng = np.random.default_rng(0)
    rejected(rng.integers(0, len(buffer), DRAWS), law.trained)


def test_never_the_anchor_itself(sample):
    """A "sibling" that excludes the anchor wherever it can."""
    buffer, law, draws = sample
    rng = np.random.default_rng(0)
    anchors = draws.anchors.ravel()
    trained = anchors.copy()
    for group in np.unique(buffer.groups):
        members = np.flatnonzero(buffer.groups == group)
        if members.size > 1:
            for i in np.flatnonzero(buffer.groups[anchors] == group):
                others = members[members != anchors[i]]
                trained[i] = others[rng.integers(others.size)]
    rejected(trained, law.trained)


def test_stale_group():
    """Member lists from before the last evictions: slots that moved to another group are drawn
    through their old one."""
    buffer = churned_buffer(SiblingSample(alpha=ALPHA))
    before = buffer.groups
    rng = np.random.default_rng(0)
    add_entries(buffer, rng.choice([0, 1, 41, 42], 12), rng.integers(0, 4, 12))
    law = buffer.probabilities()
    assert (before != buffer.groups).any()
    draws = draw_many(buffer, DRAWS, 1)
    check_draws(draws.trained, law.trained)
    stale = np.empty(DRAWS, dtype=np.int64)
    for i, anchor in enumerate(draws.anchors.ravel()):
        members = np.flatnonzero(before == before[anchor])
        stale[i] = members[rng.integers(members.size)]
    rejected(stale, law.trained)


def outcome_cells(buffer):
    """The outcome of every live slot as a number, from the stored rows."""
    rows = buffer._memory.rows[: len(buffer)].view(np.uint8)[:, : buffer._layout.outcome_bytes]
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


def test_outcomes_uniform_instead_of_by_count():
    buffer = fixed_buffer(SiblingModel(alpha=ALPHA))
    outcome_of = outcome_cells(buffer)
    law = np.bincount(outcome_of, weights=buffer.probabilities().outcome)
    draws = draw_many(buffer, DRAWS, 1)
    check_draws(outcome_of[draws.outcome], law)
    rng = np.random.default_rng(0)
    wrong = np.empty(DRAWS, dtype=np.int64)
    for i, anchor in enumerate(draws.anchors.ravel()):
        found = np.unique(outcome_of[buffer.groups == buffer.groups[anchor]])
        wrong[i] = found[rng.integers(found.size)]
    rejected(wrong, law)


def test_subsets_with_replacement():
    """K = 2 with replacement: the same sibling twice is no pair, and would have no cell."""
    buffer = fixed_buffer(SiblingAverage(alpha=ALPHA, max_siblings=2))
    group = np.bincount(buffer.groups).argmax()
    members = np.flatnonzero(buffer.groups == group)
    rng = np.random.default_rng(0)
    first, second = rng.choice(members, (2, DRAWS))
    low, high = np.minimum(first, second), np.maximum(first, second)
    pairs = np.triu(np.ones((len(buffer), len(buffer))), 1)
    pairs *= np.isin(np.arange(len(buffer)), members)[:, None]
    pairs *= np.isin(np.arange(len(buffer)), members)[None, :]
    rejected(low * len(buffer) + high, pairs / pairs.sum())


def test_floyd_without_its_replacement_rule():
    """Skipping the rule "take the last place when yours is taken" favours early members."""
    n, k = 6, 2
    rng = np.random.default_rng(0)
    wrong = []
    while len(wrong) < DRAWS:
        first, second = rng.integers(0, n - 1), rng.integers(0, n)
        if first != second:
            wrong.append(min(first, second) * n + max(first, second))
    law = np.triu(np.ones((n, n)), 1)
    assert k == 2
    rejected(wrong, law / law.sum())

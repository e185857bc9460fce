"""Every number of a diagnosis against the definitions, entry by entry, in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise, product

import numpy as np
import pytest

from sibling_replay import Field, KeyMap, Prioritized, ReplayBuffer, SiblingSample
from sibling_replay.diagnostics import (
    Findings,
    effective_sample_size,
    equal_rows,
    examine,
    examine_transitions,
    expected_ess,
    most_distorted,
    summarize,
)
from sibling_replay.strategies.laws import sibling_probabilities


def random_transitions(seed: int, entries: int = 300, shape: tuple[int, ...] = ()):
    """Some groups small, some large; outcomes that repeat; masses over four orders."""
    rng = np.random.default_rng(seed)
    states = rng.zipf(1.5, size=entries) % 40
    obs = np.broadcast_to(states.reshape(-1, *[1] * len(shape)), (entries, *shape)).copy()
    columns = {
        "obs": obs,
        "action": rng.integers(3, size=entries),
        "reward": rng.choice([0.0, 1.0, 100.0], size=entries, p=[0.7, 0.25, 0.05]),
        "next_obs": (obs + rng.integers(2, size=(entries, *[1] * len(shape)))).copy(),
        "terminated": rng.random(entries) < 0.3,
        "truncated": rng.random(entries) < 0.1,
    }
    masses = 10.0 ** rng.uniform(-2, 2, size=entries)
    return columns, masses, rng.normal(size=entries) * 10


class Naive:
    """The paper's definitions, one sum at a time."""

    def __init__(self, columns, masses, targets, beta):
        self.u = [float(u) for u in masses]
        self.n, self.total = len(self.u), math.fsum(self.u)
        self.y = [float(y) for y in targets]
        self.beta = beta
        self.members = defaultdict(list)
        self.outcome = []
        for i in range(self.n):
            self.members[str(columns["obs"][i].tolist()), int(columns["action"][i])].append(i)
            self.outcome.append(
                (
                    str(columns["next_obs"][i].tolist()),
                    float(columns["reward"][i]),
                    bool(columns["terminated"][i]),
                    bool(columns["truncated"][i]),
                )
            )

    def average(self, statistic):
        return math.fsum(self.share(m) * statistic(m) for m in self.members.values())

    def mass(self, members):
        return math.fsum(self.u[i] for i in members)

    def share(self, members):
        return self.mass(members) / self.total

    def tv(self, members):
        gap = 0.0
        for outcome in {self.outcome[i] for i in members}:
            own = [i for i in members if self.outcome[i] == outcome]
            gap += abs(self.mass(own) / self.mass(members) - len(own) / len(members))
        return gap / 2

    def mean(self, members):
        return math.fsum(self.y[i] for i in members) / len(members)

    def variance(self, members):
        return math.fsum((self.y[i] - self.mean(members)) ** 2 for i in members) / len(members)

    def shift(self, members, exponent=1.0):
        weight = {i: self.u[i] ** exponent for i in members}
        total = math.fsum(weight.values())
        return math.fsum(weight[i] / total * self.y[i] for i in members) - self.mean(members)

    def corrected(self, members):
        return self.shift(members, 1.0 - self.beta)

    def concentration(self, members):
        s = self.mass(members)
        return len(members) * math.fsum((self.u[i] / s) ** 2 for i in members) - 1

    def ess(self, probability, beta):
        """Of a law over entries with unnormalised weights (N P)^-beta, two draws: the square of a
        sum over the sum of squares is one and 2 ab / (a^2 + b^2)."""
        p = np.array(probability)
        w = (self.n * p) ** -beta
        pair = 1 + 2 * np.outer(w, w) / (w[:, None] ** 2 + w**2)
        return float(p @ pair @ p)


def largest(values):
    return max(values, key=abs)


@pytest.mark.parametrize("given", [False, True], ids=["rewards", "targets"])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("seed", "shape"), [(0, ()), (1, (2,)), (2, (3, 2))])
def test_every_number_is_its_definition(seed, shape, beta, given):
    columns, masses, targets = random_transitions(seed, shape=shape)
    found = summarize(
        examine_transitions(
            columns, masses, beta=beta, targets=targets if given else None, batch_size=2
        )
    )
    naive = Naive(columns, masses, targets if given else columns["reward"], beta)
    groups = list(naive.members.values())
    sizes = [len(m) for m in groups]
    cells = Counter((key, naive.outcome[i]) for key, m in naive.members.items() for i in m)
    close = pytest.approx

    assert found.entries == naive.n and found.groups == len(groups)
    assert found.siblings == close(np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1]))
    assert found.singletons == close(sizes.count(1) / len(sizes))
    assert found.entries_with == close(
        [sum(s for s in sizes if s >= k) / naive.n for k in (2, 10, 100)]
    )
    assert found.draws_with_siblings == close(sum(naive.share(m) for m in groups if len(m) >= 2))
    assert found.draws_with_outcomes == close(
        sum(naive.share(m) for m in groups if len({naive.outcome[i] for i in m}) >= 2)
    )
    paired = [(key, i) for key, m in naive.members.items() if len(m) >= 2 for i in m]
    shared = [1 for key, i in paired if cells[key, naive.outcome[i]] >= 2]
    assert found.repeated == close(len(shared) / len(paired))
    assert 0 < found.repeated < 1

    tvs = [naive.tv(m) for m in groups]
    assert found.tv == close(naive.average(naive.tv))
    assert found.tv_quantiles == close(np.quantile(tvs, [0.5, 0.9, 0.99, 1]))
    edges = [-1, 1e-12, 0.01, 0.05, 0.1, 0.25, 1.1]
    for k, (low, high) in enumerate(pairwise(edges)):
        inside = [m for m, tv in zip(groups, tvs, strict=True) if low < tv <= high]
        assert found.tv_groups[k] == len(inside)
        assert found.tv_draws[k] == close(sum(naive.share(m) for m in inside), abs=1e-12)

    spread = math.sqrt(naive.average(naive.variance))
    before = naive.average(lambda m: abs(naive.shift(m)))
    after = naive.average(lambda m: abs(naive.corrected(m)))
    assert found.shift == close(before)
    assert found.corrected_shift == close(after, abs=1e-12)
    assert found.shift_largest == close(largest(naive.shift(m) for m in groups))
    assert abs(found.corrected_shift_largest) == close(
        abs(largest(naive.corrected(m) for m in groups)), abs=1e-12
    )
    assert found.spread == close(spread)
    assert found.shift_in_spreads == close(before / spread)
    assert found.corrected_shift_in_spreads == close(after / spread, abs=1e-12)
    assert found.concentration == close(naive.average(naive.concentration))
    assert found.concentration_largest == close(max(naive.concentration(m) for m in groups))

    group_of = {i: m for m in groups for i in m}
    per = [u / naive.total for u in naive.u]
    sample = [naive.share(group_of[i]) / len(group_of[i]) for i in range(naive.n)]
    assert found.prioritized_ess == close(naive.ess(per, beta), rel=1e-5)
    assert found.sibling_ess == close(naive.ess(sample, beta), rel=1e-5)
    assert (found.beta, found.rewards_as_targets) == (beta, not given)
    if beta == 0:
        assert found.prioritized_ess == close(2) and found.sibling_ess == close(2)
        assert found.corrected_shift == close(found.shift)
    if beta == 1:
        assert found.corrected_shift == close(0, abs=1e-9) and found.shift > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_the_most_distorted_groups_are_their_definition(seed):
    columns, masses, targets = random_transitions(seed)
    findings = examine_transitions(columns, masses, beta=0.4, targets=targets)
    naive = Naive(columns, masses, targets, 0.4)
    ranked = sorted(naive.members.values(), key=lambda m: -naive.share(m) * naive.tv(m))
    worst = most_distorted(findings, top=5, outcomes=3)
    assert len(worst) == 5
    for group, members in zip(worst, ranked, strict=False):
        assert group.entry == members[0] and group.siblings == len(members)
        assert group.probability == pytest.approx(naive.share(members))
        assert group.tv == pytest.approx(naive.tv(members))
        assert group.mean == pytest.approx(naive.mean(members))
        assert group.shift == pytest.approx(naive.shift(members))
        assert group.corrected_shift == pytest.approx(naive.corrected(members))
        assert group.concentration == pytest.approx(naive.concentration(members))
        kinds = defaultdict(list)
        for i in members:
            kinds[naive.outcome[i]].append(i)
        assert group.distinct == len(kinds)
        gaps = []
        for outcome in group.outcomes:
            own = kinds[naive.outcome[outcome.entry]]
            assert outcome.entry == own[0] and outcome.count == len(own)
            assert outcome.frequency == pytest.approx(len(own) / len(members))
            assert outcome.probability == pytest.approx(naive.mass(own) / naive.mass(members))
            assert outcome.target == pytest.approx(np.mean([targets[i] for i in own]))
            gaps.append(abs(outcome.probability - outcome.frequency))
        assert gaps == sorted(gaps, reverse=True)
        assert len(gaps) == min(3, len(kinds))


def papers_example(rng: np.random.Generator):
    """Step 41k of Bandit PER: 4953 safe rewards, 47 zero rewards of the risky arm, none rare."""
    action = np.r_[np.zeros(4953, dtype=np.int64), np.ones(47, dtype=np.int64)]
    zeros = np.zeros(5000, dtype=np.int64)
    columns = {
        "obs": zeros,
        "action": action,
        "reward": np.where(action == 0, 2.0, 0.0),
        "next_obs": zeros,
        "terminated": zeros == 0,
        "truncated": zeros == 1,
    }
    # most have been refreshed with a TD error of zero, some still have the priority of insertion
    priority = np.where(rng.random(5000) < 0.002, 100.0, 1e-6)
    return columns, priority**0.6


def test_unequal_entries_of_one_outcome_are_no_distortion():
    """Appendix "Sampling individual buffer entries": TV 0, concentration large."""
    columns, masses = papers_example(np.random.default_rng(0))
    findings = examine_transitions(columns, masses)
    found = summarize(findings)
    assert found.groups == 2 and found.siblings[-1] == 4953
    assert found.tv == 0 and found.tv_groups[0] == 2
    assert found.shift == 0 and found.spread == 0 and found.shift_in_spreads == 0
    assert found.concentration > 100
    assert most_distorted(findings) == ()


def bounds(findings: Findings) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(findings.shift), np.sqrt(findings.concentration * findings.variance)


@pytest.mark.parametrize("seed", range(5))
def test_sample_on_the_same_buffer_has_no_distortion(seed):
    """By identity: give every entry the probability SAMPLE has for it, and look again."""
    columns, masses, targets = random_transitions(seed)
    per = examine_transitions(columns, masses, targets=targets)
    shift, bound = bounds(per)
    assert (shift <= bound * (1 + 1e-9) + 1e-9).all()
    assert summarize(per).tv > 0.1
    law = sibling_probabilities(masses, per.groups)
    sample = examine_transitions(columns, law, groups=per.groups, targets=targets)
    np.testing.assert_allclose(sample.tv, 0, atol=1e-12)
    np.testing.assert_allclose(sample.shift, 0, atol=1e-9)
    np.testing.assert_allclose(sample.concentration, 0, atol=1e-9)
    np.testing.assert_allclose(
        sample.census.group_probability, per.census.group_probability, rtol=1e-12
    )
    assert most_distorted(sample) == ()


def test_equal_masses_and_singletons_have_nothing_to_correct():
    columns, masses, _ = random_transitions(0)
    found = summarize(examine_transitions(columns, np.full(len(masses), 3.7)))
    assert found.tv == pytest.approx(0, abs=1e-12) and found.prioritized_ess == pytest.approx(32)
    assert found.shift == pytest.approx(0, abs=1e-9)
    alone = examine_transitions(columns, masses, groups=np.arange(len(masses)))
    found = summarize(alone)
    assert found.singletons == 1 and found.entries_with == (0, 0, 0) and found.repeated == 0
    assert found.tv == 0 and found.concentration == pytest.approx(0)
    assert found.sibling_ess == pytest.approx(found.prioritized_ess)


def test_a_large_common_level_of_targets_does_not_drown_the_shift():
    columns, masses, targets = random_transitions(0)
    small = examine_transitions(columns, masses, targets=targets)
    raised = examine_transitions(columns, masses, targets=targets + 1e9)
    np.testing.assert_allclose(raised.shift, small.shift, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5])
@pytest.mark.parametrize("decades", [0.0, 1.0, 6.0])
def test_the_expected_ess_is_the_mean_over_every_minibatch(decades, batch_size):
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-decades, 0, size=5)
    p = rng.dirichlet(np.ones(5))
    mean = sum(
        np.prod(p[list(draw)]) * effective_sample_size(weights[list(draw)])
        for draw in product(range(5), repeat=batch_size)
    )
    assert expected_ess(weights, p, batch_size) == pytest.approx(mean, rel=1e-9)
    assert expected_ess(weights * 1e-100, p * 7, batch_size) == pytest.approx(mean, rel=1e-9)


def test_the_expected_ess_counts_whatever_the_number_of_weights():
    """More distinct weights than bins: still the exact double sum of two draws."""
    rng = np.random.default_rng(0)
    w, p = 10.0 ** rng.uniform(-4, 0, size=3_000), rng.dirichlet(np.ones(3_000))
    w = np.r_[w, w * 1.0001]
    p = np.r_[p, p] / 2
    exact = p @ (1 + 2 * np.outer(w, w) / (w[:, None] ** 2 + w**2)) @ p
    assert expected_ess(w, p, 2) == pytest.approx(exact, rel=1e-6)
    assert expected_ess(np.full(9, 3.0), np.ones(9), 1_000) == pytest.approx(1_000)


def test_an_empty_buffer_is_told():
    fields = {name: Field(np.dtype(np.int64)) for name in ("obs", "action", "next_obs")}
    fields |= {"reward": Field(np.dtype(np.float32))}
    fields |= {name: Field(np.dtype(np.bool_)) for name in ("terminated", "truncated")}
    with pytest.raises(ValueError, match="the buffer is empty"):
        examine(ReplayBuffer(fields, 4, Prioritized()))


def test_what_cannot_be_measured_is_refused():
    columns, masses, targets = random_transitions(0)
    with pytest.raises(ValueError, match=r"entry 7\) to .*entry 9\)"):
        examine_transitions(
            columns, np.where(np.arange(300) == 7, 1e-200, np.r_[masses[:9], 900, masses[10:]])
        )
    with pytest.raises(ValueError, match="one target per entry"):
        examine_transitions(columns, masses, targets=targets[:-1])
    targets[3] = np.nan
    with pytest.raises(ValueError, match="target of entry 3 is nan"):
        examine_transitions(columns, masses, targets=targets)
    masses[4] = 0
    with pytest.raises(ValueError, match="mass of entry 4"):
        examine_transitions(columns, masses)
    with pytest.raises(ValueError, match="beta"):
        examine_transitions(columns, np.ones(300), beta=1.5)


class Halves(KeyMap):
    def keys(self, obs, action):
        return obs // 2


def test_a_key_says_what_siblings_are():
    """A map, a function, or equal observation and action; always with equal action."""
    columns, masses, *_ = random_transitions(3)
    groups = equal_rows([columns["obs"] // 2, columns["action"]])
    expected = examine_transitions(columns, masses, groups=groups)
    exact = examine_transitions(columns, masses)
    assert len(expected.tv) < len(exact.tv)
    for key in (Halves(), lambda obs, action: obs // 2):
        found = examine_transitions(columns, masses, key=key)
        np.testing.assert_array_equal(found.groups, expected.groups)
        np.testing.assert_array_equal(found.shift, expected.shift)
    np.testing.assert_array_equal(
        examine_transitions(columns, masses, key="exact").groups, exact.groups
    )
    with pytest.raises(ValueError, match="groups and key both say what makes siblings"):
        examine_transitions(columns, masses, groups=groups, key=Halves())
    with pytest.raises(ValueError, match="give them as `groups`"):
        examine_transitions(columns, masses, key="given")
    with pytest.raises(ValueError, match='key must be "exact"'):
        examine_transitions(columns, masses, key="halves")


def test_a_live_buffer_is_examined_by_its_own_groups_or_by_a_key():
    field, flag = Field(np.dtype(np.int64)), Field(np.dtype(np.bool_))
    names = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
    fields = dict(zip(names, (field, field, Field(np.float32), field, flag, flag), strict=True))
    buffer = ReplayBuffer(fields, 100, SiblingSample(), key="exact", seed=0)
    rng = np.random.default_rng(0)
    obs, action = rng.integers(6, size=80), rng.integers(2, size=80)
    buffer.extend(obs, action, action, obs, obs < 0, obs < 0)
    assert len(examine(buffer).tv) == 12
    assert len(examine(buffer, key=Halves()).tv) == 6

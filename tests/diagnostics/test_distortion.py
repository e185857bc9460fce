"""Every full-buffer diagnostic against loops over entries that follow the paper's text, the bounds
it states, its own example, and the limits where nothing is distorted."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from sibling_replay import ReplayBuffer, SiblingSample, diagnostics
from sibling_replay.diagnostics import take_census, take_tabular_census

SEEDS = range(12)


class Entries:
    """A random buffer: heavy-tailed masses that depend on the outcome, groups of all sizes."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 200))
        self.groups = rng.integers(0, rng.integers(1, 12), size=n) * 7 - 3
        self.outcomes = rng.integers(0, 5, size=n)
        scale = rng.exponential(size=5) ** 3 + 1e-6
        self.masses = scale[self.outcomes] * rng.exponential(size=n) + 1e-9
        self.target_of = rng.normal(size=(100, 5)) * 50  # by (group, outcome)
        self.beta = float(rng.choice([0.0, 0.4, 0.7, 1.0]))

    @property
    def targets(self) -> np.ndarray:
        return self.target_of[self.groups, self.outcomes]

    def census(self) -> diagnostics.Census:
        return take_census(self.groups, self.outcomes, self.masses, self.beta)

    def cell_targets(self, census: diagnostics.Census) -> np.ndarray:
        return self.target_of[census.group[census.owner], census.outcome]

    def members(self) -> dict[int, list[int]]:
        found = defaultdict(list)
        for i, group in enumerate(self.groups.tolist()):
            found[group].append(i)
        return dict(sorted(found.items()))


@pytest.mark.parametrize("seed", SEEDS)
def test_against_loops_over_entries(seed: int) -> None:
    entries = Entries(seed)
    census = entries.census()
    targets = entries.cell_targets(census)
    u, y = entries.masses, entries.targets
    total = sum(u)
    expected = defaultdict(list)
    for members in entries.members().values():
        n, s = len(members), sum(u[i] for i in members)
        effective = {i: u[i] ** (1 - entries.beta) for i in members}
        weight = sum(effective.values())
        q: Counter[int] = Counter()
        f: Counter[int] = Counter()
        for i in members:
            q[int(entries.outcomes[i])] += u[i] / s
            f[int(entries.outcomes[i])] += 1 / n
        mean = sum(y[i] for i in members) / n
        expected["share"].append(s / total)
        expected["tv"].append(sum(abs(q[o] - f[o]) for o in q) / 2)
        expected["mean"].append(mean)
        expected["before"].append(sum(u[i] / s * y[i] for i in members) - mean)
        expected["after"].append(sum(effective[i] / weight * y[i] for i in members) - mean)
        expected["concentration"].append(sum((u[i] / s - 1 / n) ** 2 * n for i in members))
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(census.group_probability, expected["share"], **close)
    np.testing.assert_allclose(diagnostics.outcome_tv(census), expected["tv"], **close)
    np.testing.assert_allclose(diagnostics.mean_target(census, targets), expected["mean"], **close)
    before = diagnostics.target_shift(census, targets)
    np.testing.assert_allclose(before, expected["before"], **close)
    np.testing.assert_allclose(
        diagnostics.corrected_shift(census, targets), expected["after"], **close
    )
    np.testing.assert_allclose(
        diagnostics.entry_concentration(census), expected["concentration"], **close
    )
    weighted = sum(s * abs(b) for s, b in zip(expected["share"], expected["before"], strict=True))
    assert diagnostics.by_mass(census, np.abs(before)) == pytest.approx(weighted)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_papers_bounds_hold_and_bind(seed: int) -> None:
    entries = Entries(seed)
    census = entries.census()
    targets = entries.cell_targets(census)
    shift = np.abs(diagnostics.target_shift(census, targets))
    slack = 1e-9 * (1.0 + shift)
    by_range = diagnostics.range_bound(census, targets)
    by_variance = diagnostics.variance_bound(census, targets)
    assert (shift <= by_range + slack).all()
    assert (shift <= by_variance + slack).all()
    # with two outcomes the first is an equality: 100 [q(100) - f(100)] in Bandit's risky arm
    two = take_census([0] * 4, [0, 0, 0, 1], [1.0, 1.0, 2.0, 6.0], 0.0)
    shift = diagnostics.target_shift(two, [0.0, 100.0])
    assert shift == pytest.approx([100 * (0.6 - 0.25)])
    assert diagnostics.range_bound(two, [0.0, 100.0]) == pytest.approx(shift)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_a_tabular_census_is_the_same_census(beta: float) -> None:
    rng = np.random.default_rng(3)
    outcomes = rng.choice(60, size=500, p=rng.dirichlet(np.full(60, 0.2)))
    masses = rng.exponential(size=500) ** 2
    tabular = take_tabular_census(outcomes, masses, 6, 60, beta)
    plain = take_census(outcomes // 6, outcomes, masses, beta)
    assert len(tabular.outcome) < 60
    for name in plain.__dataclass_fields__:
        np.testing.assert_allclose(getattr(tabular, name), getattr(plain, name), rtol=1e-12)


def test_the_papers_own_example_has_concentration_without_distortion() -> None:
    """Step 41k of Bandit PER: one outcome per group, so nothing is bent, yet a few new entries
    with the largest priority take nearly all the mass of their group."""
    groups = np.repeat([0, 1], [4953, 47])
    masses = np.full(5000, 1e-6**0.6)
    masses[[10, 4960]] = 98.0**0.6
    census = take_census(groups, groups, masses, 0.4)
    assert diagnostics.outcome_tv(census).tolist() == [0.0, 0.0]
    concentration = diagnostics.by_mass(census, diagnostics.entry_concentration(census))
    assert concentration > 1000
    np.testing.assert_allclose(diagnostics.target_shift(census, [2.0, 0.0]), 0.0, atol=1e-12)


def test_full_correction_and_equal_masses_leave_no_shift() -> None:
    entries = Entries(5)
    full = take_census(entries.groups, entries.outcomes, entries.masses, 1.0)
    targets = entries.cell_targets(full)
    np.testing.assert_allclose(diagnostics.corrected_shift(full, targets), 0.0, atol=1e-12)
    assert np.abs(diagnostics.target_shift(full, targets)).max() > 1.0
    equal = take_census(entries.groups, entries.outcomes, np.full(entries.masses.size, 3.0), 0.4)
    for found in (
        diagnostics.outcome_tv(equal),
        diagnostics.target_shift(equal, targets),
        diagnostics.entry_concentration(equal),
    ):
        np.testing.assert_allclose(found, 0.0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_only_ratios_of_masses_matter(scale: float) -> None:
    entries = Entries(7)
    masses = entries.masses / entries.masses.max()
    plain = take_census(entries.groups, entries.outcomes, masses, 0.4)
    scaled = take_census(entries.groups, entries.outcomes, masses * scale, 0.4)
    for measure in (diagnostics.outcome_tv, diagnostics.entry_concentration):
        np.testing.assert_allclose(measure(scaled), measure(plain), rtol=1e-9)


def test_a_buffers_own_columns_make_a_census() -> None:
    """Outcomes are told apart by all four parts, -0.0 is 0.0; SAMPLE's law bends nothing."""
    buffer = ReplayBuffer.for_env(_bandit(), 64, SiblingSample(alpha=0.6), seed=0)
    rows = [(2.0, True, False), (0.0, True, False), (-0.0, True, False), (0.0, True, True)]
    for reward, terminated, truncated in rows:
        buffer.add(0, 1, reward, 0, terminated, truncated)
    batch = buffer.sample(8)
    buffer.update_priorities(batch, np.linspace(1.0, 50.0, 8))
    outcomes = diagnostics.outcome_numbers(buffer.transitions())
    assert outcomes[1] == outcomes[2] and len(set(outcomes.tolist())) == 3
    census = take_census(buffer.groups, outcomes, buffer.masses, 0.4)
    assert census.group_count.tolist() == [4] and sorted(census.count) == [1, 1, 2]
    assert diagnostics.outcome_tv(census)[0] > 0.0
    law = buffer.probabilities().outcome
    frequency = np.bincount(outcomes, weights=law)
    np.testing.assert_allclose(np.sort(frequency), np.sort(census.frequency), rtol=1e-12)


def _bandit():
    import gymnasium as gym

    import sibling_replay.envs

    assert sibling_replay.envs
    return gym.make("sibling_replay/OutlierBandit-v0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masses": [1.0, np.nan]}, "entry 1 is nan"),
        ({"masses": [0.0, 1.0]}, "entry 0 is 0.0"),
        ({"masses": [1.0, np.inf]}, "entry 1 is inf"),
        ({"groups": [1]}, r"shapes \(1,\)"),
        ({"beta": 1.5}, "beta must be from 0 to 1"),
        ({"groups": [], "outcomes": [], "masses": []}, "one group, outcome and mass per entry"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], message: str) -> None:
    good = {"groups": [0, 0], "outcomes": [0, 1], "masses": [1.0, 2.0], "beta": 0.4}
    with pytest.raises(ValueError, match=message):
        take_census(**{**good, **change})  # type: ignore[arg-type]


def test_outcomes_need_their_columns() -> None:
    with pytest.raises(ValueError, match="next_obs, truncated"):
        diagnostics.outcome_numbers({"reward": np.zeros(2), "terminated": np.zeros(2, bool)})

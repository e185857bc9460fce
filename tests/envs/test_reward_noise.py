"""Noise on rewards: its laws, on an environment that pays what it is told, and on tables."""

from __future__ import annotations

import json
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay.envs import (
    NoisyRewards,
    RewardNoise,
    TabularModel,
    make_env,
    optimal_values,
)
from sibling_replay.envs.noise_laws import gauss_law, student_law
from sibling_replay.testing.chi_square import LawRejected, check_counts

TAIL = RewardNoise("tail", 30.0)
POSITIVE = RewardNoise("tail", 30.0, positive_only=True)  # the paper's
LOW, HIGH = -30.0, 0.02 * 30.0 / 0.98
EVERY = [
    TAIL,
    RewardNoise("tail", 7.0, probability=0.3),
    RewardNoise("gauss", 1.5),
    RewardNoise("student", 2.5),
]


class Payer(gym.Env[Any, Any]):
    """Pays what the action says: rewards for the noise to act on."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Box(-10.0, 10.0, ())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(action), False, False, {}


# --------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("noise", EVERY, ids=str)
def test_noise_preserves_the_mean_exactly(noise: RewardNoise) -> None:
    law = noise.law()
    assert law.probabilities.sum() == pytest.approx(1.0, rel=0, abs=1e-15)
    assert law.mean == pytest.approx(0.0, rel=0, abs=1e-15 * noise.scale)


def test_the_tail_is_the_papers() -> None:
    law = TAIL.law()
    assert law.probabilities.tolist() == [0.02, 0.98]
    assert law.values.tolist() == [LOW, HIGH]
    assert law.variance == pytest.approx(0.02 / 0.98 * 30.0**2, rel=1e-14)
    assert RewardNoise("tail", 30.0, mean_preserving=False).law().mean == pytest.approx(-0.6)


def test_gauss_has_the_moments_of_the_normal_law() -> None:
    values, probabilities = gauss_law(1.5)
    assert len(values) == 7
    for k in range(14):  # 7 nodes: exact up to the 13th
        moment = 0.0 if k % 2 else 1.5**k * math.prod(range(k - 1, 0, -2))
        assert probabilities @ values**k == pytest.approx(moment, rel=1e-12, abs=1e-9)
    beyond = 1.5**14 * math.prod(range(13, 0, -2))
    assert probabilities @ values**14 < 0.99 * beyond  # a test of thirteen, not of nothing


def test_student_has_the_variance_and_a_heavy_tail() -> None:
    from scipy import stats

    values, probabilities = student_law(2.5)
    assert student_law(2.5).variance == pytest.approx(2.5**2, rel=1e-14)
    assert values.tolist() == (-values[::-1]).tolist() == sorted(values.tolist())
    # before they are stretched, values are the conditional means of cells of Student's law
    student = stats.t(3)
    edges = student.ppf(np.cumsum(probabilities)[:-1])
    cells = zip([-np.inf, *edges], [*edges, np.inf], probabilities, strict=True)
    means = np.array([student.expect(lambda x: x, lb=a, ub=b) / p for a, b, p in cells])
    np.testing.assert_allclose(values / values[-1], means / means[-1], atol=1e-6)
    assert 1.0 < 2.5 / math.sqrt(probabilities @ means**2) / (2.5 / math.sqrt(3.0)) < 1.1

    def kurtosis(law: Any) -> float:
        return float(law.probabilities @ law.values**4 / law.variance**2)

    assert kurtosis(student_law(1.0)) > 3 * kurtosis(gauss_law(1.0))


def test_no_scale_is_no_noise() -> None:
    for kind in ("gauss", "student"):
        assert RewardNoise(kind, 0.0).law() == ([0.0], [1.0])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "cauchy", "scale": 1.0}, "one of tail, gauss, student, got 'cauchy'"),
        ({"kind": "gauss", "scale": -1.0}, "standard deviation, non-negative and finite, got -1"),
        ({"kind": "student", "scale": math.inf}, "non-negative and finite, got inf"),
        ({"kind": "gauss", "scale": math.nan}, "non-negative and finite, got nan"),
        ({"kind": "tail", "scale": math.nan}, "scale must be a finite number"),
        ({"kind": "tail", "scale": 3.0, "probability": -0.1}, "probability must be in"),
        ({"kind": "tail", "scale": 3.0, "probability": 1.0}, "probability must be in"),
        ({"kind": "tail", "scale": 3.0, "probability": math.nan}, "probability must be in"),
        ({"kind": "gauss", "scale": 1.0, "mean_preserving": False}, "is for kind='tail'"),
    ],
)
def test_bad_noise_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RewardNoise(**arguments)


# ------------------------------------------------------------------------- environments


def test_the_tail_is_a_two_point_law_on_positive_rewards_only() -> None:
    tail = NoisyRewards(Payer(), POSITIVE)
    tail.reset(seed=1)
    seen = np.array([tail.step(1.0)[1] for _ in range(50_000)])
    low, high = 1.0 - 30.0, 1.0 + 0.02 * 30.0 / 0.98
    assert set(seen) == {low, high}
    check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.02, 0.98])
    with pytest.raises(LawRejected):
        check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.025, 0.975])
    for reward in (0.0, -1.0, -29.0):
        assert {tail.step(reward)[1] for _ in range(500)} == {reward}


def test_every_reward_can_have_a_tail() -> None:
    tail = NoisyRewards(Payer(), TAIL)
    tail.reset(seed=2)
    seen = np.array([tail.step(-1.0)[1] for _ in range(20_000)])
    low, high = -1.0 - 30.0, -1.0 + 0.02 * 30.0 / 0.98
    assert set(seen) == {low, high}
    check_counts([int((seen == low).sum()), int((seen == high).sum())], [0.02, 0.98])


def test_the_tail_of_a_seed_is_what_it_always_was() -> None:
    """MinAtar's runs and the study of key maps were made with this stream: r - M if a uniform of
    the reset's first child is below p, and r + p M / (1 - p) otherwise."""
    tail = NoisyRewards(Payer(), RewardNoise("tail", 30.0, probability=0.1))
    tail.reset(seed=7)
    uniforms = np.random.Generator(np.random.PCG64(np.random.SeedSequence(7, spawn_key=(0,))))
    gain = 0.1 * 30.0 / (1.0 - 0.1)
    expected = [2.5 - 30.0 if uniforms.random() < 0.1 else 2.5 + gain for _ in range(2_000)]
    assert [tail.step(2.5)[1] for _ in range(2_000)] == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("noise", EVERY, ids=str)
def test_an_environment_draws_from_the_law(noise: RewardNoise) -> None:
    env = NoisyRewards(Payer(), noise)
    env.reset(seed=3)
    seen = np.array([env.step(0.5)[1] for _ in range(40_000)])
    law = noise.law()
    counts = [int((seen == 0.5 + value).sum()) for value in law.values]
    assert sum(counts) == len(seen)
    check_counts(counts, law.probabilities)
    turned = np.roll(law.probabilities, 1)
    with pytest.raises(LawRejected):
        check_counts(counts, turned)


def test_noise_leaves_the_game_alone() -> None:
    env = make_env("sibling_replay/NoisyGridworld-v0")
    noisy = NoisyRewards(make_env("sibling_replay/NoisyGridworld-v0"), TAIL)
    env.reset(seed=4)
    noisy.reset(seed=4)
    for action in np.random.default_rng(0).integers(4, size=60):
        (state, reward, *rest), (other, tailed, *others) = env.step(action), noisy.step(action)
        assert (state, rest) == (other, others)
        assert tailed in (reward + LOW, reward + HIGH)


@pytest.mark.parametrize("noise", EVERY, ids=str)
def test_noise_goes_on_from_its_state(noise: RewardNoise) -> None:
    env, twin = NoisyRewards(Payer(), noise), NoisyRewards(Payer(), noise)
    env.reset(seed=1)
    [env.step(1.0) for _ in range(100)]
    twin.load_state_dict(json.loads(json.dumps(env.state_dict())))
    trail = [env.step(1.0)[1] for _ in range(500)]
    assert trail == [twin.step(1.0)[1] for _ in range(500)]
    assert len(set(trail)) > 1


def test_another_environment_with_noise_is_made_from_its_spec() -> None:
    spec = make_env("CartPole-v1,reward_noise=gauss-2").spec
    assert spec is not None
    again = gym.make(spec)
    assert isinstance(again, NoisyRewards) and again.noise == RewardNoise("gauss", 2.0)


# ------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("noise", EVERY, ids=str)
@pytest.mark.parametrize("env", ["sibling_replay/TwoChains-v0", "FrozenLake-v1"])
def test_a_table_with_noise_has_the_means_and_more_variance(env: str, noise: RewardNoise) -> None:
    model = TabularModel.from_env(make_env(env))
    noisy = noise.of_table(model)

    def moment(of: TabularModel, power: int) -> np.ndarray:
        return (of.probability * of.reward**power).sum(axis=2)

    np.testing.assert_allclose(moment(noisy, 1), moment(model, 1), rtol=0, atol=1e-13)
    added = moment(noisy, 2) - moment(model, 2)
    np.testing.assert_allclose(added, noise.law().variance, rtol=1e-11)
    np.testing.assert_allclose(optimal_values(noisy, 0.99), optimal_values(model, 0.99), atol=1e-12)
    assert (noisy.n_outcomes == model.n_outcomes * len(noise.law().values)).all()
    assert noisy.time_limit == model.time_limit
    assert ((noisy.probability * noisy.success).sum(axis=2) == pytest.approx(
        (model.probability * model.success).sum(axis=2)))  # fmt: skip


def test_the_table_of_an_environment_with_noise_has_it() -> None:
    """Not that of the environment inside, which would be another law."""
    env = "sibling_replay/OutlierBandit-v0"
    model = TabularModel.from_env(NoisyRewards(make_env(env), POSITIVE))
    assert [tuple(each)[:3] for each in model.outcomes(0, 1)] == [
        (0.01 * 0.02, 0, 100.0 - 30.0),
        (0.01 * 0.98, 0, 100.0 + HIGH),
        (0.99, 0, 0.0),  # not positive: no noise
    ]
    same = POSITIVE.of_table(TabularModel.from_env(make_env(env)))
    assert model.reward.tolist() == same.reward.tolist()

"""The law of each environment, as the paper states it, and `step` against that law."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import MAPS
from scipy import stats

from sibling_replay.envs import TabularModel

# A correct environment fails its chi-squared test with this probability. Seeds are fixed, so it
# either always passes or always fails.
SIGNIFICANCE = 1e-3
# Draws per state-action pair: an expected count of at least this for its rarest outcome, and more
# where an environment has so few pairs that its share of the draws is larger.
EXPECTED_COUNT = 5
DRAWS = 20_000

BANDIT = "sibling_replay/OutlierBandit-v0"
CHAINS = "sibling_replay/TwoChains-v0"
H100 = "sibling_replay/FrozenLakeH100-v0"
H50 = "sibling_replay/FrozenLakeH50-v0"


def law(model: TabularModel, s: int, a: int) -> dict[tuple[int, float, bool], float]:
    """Distinct possible outcomes of (s, a) with their probabilities."""
    merged: dict[tuple[int, float, bool], float] = {}
    for o in range(model.n_outcomes[s, a]):
        key = (
            int(model.next_state[s, a, o]),
            float(model.reward[s, a, o]),
            bool(model.terminated[s, a, o]),
        )
        merged[key] = merged.get(key, 0.0) + float(model.probability[s, a, o])
    return {key: p for key, p in merged.items() if p > 0}


def reachable(model: TabularModel) -> set[int]:
    """States in which an episode can ask for an action."""
    frontier = [int(s) for s in np.flatnonzero(np.diff(model.initial_cumulative, prepend=0.0))]
    found = set(frontier)
    while frontier:
        s = frontier.pop()
        for a in range(model.n_actions):
            for next_state, _, terminated in law(model, s, a):
                if not terminated and next_state not in found:
                    found.add(next_state)
                    frontier.append(next_state)
    return found


def stochastic_pairs(model: TabularModel) -> list[tuple[int, int]]:
    return [
        (s, a)
        for s in sorted(reachable(model))
        for a in range(model.n_actions)
        if len(law(model, s, a)) > 1
    ]


def p_value(env: Any, model: TabularModel, seed: int) -> float:
    """Draw from `env.step` at every stochastic pair; chi-squared statistics and freedoms add up."""
    pairs = stochastic_pairs(model)
    assert pairs, "a test of nothing"
    env.reset(seed=seed)
    statistic, freedom = 0.0, 0
    for s, a in pairs:
        expected = law(model, s, a)
        draws = max(int(np.ceil(EXPECTED_COUNT / min(expected.values()))), DRAWS // len(pairs))
        counts = dict.fromkeys(expected, 0)
        for _ in range(draws):
            env.s = s
            next_state, reward, terminated, truncated, _ = env.step(a)
            key = (int(next_state), float(reward), bool(terminated))
            if key not in counts or truncated:
                return 0.0  # what the table calls impossible
            counts[key] += 1
        statistic += sum(
            (counts[key] - p * draws) ** 2 / (p * draws) for key, p in expected.items()
        )
        freedom += len(expected) - 1
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.parametrize(
    ("env_id", "parameters", "n_pairs"),
    [
        (BANDIT, {}, 1),
        (BANDIT, {"p": 0.3, "common_reward": -1.0}, 1),
        (CHAINS, {}, 2),
        (CHAINS, {"chain_length": 1, "p": 0.5}, 2),
        (H100, {}, 53 * 4),
        (H50, {}, 53 * 4),
        (H100, {"success_rate": 0.5, "map_name": "4x4"}, 11 * 4),
        ("CliffWalkingSlippery-v1", {}, 37 * 4),
        ("sibling_replay/ConalBandit-v0", {}, 5),
        ("sibling_replay/ShiftedConalBandit-v0", {"noise": 0.5}, 5),
        # each of the 30 cells of the field has 4 neighbours, one of them the goal
        pytest.param(
            "sibling_replay/NoisyGridworld-v0", {}, 30 * 4 - 1, marks=pytest.mark.long
        ),  # takes a minute
        ("sibling_replay/PortalBridge-v0", {}, 2),
        ("sibling_replay/ShortcutMaze-v0", {"p": 0.2}, 3),
    ],
)
def test_step_follows_the_table(env_id: str, parameters: dict[str, Any], n_pairs: int) -> None:
    env = gym.make(env_id, **parameters)
    model = TabularModel.from_env(env)
    assert len(stochastic_pairs(model)) == n_pairs
    assert p_value(env.unwrapped, model, seed=0) > SIGNIFICANCE


@pytest.mark.parametrize(
    ("env_id", "parameters", "sabotage"),
    [
        (BANDIT, {}, {"p": 0.015}),
        (BANDIT, {}, {"outlier_reward": 99.0}),
        (CHAINS, {}, {"p": 0.015}),
        (CHAINS, {}, {"hole_reward": -1.0}),
        (H100, {"map_name": "4x4"}, {"success_rate": 0.985}),
        (H100, {"map_name": "4x4"}, {"hole_reward": -100.0}),
    ],
)
def test_a_step_of_another_law_is_rejected(
    env_id: str, parameters: dict[str, Any], sabotage: dict[str, Any]
) -> None:
    """Saboteurs: the same helper must tell the environment from one that is slightly off."""
    model = TabularModel.from_env(gym.make(env_id, **parameters))
    saboteur = gym.make(env_id, **parameters, **sabotage).unwrapped
    assert p_value(saboteur, model, seed=0) < SIGNIFICANCE


def test_bandit_law() -> None:
    model = TabularModel.from_env(gym.make(BANDIT))
    assert law(model, 0, 0) == {(0, 2.0, True): 1.0}
    assert law(model, 0, 1) == {(0, 100.0, True): 0.01, (0, 0.0, True): 0.99}


def test_chains_law() -> None:
    model = TabularModel.from_env(gym.make(CHAINS))
    risky, goal, hole = 11, 12, 13
    assert law(model, 0, 0) == {(1, 0.0, False): 1.0}
    assert law(model, 0, 1) == {(risky, 0.0, False): 1.0}
    for a in (0, 1):
        for s in range(1, 10):
            assert law(model, s, a) == {(s + 1, 0.0, False): 1.0}
        assert law(model, 10, a) == {(goal, 1.0, True): 1.0}
        assert law(model, risky, a) == {(goal, 80.0, True): 0.01, (hole, 0.0, True): 0.99}
    assert reachable(model) == set(range(12))


@pytest.mark.parametrize(("env_id", "goal", "hole"), [(H100, 100.0, -300.0), (H50, 50.0, -100.0)])
def test_frozen_lake_law(env_id: str, goal: float, hole: float) -> None:
    """Rebuilt from the map and the paper's words: 0.99 as intended, two side slips share 0.01."""
    model = TabularModel.from_env(gym.make(env_id))
    tiles = "".join(MAPS["8x8"])
    moves = [(0, -1), (1, 0), (0, 1), (-1, 0)]  # left, down, right, up
    for s in range(64):
        for a in range(4):
            if tiles[s] in "GH":
                continue
            expected: dict[tuple[int, float, bool], float] = {}
            for turn, probability in ((0, 0.99), (1, 0.005), (3, 0.005)):
                rows, columns = moves[(a + turn) % 4]
                row = min(max(s // 8 + rows, 0), 7)
                column = min(max(s % 8 + columns, 0), 7)
                entered = row * 8 + column
                reward = {"G": goal, "H": hole}.get(tiles[entered], -0.01)
                key = (entered, reward, tiles[entered] in "GH")
                expected[key] = expected.get(key, 0.0) + probability
            assert law(model, s, a) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("env_id", "rewards"), [(H100, (100.0, -300.0, -0.01)), (H50, (50.0, -100.0, -0.01))]
)
def test_frozen_lake_is_gymnasiums_own(env_id: str, rewards: tuple[float, ...]) -> None:
    ours: Any = gym.make(env_id).unwrapped
    theirs: Any = gym.make(
        "FrozenLake-v1",
        map_name="8x8",
        is_slippery=True,
        success_rate=0.99,
        reward_schedule=rewards,
    ).unwrapped
    assert ours.P == theirs.P
    assert type(ours).step is type(theirs).step and type(ours).reset is type(theirs).reset


def play(env: gym.Env[Any, Any], action: int, episodes: int) -> tuple[list[float], set[int]]:
    """Returns of episodes that always choose `action`, and the episode lengths seen."""
    returns, lengths = [], set()
    for _ in range(episodes):
        env.reset()
        total, steps, done = 0.0, 0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            steps += 1
            done = terminated or truncated
        returns.append(total)
        lengths.add(steps)
    return returns, lengths


def expected_return(model: TabularModel, action: int) -> float:
    """Of the policy that always chooses `action`, exactly, by stepping the state distribution."""
    distribution = np.diff(model.initial_cumulative, prepend=0.0)
    total = 0.0
    for _ in range(min(model.time_limit, 1000)):
        flow = distribution[:, None] * model.probability[:, action]
        total += float((flow * model.reward[:, action]).sum())
        alive = flow * ~model.terminated[:, action]
        distribution = np.zeros(model.n_states)
        np.add.at(distribution, model.next_state[:, action], alive)
    return total


@pytest.mark.parametrize(
    ("env_id", "action", "mean", "length"),
    [(BANDIT, 0, 2.0, 1), (BANDIT, 1, 1.0, 1), (CHAINS, 0, 1.0, 11), (CHAINS, 1, 0.8, 2)],
)
def test_returns_of_the_fixed_policies(env_id: str, action: int, mean: float, length: int) -> None:
    env = gym.make(env_id)
    assert expected_return(TabularModel.from_env(env), action) == pytest.approx(mean)

    env.reset(seed=1)
    returns, lengths = play(env, action, episodes=5_000 if action else 10)
    assert lengths == {length}
    if action == 0:
        assert set(returns) == {mean}
    else:
        rare_reward = {BANDIT: 100.0, CHAINS: 80.0}[env_id]
        assert set(returns) == {0.0, rare_reward}
        rare = returns.count(rare_reward)
        assert stats.binomtest(rare, len(returns), 0.01).pvalue > SIGNIFICANCE


def test_a_chain_longer_than_the_limit_is_truncated() -> None:
    _, lengths = play(gym.make(CHAINS, chain_length=30), 0, episodes=1)
    assert lengths == {20}
    returns, lengths = play(gym.make(CHAINS, chain_length=30, max_episode_steps=40), 0, episodes=1)
    assert lengths == {31} and returns == [1.0]

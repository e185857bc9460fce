"""Best values against closed forms and Bellman's equation; noise-free twins have the same."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils import seeding

from sibling_replay.envs import (
    TabularModel,
    greedy_policy,
    inverse_cdf,
    make_env,
    mean_rewards,
    optimal_values,
    policy_return,
    random_policy,
    reachable_states,
)
from sibling_replay.studies.rivals.settings import SETTINGS
from sibling_replay.training.config import gym_id
from support.twins import twin

PAPER = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300", "FrozenLake-H50")


def table(env: str) -> TabularModel:
    return TabularModel.from_env(make_env(gym_id(env)))


def bellman(model: TabularModel, gamma: float, values: np.ndarray) -> np.ndarray:
    """One backup, outcome by outcome."""
    found = np.zeros((model.n_states, model.n_actions))
    for s in range(model.n_states):
        for a in range(model.n_actions):
            for p, next_state, reward, terminated, _ in model.outcomes(s, a):
                found[s, a] += p * (reward + (0.0 if terminated else gamma * values[next_state]))
    return found


@pytest.mark.parametrize("env", [*PAPER, *SETTINGS])
def test_best_values_solve_bellmans_equation_and_twins_have_them(env: str) -> None:
    gamma = SETTINGS.get(env, {}).get("gamma", 0.99)
    model = table(env)
    q = optimal_values(model, gamma)
    scale = 1.0 + np.abs(q).max()
    np.testing.assert_allclose(q, bellman(model, gamma, q.max(axis=1)), rtol=0, atol=1e-12 * scale)

    still = table(twin(env))
    np.testing.assert_allclose(optimal_values(still, gamma), q, rtol=0, atol=1e-12 * scale)
    paid = (model.probability * model.reward).sum(axis=2)
    assert (still.reward == still.reward[:, :, :1]).all()  # one reward of each state and action
    np.testing.assert_allclose(still.reward[:, :, 0], paid, rtol=1e-12, atol=1e-12)
    assert np.array_equal(still.next_state, model.next_state)
    assert np.array_equal(still.cumulative, model.cumulative)
    assert np.array_equal(still.success, model.success)
    assert still.reward.tolist() == mean_rewards(model).reward.tolist()
    every = [greedy_policy(q), random_policy(model)]
    for policy in every:
        assert policy_return(still, policy) == pytest.approx(policy_return(model, policy))


def test_a_twin_walks_as_its_environment_does() -> None:
    """Step by step, and as its table says it should be paid."""
    name = "PortalBridge,p=0.4"
    env, still = (make_env(gym_id(text)) for text in (name, twin(name)))
    model = TabularModel.from_env(still)
    rng, _ = seeding.np_random(5)
    state = inverse_cdf(model.initial_cumulative, rng.random())
    assert state == env.reset(seed=5)[0] == still.reset(seed=5)[0]
    paid = set()
    for action in [2, 2, 2, 0, 0, 3, 1, 2]:  # through the portal, and on
        o = inverse_cdf(model.cumulative[state, action], rng.random())
        reward = model.reward[state, action, o]
        state = int(model.next_state[state, action, o])
        assert still.step(action)[:2] == (state, reward)
        assert env.step(action)[0] == state
        paid.add(round(float(reward), 12))
    assert paid == {-0.1, -40.1}


def start_value(env: str, gamma: float) -> tuple[float, list[float]]:
    model = table(env)
    q = optimal_values(model, gamma)
    start = int(inverse_cdf(model.initial_cumulative, 0.0))
    return float(q[start].max()), q[start].tolist()


def discounted(steps: int, gamma: float, cost: float, last: float) -> float:
    """So many steps at a cost, the last of which pays something else."""
    return sum(-cost * gamma**k for k in range(steps - 1)) + last * gamma ** (steps - 1)


def test_closed_forms() -> None:
    best, values = start_value("ConalBandit", 0.0)
    assert values == pytest.approx([2.0] * 5, rel=0, abs=1e-14)
    _, values = start_value("ShiftedConalBandit", 0.0)
    assert values == pytest.approx([3.0, 2.75, 2.5, 2.25, 2.0], rel=0, abs=1e-14)
    best, values = start_value("NoisyGridworld", 0.99)
    assert best == pytest.approx(discounted(7, 0.99, 0.1, 10.0)) and np.argmax(values) == 2
    best, values = start_value("PortalBridge", 0.99)
    portal = discounted(6, 0.99, 0.1, 10.0) - 0.5 * 0.99**2  # its third step
    bridge = discounted(18, 0.99, 0.1, 10.0)
    assert best == pytest.approx(portal) and np.argmax(values) == 2
    assert values[3] == pytest.approx(discounted(8, 0.99, 0.1, 10.0) - 0.5 * 0.99**4)
    assert bridge < portal
    best, values = start_value("ShortcutMaze", 0.99)
    assert best == pytest.approx(discounted(18, 0.99, 0.1, 10.0))
    assert best > 1.5 * discounted(7, 0.99, 0.1, 4.0)  # the shortcut
    best, values = start_value("BlindCliffWalk", 0.99)
    assert values == pytest.approx([0.99**9, 0.0])
    best, values = start_value("Chain", 0.99)
    assert best == pytest.approx(discounted(20, 0.99, 0.01, 1.0)) and np.argmax(values) == 1


def test_the_risk_decides_the_best_way() -> None:
    """Means decide: a portal that costs more is shunned, a shortcut that pays more is taken."""
    gamma, bridge = 0.99, discounted(18, 0.99, 0.1, 10.0)
    assert start_value("PortalBridge,loss=10000", gamma)[0] == pytest.approx(bridge)
    assert start_value("ShortcutMaze,prize=600", gamma)[0] == pytest.approx(
        discounted(7, gamma, 0.1, 12.0)
    )


@pytest.mark.parametrize(
    ("env", "best", "blind"),
    [
        ("ShiftedConalBandit", 3.0, 2.5),
        ("NoisyGridworld", 9.4, None),
        ("PortalBridge", 9.0, None),
        ("ShortcutMaze", 8.3, None),
        ("BlindCliffWalk", 1.0, 2.0**-10),
        ("Chain", 0.81, None),
        ("FrozenLake-v1,map_name=4x4", 0.7401649, 0.0139),  # Gymnasium says "optimum = 0.74"
    ],
)
def test_returns_of_the_best_policy_and_of_random_play(
    env: str, best: float, blind: float | None
) -> None:
    model = table(env)
    q = optimal_values(model, SETTINGS[env]["gamma"])
    assert policy_return(model, greedy_policy(q)) == pytest.approx(best)
    if blind is not None:
        assert policy_return(model, random_policy(model)) == pytest.approx(blind, rel=5e-3)


def test_a_return_ends_at_the_time_limit() -> None:
    model = table("Chain,max_episode_steps=7")
    forward = np.tile([0.0, 1.0], (model.n_states, 1))
    assert policy_return(model, forward) == pytest.approx(-0.07)


def test_states_that_can_be_met() -> None:
    assert reachable_states(table("NoisyGridworld")).sum() == 55  # all but the goal
    portal = reachable_states(table("PortalBridge"))
    assert portal.sum() == 54 - 5 - 2 and not portal[[48, 53, 13]].any()  # portal, goal, river
    assert reachable_states(table("TwoChains")).tolist() == [True] * 12 + [False] * 2


def test_gamma_is_checked_and_values_that_grow_for_ever_are_refused(monkeypatch) -> None:
    model = table("Chain,step_reward=1")
    for gamma in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="gamma must be between 0 and 1"):
            optimal_values(model, gamma)
    monkeypatch.setattr("sibling_replay.envs.optimal._MOST_SWEEPS", 1_000)
    with pytest.raises(ValueError, match="do not settle with gamma = 1"):
        optimal_values(model, 1.0)
    settled = optimal_values(table("Chain"), 1.0)
    assert settled[0].max() == pytest.approx(1.0 - 0.19)

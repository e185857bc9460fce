"""TabularModel walks the trajectory of the environment it was read from, and refuses bad tables."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.utils import categorical_sample
from gymnasium.utils import seeding

from sibling_replay.envs import NO_TIME_LIMIT, OutlierBanditEnv, TabularModel, inverse_cdf

BANDIT = "sibling_replay/OutlierBandit-v0"
CHAINS = "sibling_replay/TwoChains-v0"
H100 = "sibling_replay/FrozenLakeH100-v0"
H50 = "sibling_replay/FrozenLakeH50-v0"
TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"

STEPS = 4000

Step = tuple[int, int, float, bool, bool]  # action, next state, reward, terminated, truncated


def choose(rng: np.random.Generator, n_actions: int, n: int) -> list[int]:
    """Random actions that also insist on one for hundreds of steps, so that time limits are met."""
    actions = rng.integers(n_actions, size=n)
    for start in range(0, n, 1000):
        actions[start : start + 500] = (start // 1000) % n_actions
    return [int(action) for action in actions]


def walk_env(env: gym.Env[Any, Any], seed: int, actions: list[int]) -> tuple[list[int], list[Step]]:
    starts, steps = [int(env.reset(seed=seed)[0])], []
    for action in actions:
        state, reward, terminated, truncated, _ = env.step(action)
        steps.append((action, int(state), float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            starts.append(int(env.reset()[0]))
    return starts, steps


def walk_model(model: TabularModel, seed: int, actions: list[int]) -> tuple[list[int], list[Step]]:
    """What the compiled trainer does: one uniform per reset, one per step."""
    rng, _ = seeding.np_random(seed)
    state, elapsed = inverse_cdf(model.initial_cumulative, rng.random()), 0
    starts, steps = [state], []
    for action in actions:
        at = (state, action)
        o = inverse_cdf(model.cumulative[at], rng.random())
        elapsed += 1
        state, truncated = int(model.next_state[at][o]), elapsed >= model.time_limit
        terminated = bool(model.terminated[at][o])
        steps.append((action, state, float(model.reward[at][o]), terminated, truncated))
        if terminated or truncated:
            state, elapsed = inverse_cdf(model.initial_cumulative, rng.random()), 0
            starts.append(state)
    return starts, steps


@pytest.mark.parametrize(
    ("env_id", "parameters", "meets_limit"),
    [
        (BANDIT, {}, False),
        (CHAINS, {}, False),
        (CHAINS, {"p": 0.4, "max_episode_steps": 9}, True),
        (CHAINS, {"p": 0.4, "max_episode_steps": 11}, True),  # terminated and truncated at once
        (H100, {}, True),
        (H50, {}, True),
        (H50, {"success_rate": 0.4, "max_episode_steps": 13}, True),
        ("FrozenLake-v1", {}, True),
        ("CliffWalking-v1", {}, False),
        ("CliffWalkingSlippery-v1", {"max_episode_steps": 100}, True),
        (TAXI, {}, True),
        ("sibling_replay/ShiftedConalBandit-v0", {}, True),
        ("sibling_replay/NoisyGridworld-v0", {}, True),
        ("sibling_replay/PortalBridge-v0", {"p": 0.3}, True),
        ("sibling_replay/ShortcutMaze-v0", {"p": 0.3}, True),
        ("sibling_replay/BlindCliffWalk-v0", {"length": 3}, False),
        ("sibling_replay/Chain-v0", {"length": 5}, True),
        ("sibling_replay/FickleTaxi-v0", {"fickle_probability": 0.5}, True),
        (TAXI, {"is_rainy": True}, True),
    ],
)
def test_model_walks_the_trajectory_of_the_env(
    env_id: str, parameters: dict[str, Any], meets_limit: bool
) -> None:
    env = gym.make(env_id, **parameters)
    model = TabularModel.from_env(env)
    for seed in (0, 1):
        actions = choose(np.random.default_rng(seed), model.n_actions, STEPS)
        starts, steps = walk_env(env, seed, actions)
        assert walk_model(model, seed, actions) == (starts, steps)
        assert any(truncated for *_, truncated in steps) == meets_limit


def test_inverse_cdf_is_gymnasiums_draw() -> None:
    class Fixed:
        def __init__(self, uniform: float) -> None:
            self.random = lambda: uniform

    rows = [[1.0], [0.0, 1.0], [1.0, 0.0], [0.3, 0.0, 0.7], [0.1] * 10, [0.5, 0.4999]]
    for row in rows:
        cumulative = np.cumsum(row)
        padded = np.append(cumulative, [cumulative[-1]] * 3)
        below = np.nextafter(cumulative, 0.0)
        for uniform in [0.0, *below, *cumulative, 0.99995, 1.0 - 2.0**-53]:
            expected = categorical_sample(row, Fixed(uniform))  # type: ignore[arg-type]
            assert inverse_cdf(cumulative, uniform) == expected
            assert inverse_cdf(padded, uniform) == expected


@pytest.mark.parametrize("env_id", [BANDIT, CHAINS, H100, H50, "CliffWalking-v1", TAXI])
def test_arrays_are_the_table(env_id: str) -> None:
    env: Any = gym.make(env_id)
    model = TabularModel.from_env(env)
    shape = (env.observation_space.n, env.action_space.n)
    assert (model.n_states, model.n_actions) == shape == model.n_outcomes.shape
    for s in range(model.n_states):
        for a in range(model.n_actions):
            listed = env.unwrapped.P[s][a]
            n = int(model.n_outcomes[s, a])
            assert n == len(listed)
            arrays = (model.probability, model.next_state, model.reward, model.terminated)
            rows = list(zip(*(array[s, a, :n].tolist() for array in arrays), strict=True))
            assert rows == [tuple(outcome) for outcome in listed]
            for array in (*arrays[1:], model.cumulative, model.success, model.outcome_id):
                assert (array[s, a, n:] == array[s, a, n - 1]).all()
            assert (model.probability[s, a, n:] == 0).all()
    assert model.cumulative.dtype == model.reward.dtype == np.float64
    assert model.next_state.dtype == model.outcome_id.dtype == model.n_outcomes.dtype == np.int32
    assert model.terminated.dtype == model.success.dtype == np.bool_


def test_equal_outcomes_share_an_id() -> None:
    model = TabularModel.from_env(gym.make(H100))
    # Left in the top left corner: a slip up and the intended left both stay in place.
    assert model.next_state[0, 0].tolist() == [0, 0, 8]
    assert model.outcome_id[0, 0].tolist() == [0, 0, 1]
    assert model.n_outcomes[0, 0] == 3
    for s in range(model.n_states):
        for a in range(model.n_actions):
            keys = list(zip(model.next_state[s, a], model.reward[s, a], model.terminated[s, a],
                            strict=True))  # fmt: skip
            ids = model.outcome_id[s, a].tolist()
            assert ids == [list(dict.fromkeys(keys)).index(key) for key in keys]


def test_time_limits() -> None:
    assert TabularModel.from_env(gym.make(BANDIT)).time_limit == NO_TIME_LIMIT
    assert TabularModel.from_env(gym.make(CHAINS)).time_limit == 20
    assert TabularModel.from_env(gym.make(H100)).time_limit == 200
    assert TabularModel.from_env(gym.make(CHAINS, max_episode_steps=7)).time_limit == 7
    assert TabularModel.from_env(gym.make(CHAINS).unwrapped).time_limit == NO_TIME_LIMIT
    for inner, outer in ((7, 9), (9, 7)):
        nested = gym.wrappers.TimeLimit(gym.make(CHAINS, max_episode_steps=inner), outer)
        assert TabularModel.from_env(nested).time_limit == 7


def succeeding(model: TabularModel) -> set[tuple[int, int, int]]:
    """(s, a, next state) of the listed outcomes that count as success."""
    return {
        (int(s), int(a), int(model.next_state[s, a, o]))
        for s, a, o in np.argwhere(model.success)
        if o < model.n_outcomes[s, a]
    }


def test_success_is_the_safe_action_in_the_bandit() -> None:
    for safe_reward in (2.0, -1.0):
        model = TabularModel.from_env(gym.make(BANDIT, safe_reward=safe_reward))
        assert succeeding(model) == {(0, 0, 0)}


def test_success_is_the_goal_by_either_branch_in_two_chains() -> None:
    model = TabularModel.from_env(gym.make(CHAINS, hole_reward=5.0))
    assert succeeding(model) == {(s, a, 12) for s in (10, 11) for a in (0, 1)}


@pytest.mark.parametrize(
    ("env_id", "parameters"),
    [(H100, {}), (H50, {"goal_reward": -1.0, "hole_reward": 1.0}),
     ("FrozenLake-v1", {"map_name": "8x8"})],
)  # fmt: skip
def test_success_is_entering_the_goal_in_frozen_lake(
    env_id: str, parameters: dict[str, Any]
) -> None:
    model = TabularModel.from_env(gym.make(env_id, **parameters))
    # Only tiles 55 (above the goal) and 62 (left of it) border the goal; one action of four
    # points away from it and its slips go sideways.
    assert succeeding(model) == {(55, a, 63) for a in (0, 1, 2)} | {(62, a, 63) for a in (1, 2, 3)}


def test_success_elsewhere_is_a_termination_with_positive_reward() -> None:
    taxi = TabularModel.from_env(gym.make(TAXI))
    assert np.array_equal(taxi.success, taxi.reward == 20)
    assert taxi.success.any()
    assert not TabularModel.from_env(gym.make("CliffWalking-v1")).success.any()


def bandit_with(**changes: Any) -> OutlierBanditEnv:
    env = OutlierBanditEnv()
    for name, value in changes.items():
        setattr(env, name, value)
    return env


SURE = [(1.0, 0, 2.0, True)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"P": {0: {0: SURE}}}, r"P\[0\]\[1\] is missing"),
        ({"P": {}}, r"P\[0\]\[0\] is missing"),
        ({"P": {0: {0: SURE, 1: []}}}, r"P\[0\]\[1\] lists no outcome"),
        ({"P": {0: {0: SURE, 1: [(1.0, 0, 2.0)]}}}, "expected"),
        ({"P": {0: {0: SURE, 1: [(0.9, 0, 2.0, True)]}}}, "sum to 0.9"),
        ({"P": {0: {0: SURE, 1: SURE * 2}}}, "sum to 2.0"),
        ({"P": {0: {0: SURE, 1: [(-1.0, 0, 2.0, True), (2.0, 0, 2.0, True)]}}}, "not >= 0"),
        ({"P": {0: {0: SURE, 1: [(float("nan"), 0, 2.0, True)]}}}, "not >= 0"),
        ({"P": {0: {0: SURE, 1: [(1.0, 1, 2.0, True)]}}}, "next state 1"),
        ({"P": {0: {0: SURE, 1: [(1.0, -1, 2.0, True)]}}}, "next state -1"),
        ({"P": {0: {0: SURE, 1: [(1.0, 0, float("inf"), True)]}}}, "reward inf"),
        ({"initial_state_distrib": np.array([0.5])}, "initial_state_distrib.*sum to 0.5"),
        ({"initial_state_distrib": np.array([0.5, 0.5])}, r"shape \(2,\)"),
    ],
)
def test_bad_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TabularModel.from_env(bandit_with(**changes))


def test_environments_without_a_table_are_refused() -> None:
    with pytest.raises(TypeError, match="CartPoleEnv has no transition table"):
        TabularModel.from_env(gym.make("CartPole-v1"))
    with pytest.raises(TypeError, match="action_space must be Discrete"):
        TabularModel.from_env(bandit_with(action_space=gym.spaces.Discrete(2, start=1)))
    with pytest.raises(ValueError, match=r"fickle_passenger.*FickleTaxi-v0 is the same with"):
        TabularModel.from_env(gym.make(TAXI, fickle_passenger=True))


def test_wrappers_that_change_the_law_are_refused() -> None:
    doubled = gym.wrappers.TransformReward(gym.make(BANDIT), lambda reward: 2 * float(reward))
    with pytest.raises(ValueError, match="TransformReward"):
        TabularModel.from_env(doubled)
    limited = gym.wrappers.TimeLimit(OutlierBanditEnv(), 5)
    with pytest.raises(ValueError, match="without a spec"):
        TabularModel.from_env(limited)

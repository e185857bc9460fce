"""The environments are Gymnasium citizens, and their parameters are checked."""

from __future__ import annotations

import importlib.util
import math
import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from sibling_replay.envs import register_envs

BANDIT = "sibling_replay/OutlierBandit-v0"
CHAINS = "sibling_replay/TwoChains-v0"
H100 = "sibling_replay/FrozenLakeH100-v0"
H50 = "sibling_replay/FrozenLakeH50-v0"
BENCH = {  # time limit, states, actions
    "sibling_replay/ConalBandit-v0": (1, 1, 5),
    "sibling_replay/ShiftedConalBandit-v0": (1, 1, 5),
    "sibling_replay/NoisyGridworld-v0": (100, 7 * 8, 4),
    "sibling_replay/PortalBridge-v0": (100, 6 * 9, 4),
    "sibling_replay/ShortcutMaze-v0": (100, 10 * 10, 4),
    "sibling_replay/BlindCliffWalk-v0": (100, 11, 2),
    "sibling_replay/Chain-v0": (100, 21, 2),
    "sibling_replay/FickleTaxi-v0": (200, 1000, 6),
}
CONAL, SHIFTED, NOISY, PORTAL, MAZE, CLIFF, CHAIN, FICKLE = BENCH
OURS = [BANDIT, CHAINS, H100, H50, *BENCH]

HAS_PYGAME = importlib.util.find_spec("pygame") is not None


@pytest.mark.parametrize("env_id", OURS)
def test_check_env_has_nothing_to_say(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # FrozenLake's render modes are Gymnasium's and need pygame.
        skip = "FrozenLake" in env_id and not HAS_PYGAME
        check_env(gym.make(env_id).unwrapped, skip_render_check=skip)


def test_registering_again_changes_nothing() -> None:
    specs = {env_id: gym.registry[env_id] for env_id in OURS}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Gymnasium warns about an id that is overridden
        register_envs()
    assert all(gym.registry[env_id] is spec for env_id, spec in specs.items())


@pytest.mark.parametrize(
    ("env_id", "limit"),
    [(BANDIT, None), (CHAINS, 20), (H100, 200), (H50, 200)]
    + [(env_id, limit) for env_id, (limit, _, _) in BENCH.items()],
)
def test_time_limits(env_id: str, limit: int | None) -> None:
    spec = gym.make(env_id).spec
    assert spec is not None and spec.max_episode_steps == limit


@pytest.mark.parametrize(
    ("env_id", "n_states", "n_actions"),
    [(BANDIT, 1, 2), (CHAINS, 14, 2), (H100, 64, 4), (H50, 64, 4)]
    + [(env_id, states, actions) for env_id, (_, states, actions) in BENCH.items()],
)
def test_spaces(env_id: str, n_states: int, n_actions: int) -> None:
    env = gym.make(env_id)
    assert env.observation_space == gym.spaces.Discrete(n_states)
    assert env.action_space == gym.spaces.Discrete(n_actions)


@pytest.mark.parametrize(
    ("env_id", "parameters"),
    [
        (BANDIT, {"p": -0.1}),
        (BANDIT, {"p": 1.1}),
        (BANDIT, {"p": math.nan}),
        (BANDIT, {"safe_reward": math.inf}),
        (BANDIT, {"outlier_reward": math.nan}),
        (BANDIT, {"common_reward": -math.inf}),
        (CHAINS, {"chain_length": 0}),
        (CHAINS, {"chain_length": -3}),
        (CHAINS, {"chain_length": 2.5}),
        (CHAINS, {"p": 2}),
        (CHAINS, {"safe_reward": math.nan}),
        (CHAINS, {"risky_reward": math.inf}),
        (CHAINS, {"hole_reward": math.nan}),
        (H100, {"success_rate": 1.01}),
        (H100, {"success_rate": -0.01}),
        (H50, {"goal_reward": math.inf}),
        (H50, {"hole_reward": math.nan}),
        (H50, {"step_reward": math.nan}),
        (H50, {"map_name": "9x9"}),
        (CONAL, {"shift": math.inf}),
        (SHIFTED, {"noise": -1.0}),
        (SHIFTED, {"noise": math.nan}),
        (NOISY, {"variance": -2.0}),
        (NOISY, {"variance": math.inf}),
        (NOISY, {"goal_reward": math.nan}),
        (NOISY, {"step_reward": math.inf}),
        (PORTAL, {"p": 1.5}),
        (PORTAL, {"loss": math.nan}),
        (PORTAL, {"goal_reward": math.inf}),
        (PORTAL, {"step_reward": math.nan}),
        (MAZE, {"p": -0.02}),
        (MAZE, {"prize": math.inf}),
        (MAZE, {"goal_reward": math.nan}),
        (MAZE, {"step_reward": math.nan}),
        (CLIFF, {"length": 0}),
        (CLIFF, {"reward": math.nan}),
        (CHAIN, {"length": 1.5}),
        (CHAIN, {"reward": math.inf}),
        (CHAIN, {"step_reward": math.nan}),
        (FICKLE, {"fickle_probability": 1.3}),
    ],
)
def test_bad_parameters_are_refused_by_name(env_id: str, parameters: dict[str, Any]) -> None:
    (name,) = parameters
    with pytest.raises(ValueError, match=name):
        gym.make(env_id, **parameters)


@pytest.mark.parametrize("env_id", [BANDIT, CHAINS, CLIFF, CHAIN])
@pytest.mark.parametrize("action", [2, -1, 0.5])
def test_an_unknown_action_is_refused(env_id: str, action: Any) -> None:
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction):
        env.step(action)

"""The environments of the bench, and how a run of the compiled trainer goes on each of them.

Settings are the same for every method, and sized so that a run takes two or three seconds of a
core. They were chosen by what DDQN does on seeds 50-52 (PER was watched beside it, and no other
method was run), so that it learns on each of them, and not everything at once. `train --env NAME`
takes them for its own.
"""

from __future__ import annotations

from typing import Any

from sibling_replay.envs import REWARD_PARAMETERS, env_text, parse_env
from sibling_replay.training.config import TabularConfig, gym_id, paper_config


def _settings(steps: int, **others: Any) -> dict[str, Any]:
    """Epsilon falls over the first half of a run and beta rises over all of it, unless said."""
    usual = {
        "steps": steps,
        "capacity": 50_000,
        "learning_starts": 1_000,
        "learning_rate": 1e-3,
        "gamma": 0.99,
        "target_interval": 500,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_decay_steps": steps // 2,
        "eval_episodes": 50,
        "eval_every_episodes": 20,
        "beta_updates": steps,
        "hidden": 64,
        "batch_size": 32,
    }
    return usual | others


# All that is to be learnt of a bandit is learnt within some hundred updates: look closely.
_BANDIT = _settings(
    10_000,
    capacity=5_000,
    learning_starts=100,
    learning_rate=2.5e-4,
    gamma=0.0,
    eval_episodes=200,
    eval_every_episodes=50,
)
# 500 and 1,000 states make the first layer, and so Adam, slow: fewer units. With gamma 0.99 DDQN
# does not get there within three seconds.
_TAXI: dict[str, Any] = {
    "learning_rate": 2e-3,
    "gamma": 0.95,
    "target_interval": 250,
    "epsilon_end": 0.1,
    "eval_every_episodes": 10,
    "hidden": 32,
}

SETTINGS: dict[str, dict[str, Any]] = {
    "ConalBandit": _BANDIT,
    "ShiftedConalBandit": _BANDIT,
    "NoisyGridworld": _settings(80_000, gamma=0.95),
    "PortalBridge": _settings(80_000, capacity=10_000),
    "ShortcutMaze": _settings(80_000, epsilon_decay_steps=60_000),
    "BlindCliffWalk": _settings(40_000, capacity=10_000, eval_every_episodes=100),
    "Chain": _settings(40_000, capacity=10_000),
    "FrozenLake-v1,map_name=4x4": _settings(80_000, eval_episodes=100),
    "FrozenLake-v1,map_name=8x8,max_episode_steps=200": _settings(
        100_000, learning_rate=5e-4, target_interval=1_000, eval_episodes=100
    ),
    "CliffWalking-v1,is_slippery=true,max_episode_steps=200": _settings(
        80_000, eval_every_episodes=5
    ),
    "Taxi-v4,is_rainy=true": _settings(80_000, epsilon_decay_steps=60_000, **_TAXI),
    "FickleTaxi": _settings(60_000, epsilon_decay_steps=60_000, **_TAXI),
}
"""By the text that names an environment in a config (`sibling_replay.envs.named`)."""


def settings_of(env: str) -> dict[str, Any] | None:
    """Those of an environment of the bench, also with noise on its rewards, as a twin, by its id
    or with parameters of its own; None for any other."""
    env_id, parameters = parse_env(gym_id(env))
    plain = {name: value for name, value in parameters.items() if name not in REWARD_PARAMETERS}
    return _BY_ID.get(env_text(env_id, plain)) or _BY_ID.get(env_id)


def bench_config(env: str, method: str, seed: int, **overrides: Any) -> TabularConfig:
    """A run of the compiled trainer with the settings of the bench, or else with the paper's."""
    return paper_config(env, method, seed, **{**(settings_of(env) or {}), **overrides})


_BY_ID = {gym_id(env): settings for env, settings in SETTINGS.items()}

"""Environments without their noise."""

from __future__ import annotations

from sibling_replay.envs import REWARD_PARAMETERS, env_text, parse_env


def twin(env: str) -> str:
    """The noise-free twin of an environment: the same means, and so the same Q*."""
    env_id, parameters = parse_env(env)
    kept = {name: value for name, value in parameters.items() if name not in REWARD_PARAMETERS}
    return env_text(env_id, {**kept, "rewards": "mean"})

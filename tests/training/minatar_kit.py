"""Small MinAtar runs for the tests, and what two runs must share."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sibling_replay.grouping.vqvae.encoder import FrozenEncoder, Weights
from sibling_replay.studies.minatar.runs import minatar_config, needs_groups
from sibling_replay.training.minatar.config import MinAtarConfig

# Everything happens within few steps: evictions, target updates, evaluations, windows.
SMALL: dict[str, Any] = {
    "steps": 320,
    "learning_starts": 40,
    "capacity": 120,
    "target_interval": 50,
    "epsilon_decay_steps": 200,
    "beta_updates": 2_000,
    "max_episode_steps": 60,
    "eval_every_steps": 90,
    "eval_episodes": 3,
    "diagnostics_every": 120,
    "learning_rate": 1e-3,
}


def random_encoder(channels: int = 4, codes: int = 4) -> FrozenEncoder:
    """An encoder nobody trained: as good a fixed abstraction as any for a test."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32) / np.sqrt(np.prod(shape[:-1]))

    weights = Weights(
        first=drawn(3, 3, channels, 8),
        first_bias=drawn(8),
        second=drawn(3, 3, 8, 8),
        second_bias=drawn(8),
        to_code=drawn(8, 4),
        to_code_bias=drawn(4),
        codebook=drawn(codes, 4),
    )
    return FrozenEncoder(weights, (2, 1))


def small(method: str, condition: str = "mp-tail", **overrides: Any) -> MinAtarConfig:
    encoder = random_encoder().digest if needs_groups(method) else ""
    settings = {**SMALL, "encoder": encoder, **overrides}
    return minatar_config("Breakout", method, condition, settings.pop("seed", 3), **settings)


def encoder_of(config: MinAtarConfig) -> FrozenEncoder | None:
    return random_encoder() if config.encoder else None


def bytes_of(session: Any) -> bytes:
    """All of a session that decides how it goes on, and its result."""
    header, arrays = session.state()
    parts = [json.dumps(header, sort_keys=True).encode()]
    for name in sorted(arrays):
        parts += [name.encode(), np.ascontiguousarray(arrays[name]).tobytes()]
    return b"\0".join(parts)

"""What a uniformly random player of a MinAtar game sees, stored as bits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sibling_replay.envs import register_envs
from sibling_replay.rng import SEED_BOUND, streams


@dataclass(frozen=True)
class Observations:
    """Observations in the order they were met, and the action taken at each."""

    shape: tuple[int, ...]  # of one observation
    bits: NDArray[np.uint8]  # [N, bytes], eight cells a byte
    action: NDArray[np.uint8]  # [N]

    def __len__(self) -> int:
        return len(self.bits)

    def at(self, places: NDArray[Any] | slice) -> NDArray[np.bool_]:
        """[n, *shape]: the observations at some places."""
        cells = int(np.prod(self.shape))
        unpacked = np.unpackbits(self.bits[places], axis=1, count=cells)
        return unpacked.view(np.bool_).reshape(-1, *self.shape)

    @property
    def digest(self) -> str:
        """Names the data: a model says by this what it was trained on."""
        digest = hashlib.blake2b(repr(self.shape).encode(), digest_size=16)
        digest.update(self.bits.tobytes())
        digest.update(self.action.tobytes())
        return digest.hexdigest()


def collect_observations(game: str, count: int, seed: int) -> Observations:
    """`count` observations of the game with sticky actions, by the seed's named streams."""
    register_envs()
    rng = streams(seed)
    env = gym.make(f"sibling_replay/MinAtar-{game}-v0").unwrapped
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    actions = rng.explore.integers(n_actions, size=count).astype(np.uint8)
    obs, _ = env.reset(seed=int(rng.env.integers(SEED_BOUND)))
    bits = np.empty((count, -(-obs.size // 8)), np.uint8)
    for place, action in enumerate(actions.tolist()):
        bits[place] = np.packbits(obs)
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    return Observations(obs.shape, bits, actions)

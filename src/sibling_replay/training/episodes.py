"""Episodes that can be taken up again: each begins with a seed of its own, so where one stands is
its number and the actions since.

That is plain data for any environment whose episodes follow from their seed and actions, whatever
it keeps inside. Going on replays them, and refuses if observation or rewards come out otherwise.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sibling_replay.checkpoint import StateError
from sibling_replay.rng import SEED_BOUND


class RepeatableEpisodes(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose resets are seeded, one after the other, from one number."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self._seed = seed
        self.episode = 0  # begun so far
        self._actions: list[int] = []
        self._obs: Any = None
        self._paid = 0.0  # in this episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode; a seed begins the count anew."""
        if seed is not None:
            self._seed, self.episode = seed, 0
        self.episode += 1
        return self._begin(options)

    def _begin(self, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        key = np.random.SeedSequence(self._seed, spawn_key=(self.episode,))
        first = int(key.generate_state(1)[0] % SEED_BOUND)
        self._actions, self._paid = [], 0.0
        self._obs, info = self.env.reset(seed=first, options=options)
        return self._obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._actions.append(int(action))
        found = self.env.step(action)
        self._obs = found[0]
        self._paid += float(found[1])
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and arrays for a checkpoint."""
        arrays = {"actions": np.array(self._actions, np.int64), "obs": np.array(self._obs)}
        return {"seed": self._seed, "episode": self.episode, "paid": self._paid}, arrays

    def load_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
        """Take an episode up again; returns the observation it stands at."""
        self._seed, self.episode = header["seed"], header["episode"]
        self._begin()
        for action in arrays["actions"].tolist():
            self.step(action)
        shown = np.array_equal(np.asarray(self._obs), arrays["obs"], equal_nan=True)
        if not shown or self._paid != header["paid"]:
            raise StateError(
                f"{self.env} does not give the same {'rewards' if shown else 'observations'} with "
                "the same seed and actions, so a run on it cannot be taken up in the middle of an "
                "episode: was it changed, does it not follow its seed, or does it keep something "
                "from one episode to the next?"
            )
        return self._obs

"""MinAtar's five games as the paper plays them.

The games are those of the `MinAtar` package (extra `minatar`). What the package leaves to its users
is done here, once: sticky actions that are forgotten at a reset, a limit of 5000 steps, one owned
random stream, and a state that a checkpoint can write as plain data.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .base import check_probability
from .plain import plain, restored

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
"""The paper's names of the games, and the package's modules."""

NO_OP = 0
STATE_VERSION = 1

Observation = NDArray[np.bool_]  # [10, 10, channels]


class MinAtarEnv(gym.Env[Observation, np.int64]):
    """One game of MinAtar.

    ## Description
    A 10x10 grid with a channel for each kind of object. Difficulty ramps as the package has it by
    default. With probability `sticky` the previous action of this episode is repeated instead of
    the one given; the first step of an episode has none and repeats "no operation".

    ## Action space
    `Discrete(6)`: no operation, left, up, right, down, fire, which is what the paper's table of
    groups fits. With `minimal=True` only those that do something in this game.

    ## Observation space
    `Box(0, 1, (10, 10, channels), bool)`.

    ## Episode end
    Termination as the game says (Freeway: after 2501 steps), truncation at `max_steps`.

    ## Arguments
    ```python
    gym.make("sibling_replay/MinAtar-Breakout-v0", sticky=0.1, max_steps=5000, minimal=False)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/MinAtar-Breakout-v0")  # needs the extra `minatar`
        >>> env.observation_space.shape
        (10, 10, 4)
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it an instance attribute)

    def __init__(
        self, game: str, sticky: float = 0.1, max_steps: int = 5000, minimal: bool = False
    ) -> None:
        if game not in GAMES:
            raise ValueError(f"unknown game {game!r}: choose from {', '.join(GAMES)}")
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps!r}")
        self.sticky = check_probability("sticky", sticky)
        self.max_steps = max_steps
        self._name = game
        self._game = _load(game).Env()
        self._actions = self._game.minimal_action_set() if minimal else list(range(6))
        self._previous = NO_OP
        self._elapsed = 0
        self._over = True  # until the first reset
        self.action_space = spaces.Discrete(len(self._actions))
        shape = tuple(self._game.state_shape())
        # Gymnasium annotates a Box as float32 whatever its dtype
        self.observation_space = spaces.Box(0, 1, shape, np.bool_)  # type: ignore[arg-type,assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        # Stickiness and the game draw from one stream, in the order they ask.
        self._game.random = _Chance(self.np_random)
        self._game.reset()
        self._previous, self._elapsed, self._over = NO_OP, 0, False
        return self._game.state(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise gym.error.InvalidAction(f"{action!r} is not in {self.action_space}")
        if self._over:
            raise gym.error.ResetNeeded("the episode is over: call reset")
        if self.np_random.random() >= self.sticky:
            self._previous = self._actions[action]
        reward, terminated = self._game.act(self._previous)
        self._elapsed += 1
        truncated = self._elapsed == self.max_steps and not terminated
        self._over = terminated or truncated
        return self._game.state(), float(reward), bool(terminated), truncated, {}

    def observation(self) -> Observation:
        """What the last `reset` or `step` showed; a restored environment shows it again."""
        state: Observation = self._game.state()
        return state

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to go on bit for bit, as plain (JSON) data."""
        game = {name: plain(x) for name, x in vars(self._game).items() if name != "random"}
        return {
            "version": STATE_VERSION,
            "game": self._name,
            "generator": plain(self.np_random.bit_generator.state),
            "variables": game,
            "previous": int(self._previous),
            "elapsed": self._elapsed,
            "over": self._over,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken. Nothing is changed if it is of another game."""
        found = (state.get("version"), state.get("game"))
        if found != (STATE_VERSION, self._name):
            raise ValueError(
                f"a state of game {found[1]!r}, version {found[0]!r}; "
                f"this is {self._name!r}, version {STATE_VERSION}"
            )
        variables = {name: restored(value) for name, value in state["variables"].items()}
        generator = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = restored(state["generator"])
        self.np_random = generator
        vars(self._game).update(variables)
        self._game.random = _Chance(generator)
        self._previous, self._elapsed = state["previous"], state["elapsed"]
        self._over = state["over"]


class _Chance:
    """What the games ask of their `random`, from a Generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def rand(self, *shape: int) -> Any:
        return self._generator.random(shape or None)

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        return self._generator.integers(low, high, size)


def _load(game: str) -> Any:
    try:
        return import_module(f"minatar.environments.{GAMES[game]}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}: the MinAtar games are an extra, pip install 'sibling-replay[minatar]'"
        ) from error

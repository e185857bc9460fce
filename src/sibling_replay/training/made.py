"""The environments of a learner, however they were given."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from sibling_replay.envs import make_env
from sibling_replay.rng import SEED_BOUND
from sibling_replay.training.episodes import RepeatableEpisodes
from sibling_replay.training.worlds import Envs, VectorWorld

# What `gym.make_vec` notes beside an environment's own arguments.
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers")


class Made:
    """Environments by id, one that was given, or a vector of them; not reset before they are used.

    Each of those that are stepped here has episodes with seeds of their own. Only an environment
    that is given by its id has one here: an object may have arguments and wrappers that a file
    cannot hold.
    """

    def __init__(
        self, env: str | gym.Env[Any, Any] | VectorEnv[Any, Any, Any], n_envs: int, seed: int
    ) -> None:
        if isinstance(n_envs, bool) or not isinstance(n_envs, int) or n_envs < 1:
            raise ValueError(f"n_envs must be a whole number from 1 on, got {n_envs!r}")
        if not isinstance(env, str) and n_envs != 1:
            raise ValueError("n_envs is for environments by id: give a vector environment instead")
        self.id = env if isinstance(env, str) else None
        self.size = env.num_envs if isinstance(env, VectorEnv) else n_envs
        self._seed = seed
        self._steps = 0  # taken before the first reset here, by a model that was loaded
        self._vector = env if isinstance(env, VectorEnv) else None
        self._world: Envs | VectorWorld | None = None  # None: to be reset before it is acted in
        self._envs: list[RepeatableEpisodes] = []
        if not isinstance(env, VectorEnv):
            made = [make_env(env) if isinstance(env, str) else env for _ in range(n_envs)]
            seeds = np.random.SeedSequence(seed).generate_state(n_envs) % SEED_BOUND
            self._envs = [
                RepeatableEpisodes(each, int(one)) for each, one in zip(made, seeds, strict=True)
            ]

    @property
    def any(self) -> Any:
        """One of them, or the vector."""
        return self._envs[0] if self._vector is None else self._vector

    @property
    def name(self) -> str:
        spec = self.any.spec
        return self.id or (type(self.any.unwrapped).__name__ if spec is None else spec.id)

    @property
    def form(self) -> str:
        """Its name with its wrappers and arguments: no other's checkpoint is taken up."""
        spec = self.any.spec
        arguments = {} if spec is None else spec.kwargs
        return f"{self.any} {json.dumps(arguments, sort_keys=True, default=_kind)}"

    @property
    def spaces(self) -> tuple[Any, Any]:
        """Of observations and actions of a single one."""
        if self._vector is not None:
            return self._vector.single_observation_space, self._vector.single_action_space
        return self._envs[0].observation_space, self._envs[0].action_space

    @property
    def begun(self) -> bool:
        """Whether episodes are under way."""
        return self._world is not None

    def world(self) -> Envs | VectorWorld:
        """Where to act; the first call resets."""
        if self._world is None and self._vector is not None:
            seed = self._seed
            if self._steps:
                key = np.random.SeedSequence(seed, spawn_key=(self._steps,))
                seed = int(key.generate_state(1)[0] % SEED_BOUND)
            self._world = VectorWorld(self._vector, self._vector.reset(seed=seed)[0])
        elif self._world is None:
            self._world = Envs(self._envs, [env.reset()[0] for env in self._envs])
        return self._world

    def leave_episodes(self, steps: int) -> None:
        """After so many steps begin new ones: those under way stopped in the middle of a step."""
        self._world, self._steps = None, steps

    @property
    def episodes(self) -> list[int]:
        """Episodes begun, of each that is stepped here."""
        return [env.episode for env in self._envs]

    def go_on_after(self, steps: int, episodes: list[int]) -> None:
        """Begin new episodes, none that were there in so many steps and episodes."""
        self._steps = steps
        for env, begun in zip(self._envs, episodes, strict=False):
            env.episode = begun

    def another(self) -> gym.Env[Any, Any]:
        """A fresh one, to evaluate on, or an error that says what stands in the way."""
        spec = self._vector.spec if self._vector is not None else self._envs[0].env.spec
        try:
            if self.id is not None:
                return make_env(self.id)
            if spec is None:
                raise ValueError("it has no id")
            return gym.make(spec) if self._vector is None else _one_of(self._vector)
        except ValueError as error:
            raise ValueError(
                f"another {self.name} cannot be made ({error}): give `make`, a function that does"
            ) from error

    def check_repeatable(self) -> None:
        """Raise if no checkpoint can say where they stand."""
        if self._vector is not None:
            raise ValueError(
                "checkpoints are for environments that are stepped here: give an id, and n_envs "
                "instead of a vector environment"
            )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        world = self.world()
        tally = world.tally
        headers = []
        arrays = {"totals": np.array(tally.totals), "lengths": np.array(tally.lengths)}
        for place, env in enumerate(self._envs):
            header, of_env = env.state()
            headers.append(header)
            arrays |= {f"{place}/{name}": array for name, array in of_env.items()}
        return {"envs": headers}, arrays

    def load_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        shown = []
        for place, (env, of_env) in enumerate(zip(self._envs, header["envs"], strict=True)):
            parts = {name: arrays[f"{place}/{name}"] for name in ("actions", "obs")}
            shown.append(env.load_state(of_env, parts))
        world = self._world = Envs(self._envs, shown)
        world.tally.totals = arrays["totals"].tolist()
        world.tally.lengths = arrays["lengths"].tolist()


def _kind(argument: Any) -> str:
    """What kind of an argument it is: how it is shown may name a place in memory."""
    return type(argument).__name__


def _one_of(vector: VectorEnv[Any, Any, Any]) -> gym.Env[Any, Any]:
    """An environment like those of a vector that `gym.make_vec` made."""
    if isinstance(vector, VectorWrapper):
        raise ValueError(f"the vector is wrapped in {type(vector).__name__}")
    assert vector.spec is not None
    arguments = {name: each for name, each in vector.spec.kwargs.items() if name not in _OF_VECTORS}
    made = gym.make(vector.spec.id, **arguments)
    for wrapper in vector.spec.kwargs.get("wrappers") or ():
        made = wrapper(made)
    if made.observation_space != vector.single_observation_space:
        raise ValueError(f"one by itself has observations {made.observation_space}")
    return made

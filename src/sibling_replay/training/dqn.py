"""Double DQN on a Gymnasium environment, ready to use.

    model = DQN("CartPole-v1", strategy=SiblingSample(alpha=0.6), key="auto", seed=0)
    model.learn(100_000, progress_bar=True)
    action = model.predict(obs)

On vectors the learner is compiled (`vector/`); `learner="torch"` takes the torch one.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from sibling_replay import ReplayBuffer, SiblingSample, Strategy
from sibling_replay.checkpoint import RollingCheckpoint, StateError, read_state, write_state
from sibling_replay.rng import SEED_BOUND, streams
from sibling_replay.strategies.registry import require_strategy
from sibling_replay.training.evaluation import greedy_returns
from sibling_replay.training.initial import initial_layers
from sibling_replay.training.interaction import Position, interact, refuse_unknown_signals
from sibling_replay.training.made import Made
from sibling_replay.training.model_state import (
    Arrays,
    part_of,
    refuse_other_end,
    refuse_other_model,
    strategy_in,
    under,
)
from sibling_replay.training.plan import Plan, next_stop
from sibling_replay.training.reporting import LOOK_EVERY, Progress, Reporter
from sibling_replay.training.settings import NetworkSettings, settings_by_name
from sibling_replay.training.spaces import check_spaces, key_for
from sibling_replay.training.vector.learner import CompiledDoubleDQN
from sibling_replay.training.worlds import Episode

LEARNERS = ("compiled", "torch")
EXPLORING = 0.2  # of a run: its steps while epsilon falls, unless they are given
LATE_EPISODES = 100  # whose mean return is shown
_VERSION = 2  # of the files
_OBJECT = "object"  # in the place of a key that is no text
_CHANGING = (  # of a header, while a model learns
    "steps", "updates", "episodes", "begun", "late", "notes", "explore", "evaluate", "settings",
)  # fmt: skip
_LEARNING = ("gamma", "learning_rate", "grad_clip", "loss", "through_time_limits", "n_steps")

Callback = Callable[["DQN"], bool | None]


class DQN:
    """A learner, its replay buffer and its environment.

    env: an id that Gymnasium knows, an environment, or a vector environment. Of an id, `n_envs`
        are acted in side by side.
    strategy: how to replay; `SiblingSample()` unless given.
    key: what makes siblings: "auto", "grid:4", "simhash:12", "kmeans:256" or "exact", or whatever
        `ReplayBuffer` takes. Without one it is exact for numbered states (Discrete), else
        `Auto()`, which tries exact observations first.
    learner: "compiled" or "torch"; compiled unless given.
    seed: of everything: weights, exploration, replay, episodes.
    settings: those of `NetworkSettings`, by name, as learning_rate=1e-3 or hidden=(64, 64). Epsilon
        falls over a fifth of the first `learn`, and beta rises over all of it, unless
        epsilon_decay_steps and beta_updates say otherwise.

    Targets bootstrap through time limits: to be cut off says nothing about a state. Where the limit
    is part of the task, give through_time_limits=False.

    Examples:
        >>> model = DQN("FrozenLake-v1", strategy=SiblingSample(), seed=0).learn(1_100)
        >>> len(model.evaluate(2))
        2
    """

    def __init__(
        self,
        env: str | gym.Env[Any, Any] | VectorEnv[Any, Any, Any],
        *,
        strategy: Strategy | None = None,
        key: Any = None,
        learner: str = "compiled",
        n_envs: int = 1,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        self.settings = settings_by_name(settings)
        self._open = {"epsilon_decay_steps", "beta_updates"} - set(settings)
        self._told_idle = False  # that a call of `learn` was too short
        self.strategy = SiblingSample() if strategy is None else strategy
        require_strategy(self.strategy)
        refuse_unknown_signals(self.strategy)
        if learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, not {learner!r}")
        self.learner_kind = learner
        self.seed = int(np.random.default_rng().integers(SEED_BOUND)) if seed is None else seed
        rng = streams(self.seed)
        self.made = Made(env, n_envs, int(rng.env.integers(SEED_BOUND)))
        self.observation_space, self.action_space = self.made.spaces
        check_spaces(self.observation_space, self.action_space)
        self.learner: Any = self._new_learner(rng.init)
        named = key is None or isinstance(key, str)
        self._key_text = key if named else _OBJECT  # as a file names it
        self.buffer = ReplayBuffer.for_env(
            self.made.any,
            self.settings.capacity,
            self.strategy,
            key=key_for(key, self.strategy, self.observation_space),
            seed=rng.replay,
            n_steps=self.settings.n_steps,
            gamma=self.settings.gamma,
        )
        self._explore, self._evaluate_from = rng.explore, rng.eval
        self.steps = 0  # of the environment, taken
        self.updates = 0  # of the optimizer
        self.episodes = 0  # finished
        self.late: deque[Episode] = deque(maxlen=LATE_EPISODES)
        self.notes: list[Any] = []  # yours: numbers, text and lists of them, kept in files

    def _new_learner(self, rng: np.random.Generator) -> Any:
        inputs = spaces.flatdim(self.observation_space)
        sizes = (inputs, *self.settings.layers, int(self.action_space.n))
        options: dict[str, Any] = {name: getattr(self.settings, name) for name in _LEARNING}
        if self.learner_kind == "compiled":
            layers = initial_layers(rng, sizes)
            return CompiledDoubleDQN(layers, self.observation_space, **options)
        from sibling_replay.training.torch.dqn import DoubleDQN  # torch is an extra
        from sibling_replay.training.torch.reference import mlp

        return DoubleDQN(mlp(sizes, rng), self.observation_space, **options)

    def __repr__(self) -> str:
        return (
            f"<DQN on {self.made.name}: {self.steps:,} steps, {self.updates:,} updates, "
            f"{self.learner_kind}, {self.buffer!r}>"
        )

    # ------------------------------------------------------------------------------ learning

    def learn(
        self,
        steps: int,
        *,
        progress_bar: bool = False,
        callback: Callback | None = None,
        callback_every: int = 1_000,
        eval_every: int = 0,
        eval_episodes: int = 10,
        tensorboard: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> DQN:
        """Go on for so many environment steps.

        callback: called with the model every `callback_every` steps; if it returns False, learning
            stops there.
        eval_every: steps between evaluations of `eval_episodes` greedy episodes on an environment
            of their own; 0: never.
        tensorboard: a directory for its files.
        checkpoint: a directory in which the whole state is kept every `checkpoint_seconds`. If this
            process is killed, the same call on a new model goes on from there, and ends with the
            same bytes as if nothing had happened. A checkpoint of a run to another step is refused.

        Of several environments, what those behind the last step of a round did is not kept.
        """
        if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"steps must be a whole number from 1 on, got {steps!r}")
        kept = None if checkpoint is None else RollingCheckpoint(checkpoint)
        if kept is not None:
            self.made.check_repeatable()
        until = self.steps + int(steps)
        with nullcontext() if kept is None else kept.owned():
            saved = None if kept is None else kept.load()
            if saved is not None:
                self._take_up(*saved, until)
            self._settle_schedules(until - self.steps)
            saved_at = time.monotonic()
            with Reporter(self.steps, until, progress_bar, tensorboard) as reporter:
                looks = LOOK_EVERY if kept is None else 1
                stops = looks, eval_every, callback_every if callback is not None else 0
                for _ in self._take_steps(until, [every for every in stops if every]):
                    if reporter.due(self.steps):
                        reporter.report(self.progress())
                    if eval_every and self.steps % eval_every == 0:
                        reporter.evaluated(self.steps, float(self.evaluate(eval_episodes).mean()))
                    due = callback is not None and self.steps % callback_every == 0
                    if due and callback is not None and callback(self) is False:
                        break
                    now = time.monotonic() if kept is not None else saved_at
                    if kept is not None and now - saved_at >= checkpoint_seconds and self._at_rest:
                        kept.save(*self._state(until))
                        saved_at = now
            if kept is not None:
                kept.save(*self._state(until))
        return self

    def _settle_schedules(self, steps: int) -> None:
        """What was left open depends on how long the first `learn` is to be."""
        settings = self.settings
        begun = max(0, steps - settings.learning_starts)
        usual: dict[str, Any] = {
            "epsilon_decay_steps": int(EXPLORING * steps),
            "beta_updates": begun // settings.train_every * settings.updates_a_round,
        }
        self.settings = replace(settings, **{name: usual[name] for name in self._open})
        self._open = set()

    def _take_steps(self, until: int, stops: list[int]) -> Iterator[None]:
        """Train, and stop after steps that are a multiple of one of `stops`, and after the last."""
        if not self.made.begun:  # the first episodes continue nothing that a file may hold
            self.buffer.end_episodes()
        world, begun = self.made.world(), self.steps
        stop = next_stop(begun, until, stops)
        position = Position(self.steps, self.updates, None)
        plan = Plan(self.settings, until, self.steps - len(self.buffer))
        if until < plan.first_update and not self._told_idle:
            self._told_idle = True
            warnings.warn(
                f"nothing is learnt by this call: it ends with step {until:,}, and the first "
                f"update follows step {plan.first_update:,} "
                f"(learning_starts={self.settings.learning_starts:,})",
                stacklevel=3,
            )
        try:
            going = interact(world, self.learner, self.buffer, plan, self._explore, position)
            with closing(going):
                for step in going:
                    self.steps, self.updates = step.number, step.updates
                    if step.number < stop:
                        continue
                    self.late.extend(world.tally.finished)
                    self.episodes += len(world.tally.finished)
                    world.tally.finished.clear()
                    self._at_rest = (step.number - begun) % self.made.size == 0
                    yield
                    stop = next_stop(self.steps, until, stops)
        except ValueError as error:
            raise ValueError(f"step {self.steps + 1:,} on {self.made.name}: {error}") from error

    def progress(self) -> Progress:
        """Where learning is."""
        totals, lengths = zip(*self.late, strict=True) if self.late else ((np.nan,), (np.nan,))
        support = self.buffer.support() if self.strategy.needs.groups and len(self.buffer) else None
        return Progress(
            step=self.steps,
            episodes=self.episodes,
            updates=self.updates,
            mean_return=float(np.mean(totals)),
            mean_length=float(np.mean(lengths)),
            loss=float(self.learner.last_loss),
            epsilon=self.settings.epsilon(self.steps),
            beta=self.settings.beta(self.updates),
            learning_rate=self.settings.learning_rate,
            groups_per_entry=None if support is None else support.groups_per_entry,
        )

    # ------------------------------------------------------------------------------- acting

    def predict(self, obs: Any) -> Any:
        """The greedy action of an observation (an int), or of each of a batch (an array)."""
        shape = self.observation_space.shape or ()
        given = np.asarray(obs)
        if given.shape == shape:
            return self.learner.greedy(given)
        if given.shape[1:] == shape and given.ndim == len(shape) + 1:
            return self.learner.greedy_all(given)
        raise ValueError(f"expected an observation of shape {shape} or a batch, got {given.shape}")

    def values(self, obs: ArrayLike) -> NDArray[Any]:
        """Q [n, A] of a batch of observations."""
        found: NDArray[Any] = self.learner.values(np.asarray(obs))
        return found

    def evaluate(
        self, episodes: int = 10, make: Callable[[], gym.Env[Any, Any]] | None = None
    ) -> NDArray[np.float64]:
        """Undiscounted returns of greedy episodes on environments of their own.

        make: makes one; without it they are made from the id of the training environment.
        """
        envs = [self.made.another() if make is None else make() for _ in range(episodes)]
        seeds = self._evaluate_from.integers(SEED_BOUND, size=episodes)
        try:
            return greedy_returns(self.learner.greedy_all, envs, seeds)
        finally:
            for env in envs:
                env.close()

    def to_torch(self) -> Any:
        """The Q-network as a `torch.nn.Sequential` (a copy)."""
        from sibling_replay.training.torch.reference import sequential

        return sequential(self.learner.layers)

    # ------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the model: networks, optimizer and settings; with `replay` the buffer, too.

        A file holds numbers and names, no code.
        """
        header, arrays = self._model_state()
        if replay:
            header["buffer"], more = self._buffer_state()
            arrays |= more
        write_state(path, header, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: str | gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | None = None,
        *,
        key: Any = None,
    ) -> DQN:
        """The model in a file, to predict or to go on learning: with an empty buffer, unless it was
        saved with `replay=True`. A key or an environment that was given as an object, not as text,
        is in no file: give it again.
        """
        header, arrays = read_state(path)
        if header.get("dqn") != _VERSION:
            raise StateError(f"{path} holds no DQN of this version")
        if header["key"] == _OBJECT and key is None:
            raise StateError(f"{path} was saved with a key that is an object: give it as key=")
        if header["env"] is None and env is None:
            raise StateError(
                f"{path} was saved with an environment that is an object: give it as env="
            )
        env = header["env"] if env is None else env
        model = cls(
            env,
            strategy=strategy_in(header),
            key=header["key"] if key is None else key,
            learner=header["learner"],
            n_envs=header["n_envs"] if isinstance(env, str) else 1,
            seed=header["seed"],
            **header["settings"],
        )
        model._load_model(header, arrays)
        if "buffer" in header:
            model._load_buffer(header["buffer"], arrays)
        return model

    def _model_state(self) -> tuple[dict[str, Any], Arrays]:
        header = {
            "dqn": _VERSION,
            "env": self.made.id,
            "env_name": self.made.name,  # of an object: no other's checkpoint is taken up
            "n_envs": self.made.size,
            "learner": self.learner_kind,
            "strategy": self.strategy.name,
            "options": self.strategy.options(),
            "key": self._key_text,
            "settings": asdict(self.settings),
            "seed": self.seed,
            "steps": self.steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "begun": self.made.episodes,
            "late": [list(episode) for episode in self.late],
            "notes": self.notes,
            "explore": self._explore.bit_generator.state,
            "evaluate": self._evaluate_from.bit_generator.state,
        }
        return header, under("learner", self.learner.arrays())

    def _load_model(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.settings, self._open = NetworkSettings(**header["settings"]), set()
        self.learner.load_arrays(part_of("learner", arrays))
        self.steps, self.updates = header["steps"], header["updates"]
        self.episodes = header["episodes"]
        self.made.go_on_after(self.steps, header["begun"])
        self.late = deque((Episode(*each) for each in header["late"]), LATE_EPISODES)
        self.notes = header["notes"]
        self._explore.bit_generator.state = header["explore"]
        self._evaluate_from.bit_generator.state = header["evaluate"]

    def _buffer_state(self) -> tuple[dict[str, Any], Arrays]:
        state = self.buffer.state_dict()
        return state.pop("header"), under("buffer", state)

    def _load_buffer(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.buffer.load_state_dict({"header": header, **part_of("buffer", arrays)})

    def _state(self, until: int) -> tuple[dict[str, Any], Arrays]:
        """All there is, for a checkpoint."""
        header, arrays = self._model_state()
        header["buffer"], of_buffer = self._buffer_state()
        header["world"], of_world = self.made.state()
        return {**header, "until": until}, {**arrays, **of_buffer, **under("world", of_world)}

    def _take_up(self, header: dict[str, Any], arrays: Arrays, until: int) -> None:
        """Go on from a checkpoint, unless that is where this model is."""
        own, _ = self._model_state()
        refuse_other_model(header, own, _CHANGING, own["settings"].keys() - self._open)
        if header["steps"] == self.steps:
            return
        refuse_other_end(header, self.steps, until)
        self._load_buffer(header["buffer"], arrays)
        self._load_model(header, arrays)
        self.made.load_state(header["world"], part_of("world", arrays))

    _at_rest = True  # whether all environments have taken as many steps

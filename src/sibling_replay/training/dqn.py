"""Double DQN on a Gymnasium environment, ready to use.

    model = DQN("CartPole-v1", strategy=SiblingSample(alpha=0.6), key="auto", seed=0)
    model.learn(100_000, progress_bar=True)
    action = model.predict(obs)

On vectors the learner is compiled (`vector/`); `learner="torch"` takes the torch one.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from sibling_replay import ReplayBuffer, SiblingSample, Strategy
from sibling_replay.checkpoint import RollingCheckpoint, StateError, read_state
from sibling_replay.envs import parse_env
from sibling_replay.rng import SEED_BOUND, streams
from sibling_replay.strategies.registry import require_strategy
from sibling_replay.training.evaluation import greedy_returns
from sibling_replay.training.initial import initial_layers
from sibling_replay.training.interaction import Position, interact, refuse_unknown_signals
from sibling_replay.training.made import Made
from sibling_replay.training.model_state import strategy_in
from sibling_replay.training.plan import Plan, next_stop
from sibling_replay.training.reporting import LOOK_EVERY, Progress, Reporter
from sibling_replay.training.saved_dqn import OBJECT, VERSION, SavedDQN
from sibling_replay.training.settings import settings_by_name
from sibling_replay.training.spaces import check_spaces, key_for
from sibling_replay.training.vector.learner import CompiledDoubleDQN
from sibling_replay.training.worlds import Episode, World

LEARNERS = ("compiled", "torch")
EXPLORING = 0.2  # of a run: its steps while epsilon falls, unless they are given
LATE_EPISODES = 100  # whose mean return is shown
_LEARNING = ("gamma", "learning_rate", "grad_clip", "loss", "through_time_limits", "n_steps")

Callback = Callable[["DQN"], bool | None]


class DQN(SavedDQN):
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
        self.seed = _seed(seed)
        rng = streams(self.seed)
        self.made = Made(env, n_envs, int(rng.env.integers(SEED_BOUND)))
        self.observation_space, self.action_space = self.made.spaces
        check_spaces(self.observation_space, self.action_space)
        self.learner: Any = self._new_learner(rng.init)
        named = key is None or isinstance(key, str)
        self._key_text = key if named else OBJECT  # as a file names it
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
        make: Callable[[], gym.Env[Any, Any]] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> DQN:
        """Go on for so many environment steps.

        callback: called with the model every `callback_every` steps; if it returns False, learning
            stops there.
        eval_every: steps between evaluations of `eval_episodes` greedy episodes on environments
            of their own; 0: never.
        make: makes such an environment, where the id of the training environment does not.
        tensorboard: a directory for its files.
        checkpoint: a directory in which the whole state is kept every `checkpoint_seconds`. If this
            process is killed, the same call on a new model goes on from there, and ends with the
            same bytes as if nothing had happened, also where a callback stopped it (without a
            callback it then goes on). A checkpoint of a run to another step is refused.
            That holds where episodes follow from their seed and actions, and nothing else is kept
            from one to the next (as `NormalizeReward` does, say).

        Of several environments, what those behind the last step of a round did is not kept.
        """
        steps = _whole("steps", steps, 1)
        callback_every = _whole("callback_every", callback_every, 1)
        eval_every = _whole("eval_every", eval_every, 0)
        eval_episodes = _whole("eval_episodes", eval_episodes, 1)
        if eval_every and make is None:
            self.made.another().close()  # or say now why there is none
        kept = None if checkpoint is None else RollingCheckpoint(checkpoint)
        if kept is not None:
            self.made.check_repeatable()
        until = self.steps + steps
        with nullcontext() if kept is None else kept.owned():
            saved = None if kept is None else kept.load()
            stopped = kept and saved and self._take_up(*saved, until, kept.newest)
            if stopped and callback is not None:
                return self
            self._settle_schedules(until - self.steps)
            saved_at = time.monotonic()
            with Reporter(self.steps, until, progress_bar, tensorboard) as reporter:
                looks = LOOK_EVERY if kept is None else 1
                stops = looks, eval_every, callback_every if callback is not None else 0
                stopped = False
                for _ in self._take_steps(until, [every for every in stops if every]):
                    if eval_every and self.steps % eval_every == 0:
                        score = float(self.evaluate(eval_episodes, make).mean())
                        reporter.evaluated(self.steps, score)
                    if callback is not None and self.steps % callback_every == 0:
                        stopped = _says_stop(callback(self))
                    if stopped or reporter.due(self.steps):
                        reporter.report(self.progress())
                    if stopped:
                        break
                    now = time.monotonic() if kept is not None else saved_at
                    if kept is not None and now - saved_at >= checkpoint_seconds and self._at_rest:
                        kept.save(*self._state(until))
                        saved_at = now
            if kept is not None:
                kept.save(*self._state(until, stopped))
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
        begun = self.steps
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
            world = self.made.world()
            going = interact(world, self.learner, self.buffer, plan, self._explore, position)
            with closing(going):
                for step in going:
                    self.steps, self.updates = step.number, step.updates
                    if step.number < stop:
                        continue
                    self._count_episodes(world)
                    self._at_rest = (step.number - begun) % self.made.size == 0
                    yield
                    stop = next_stop(self.steps, until, stops)
        except (Exception, KeyboardInterrupt) as error:
            if self.made.begun:
                self._count_episodes(self.made.world())
            self.made.leave_episodes(self.steps)
            if not isinstance(error, (ValueError, TypeError)):
                raise
            where = f"step {self.steps + 1:,}"
            if self.made.size > 1:
                where = f"steps {self.steps + 1:,} to {self.steps + self.made.size:,}"
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{where} on {self.made.name}: {error}") from error

    def _count_episodes(self, world: World) -> None:
        """Take over those that have ended."""
        self.late.extend(world.tally.finished)
        self.episodes += len(world.tally.finished)
        world.tally.finished.clear()

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
        given, one = self._observations(obs)
        return self.learner.greedy(given[0]) if one else self.learner.greedy_all(given)

    def values(self, obs: ArrayLike) -> NDArray[Any]:
        """Q of an observation [A], or of each of a batch [n, A]."""
        given, one = self._observations(obs)
        found: NDArray[Any] = self.learner.values(given)
        return found[0] if one else found

    def _observations(self, obs: Any) -> tuple[NDArray[Any], bool]:
        """A batch of observations, and whether one alone was given."""
        space, given = self.observation_space, np.asarray(obs)
        shape = space.shape or ()
        if given.shape != shape and (given.ndim != len(shape) + 1 or given.shape[1:] != shape):
            raise ValueError(
                f"expected an observation of shape {shape} or a batch, got {given.shape}"
            )
        if isinstance(space, spaces.Discrete):
            whole = given.dtype.kind in "iu"
            if not whole or np.any((given < space.start) | (given >= space.start + space.n)):
                raise ValueError(f"expected states of {space}, got {obs!r}")
        one = given.shape == shape
        return (given[None] if one else given), one

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
        if header.get("dqn") != VERSION:
            raise StateError(f"{path} holds no DQN of this version")
        if header["key"] == OBJECT and key is None:
            raise StateError(f"{path} was saved with a key that is an object: give it as key=")
        if header["env"] is None and env is None:
            raise StateError(
                f"{path} was saved with an environment that is an object: give it as env="
            )
        if env is None:
            env = named = header["env"]
            module, colon, _ = parse_env(named)[0].partition(":")
            if colon and module not in sys.modules:
                raise StateError(
                    f"{path} names the environment {named!r}, and a file never causes an import: "
                    "import the module first, or give env="
                )
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

    _at_rest = True  # whether all environments have taken as many steps


def _seed(seed: Any) -> int:
    if seed is None:
        return int(np.random.default_rng().integers(SEED_BOUND))
    return _whole("seed", seed, 0)


def _whole(name: str, value: Any, least: int) -> int:
    """A whole number of Python's, for files and JSON, whatever kind of one was given."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}")


def _says_stop(answer: Any) -> bool:
    """Whether a callback returned False, Python's or NumPy's."""
    return isinstance(answer, (bool, np.bool_)) and not answer

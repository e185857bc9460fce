"""A MinAtar run: the paper's network and methods on a game, with latent siblings, that survives.

Everything a run depends on is in its `Session`; a checkpoint is that session as plain data. On a
CPU a run that was killed at any moment and resumed ends with the bytes of one that was not. So does
a run that goes on from the last state of a shorter one: nothing in a session but `result` depends
on where it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from sibling_replay import ReplayBuffer
from sibling_replay.checkpoint import RollingCheckpoint, StateError, read_state
from sibling_replay.envs import MinAtarEnv, NoisyRewards, RewardNoise
from sibling_replay.grouping import parse_key
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder
from sibling_replay.rng import SEED_BOUND, streams
from sibling_replay.training.evaluation import greedy_returns
from sibling_replay.training.interaction import Position, Step, interact
from sibling_replay.training.methods import strategy_of
from sibling_replay.training.minatar.config import MinAtarConfig
from sibling_replay.training.minatar.diagnostics import Windows
from sibling_replay.training.minatar.network import MinAtarNetwork
from sibling_replay.training.model_state import part_of, under
from sibling_replay.training.results import RunResult
from sibling_replay.training.torch.dqn import DoubleDQN
from sibling_replay.training.torch.flat import FlatDoubleDQN

CHECKPOINT_SECONDS = 300.0


class Session:
    """A run in progress."""

    def __init__(
        self, config: MinAtarConfig, encoder: FrozenEncoder | None = None, device: str = "cpu"
    ) -> None:
        found = "" if encoder is None else encoder.digest
        if found != config.encoder:
            raise ValueError(f"the config asks for encoder {config.encoder!r}, given {found!r}")
        rng = streams(config.seed)
        self.config = config
        self.game = _game(config)
        self.env: gym.Env[Any, Any] = self.game
        self.tail: NoisyRewards | None = None
        if config.condition == "mp-tail":
            noise = RewardNoise(
                "tail",
                config.tail_magnitude,
                probability=config.tail_probability,
                positive_only=True,
            )
            self.env = self.tail = NoisyRewards(self.game, noise)
        n_actions = int(self.game.action_space.n)  # type: ignore[attr-defined]
        channels = self.game.observation_space.shape[-1]  # type: ignore[index]
        if encoder is not None and encoder.channels != channels:
            raise ValueError(
                f"{config.env} has {channels} channels, and encoder {encoder.digest[:8]} is for "
                f"games of {encoder.channels}: take one that was trained on {config.env}"
            )
        network = MinAtarNetwork(channels, n_actions, rng.init, config.hidden)
        self.learner = new_learner(config, network, device)
        self.buffer = ReplayBuffer.for_env(
            self.game,
            config.capacity,
            strategy_of(config),
            # each observation is coded once, when it is stored; maps fit themselves to the first
            key=parse_key(config.key) if config.key else encoder,
            seed=rng.replay,
        )
        self.explore = rng.explore
        obs, _ = self.env.reset(seed=int(rng.env.integers(SEED_BOUND)))
        self.position = Position(0, 0, obs)
        self._steps: Iterator[Step] | None = None  # the loop, once it runs
        self.episodes = 0
        self.curve: list[tuple[int, int, float]] = []  # step, episodes, mean return
        self.windows = Windows(self.buffer, n_actions)
        # every evaluation has seeds of its own, so that none needs to be remembered
        count = -(-config.steps // config.eval_every_steps)
        self.eval_seeds = rng.eval.integers(SEED_BOUND, size=(count, config.eval_episodes))

    def advance(self, until: int) -> None:
        """Train up to a step, evaluating and closing windows when due."""
        config, windows = self.config, self.windows
        if self._steps is None:
            self._steps = interact(
                self.env,
                self.learner,
                self.buffer,
                config,
                self.explore,
                self.position,
                measure=windows.measure if config.diagnostics_every else None,
            )
        while self.position.number < until:
            step = next(self._steps)
            self.position = step.position
            self.episodes += step.transition.ended
            if config.diagnostics_every:
                windows.act(step.transition.action)
                if step.number % config.diagnostics_every == 0:
                    windows.close(step.number)
            if step.number % config.eval_every_steps == 0:
                self.curve.append(self._evaluated())

    def _evaluated(self) -> tuple[int, int, float]:
        """The next point of the curve."""
        score = evaluate_game(self.config, self.learner, self.eval_seeds[len(self.curve)])
        return self.position.number, self.episodes, score

    def result(self) -> RunResult:
        """What the run gave. A run that is over ends with an evaluation and a window that a longer
        one does not have there; so they are no part of the session."""
        curve, end = self.curve, None
        if self.position.number == self.config.steps:
            if not (curve and curve[-1][0] == self.config.steps):
                curve = [*curve, self._evaluated()]
            end = self.config.steps if self.config.diagnostics_every else None
        step, episode, score = np.array(curve, dtype=np.float64).reshape(-1, 3).T
        return RunResult(
            config=self.config,
            eval_step=step.astype(np.int64),
            eval_episode=episode.astype(np.int64),
            eval_return=score.copy(),
            eval_success=np.full(len(step), np.nan),  # MinAtar has no successes
            episodes=self.episodes,
            updates=self.position.updates,
            diagnostics=self.windows.columns(end),
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and arrays of a checkpoint."""
        buffer = self.buffer.state_dict()
        header = {
            "config": self.config.written(),
            "learner": type(self.learner).__name__,
            "number": self.position.number,
            "updates": self.position.updates,
            "episodes": self.episodes,
            "curve": self.curve,
            "explore": self.explore.bit_generator.state,
            "game": self.game.state_dict(),
            "tail": None if self.tail is None else self.tail.state_dict(),
            "buffer": buffer.pop("header"),
        }
        learner, windows = self.learner.arrays(), self.windows.arrays()
        return header, {
            **under("learner", learner), **under("buffer", buffer), **under("windows", windows),
        }  # fmt: skip

    def load_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Continue where `state` was taken, of a run of these settings and any length."""
        if {**header["config"], "steps": self.config.steps} != self.config.written():
            raise StateError("the checkpoint is of another config")
        if header["number"] > self.config.steps:
            raise StateError(
                f"the checkpoint is at step {header['number']:,}, beyond the end of this run"
            )
        if header["config"]["steps"] != self.config.steps:
            self._check_open(header, arrays)
        if header.get("learner") != type(self.learner).__name__:
            raise StateError(
                f"the checkpoint is of the learner {header.get('learner')}, not of "
                f"{type(self.learner).__name__}: a run goes on with the --device it began on"
            )
        self.windows.refuse_other_columns(part_of("windows", arrays))
        self.buffer.load_state_dict({"header": header["buffer"], **part_of("buffer", arrays)})
        self.learner.load_arrays(part_of("learner", arrays))
        self.windows.load_arrays(part_of("windows", arrays))
        self.game.load_state_dict(header["game"])
        if self.tail is not None:
            self.tail.load_state_dict(header["tail"])
        self.explore.bit_generator.state = header["explore"]
        self.position = Position(header["number"], header["updates"], self.game.observation())
        self._steps = None
        self.episodes = header["episodes"]
        self.curve = [(step, episodes, score) for step, episodes, score in header["curve"]]

    def _check_open(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse a state that holds the end of a shorter run, as older versions wrote it."""
        steps = [point[0] for point in header["curve"][-1:]]
        every = self.config.diagnostics_every
        windows = arrays["windows/rows"][-1:, 0].tolist()
        if any(step % self.config.eval_every_steps for step in steps) or any(
            step % every for step in windows if every
        ):
            raise StateError(
                f"the state of step {header['number']:,} was written by an older version, after "
                "the last window of its run was closed: no longer run goes on from it. Delete it"
            )


def new_learner(config: MinAtarConfig, network: MinAtarNetwork, device: str) -> DoubleDQN:
    """The fastest learner for a device."""
    space = _game(config).observation_space
    settings: dict[str, Any] = {
        "gamma": config.gamma,
        "learning_rate": config.learning_rate,
        "grad_clip": config.grad_clip,
    }
    if device == "cpu" and not strategy_of(config).needs.averages:
        return FlatDoubleDQN(network, space, **settings)
    return DoubleDQN(network, space, **settings, device=device)


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or does not have here."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # what torch raises
        raise ValueError(f"device {device!r}: {str(error).splitlines()[0]}") from error


def _game(config: MinAtarConfig) -> MinAtarEnv:
    return MinAtarEnv(config.env, sticky=config.sticky, max_steps=config.max_episode_steps)


def evaluate_game(config: MinAtarConfig, learner: DoubleDQN, seeds: NDArray[np.int64]) -> float:
    """Mean return of greedy episodes of the unperturbed game, one a seed, played side by side."""
    games = [_game(config) for _ in seeds]
    return float(greedy_returns(learner.greedy_all, games, seeds).sum() / len(seeds))


def train_game(
    config: MinAtarConfig,
    encoder: FrozenEncoder | None = None,
    *,
    checkpoint: RollingCheckpoint | None = None,
    earlier: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    device: str = "cpu",
    observe: Callable[[Session], None] = lambda session: None,
) -> RunResult:
    """Run to the end, from the checkpoint if there is one, or from the state file `earlier` of a
    run of these settings and another length if that is further. `observe` is called now and then.
    """
    torch.set_num_threads(1)  # one run, one core; sums in one order
    session = Session(config, encoder, device)
    with nullcontext() if checkpoint is None else checkpoint.owned():
        saved = None if checkpoint is None else checkpoint.load()
        state = None if earlier is None else read_state(earlier)
        begins = [found for found in (saved, state) if found is not None]
        if begins:
            session.load_state(*max(begins, key=lambda found: found[0]["number"]))
        begun = session.position.number
        last_saved = time.monotonic()
        while session.position.number < config.steps:
            session.advance(min(config.steps, session.position.number + 100))
            if checkpoint is not None and time.monotonic() - last_saved >= checkpoint_seconds:
                checkpoint.save(*session.state())
                last_saved = time.monotonic()
            observe(session)
        if checkpoint is not None and begun < config.steps:
            checkpoint.save(*session.state())
    return session.result()


def trained_network(path: Path) -> MinAtarNetwork:
    """The network in a state file of a run: `network(obs)` are the values of observations
    [B, 10, 10, C] as floats."""
    header, arrays = read_state(path)
    config = MinAtarConfig.of_written(header["config"])
    game = _game(config)
    sizes = game.observation_space.shape[-1], int(game.action_space.n)  # type: ignore
    network = MinAtarNetwork(*sizes, np.random.default_rng(0), config.hidden)
    # learners of other devices store a network by layers, "cpu" as one vector
    of_cpu = header["learner"] == FlatDoubleDQN.__name__
    learner = new_learner(config, network, "cpu" if of_cpu else "cpu:0")
    learner.load_arrays(part_of("learner", arrays))
    return network

"""A run of a study as Stable-Baselines3 does it: `SiblingDQN`, `SiblingSAC` or `SiblingTD3` on a
Gymnasium environment, evaluated without the tail, its buffer measured at every evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.envs import make_env
from sibling_replay.grouping import parse_key
from sibling_replay.integrations import host
from sibling_replay.integrations.sb3 import (
    SiblingAlgorithm,
    SiblingDQN,
    SiblingSAC,
    SiblingTD3,
)
from sibling_replay.training.control_config import ControlConfig
from sibling_replay.training.evaluation import greedy_returns
from sibling_replay.training.gym_config import GymConfig, training_env
from sibling_replay.training.methods import strategy_of
from sibling_replay.training.replay_measures import measures_of, replay_measures
from sibling_replay.training.results import RunResult
from sibling_replay.training.training_clock import TrainingClock

with host("Stable-Baselines3", "sb3"):
    import torch as th
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.noise import NormalActionNoise


def train_sb3(config: GymConfig) -> RunResult:
    """One run; beta goes with the time steps, as SB3's schedules do."""
    if config.learner != "sb3" or config.beta_updates != config.steps:
        raise ValueError(
            f"a run of SB3 has learner='sb3' and anneals beta over its steps: beta_updates="
            f"{config.steps}, got {config.learner!r} and {config.beta_updates}"
        )
    th.set_num_threads(1)
    model = _control(config) if isinstance(config, ControlConfig) else _dqn(config)
    notes = _Notes(config)
    model.learn(config.steps, notes)
    notes.finish()
    kept = ("step", *measures_of(config.timed))
    table = np.array(notes.rows).reshape(-1, len(kept))
    return RunResult(
        config,
        np.array(notes.step, np.int64),
        np.array(notes.episode, np.int64),
        np.array(notes.score),
        np.full(len(notes.step), np.nan),
        model._episode_num,
        model._n_updates,
        {name: table[:, place].copy() for place, name in enumerate(kept)},
    )


def _shared(config: GymConfig) -> dict[str, Any]:
    """What all of SB3's off-policy algorithms take."""
    strategy = strategy_of(config)
    grouped = strategy.needs.groups
    return {
        "policy": "MlpPolicy",
        "env": training_env(config),
        "strategy": strategy,
        "key": parse_key(config.key) if grouped and config.key else "default",
        "beta_initial": config.beta_start,
        "beta_final": config.beta_end,
        "learning_rate": config.learning_rate,
        "buffer_size": config.capacity,
        "learning_starts": config.learning_starts,
        "batch_size": config.batch_size,
        "gamma": config.gamma,
        "n_steps": config.n_steps,
        "train_freq": config.train_every,
        "gradient_steps": config.updates_a_round,
        "tau": config.tau,
        "replay_buffer_kwargs": {"handle_timeout_termination": config.through_time_limits},
        "policy_kwargs": {"net_arch": list(config.layers)},
        "seed": config.seed,
        "device": "cpu",
    }


def _control(config: ControlConfig) -> SiblingAlgorithm:
    if config.algorithm == "SAC":
        return SiblingSAC(**_shared(config))
    shared = _shared(config)
    noise = None
    if config.action_noise:
        size = shared["env"].action_space.shape
        noise = NormalActionNoise(np.zeros(size), np.full(size, config.action_noise))
    return SiblingTD3(**shared, action_noise=noise)


def _dqn(config: GymConfig) -> SiblingDQN:
    return SiblingDQN(
        **_shared(config),
        double_q=True,
        loss=config.loss,
        target_update_interval=config.target_interval,
        exploration_fraction=config.epsilon_decay_steps / config.steps,
        exploration_initial_eps=config.epsilon_start,
        exploration_final_eps=config.epsilon_end,
        max_grad_norm=config.grad_clip,
    )


class _Notes(BaseCallback):  # type: ignore[misc]  # SB3 is not there where types are checked
    """Evaluations and what the buffer is like, every so many steps."""

    model: SiblingAlgorithm

    def __init__(self, config: GymConfig) -> None:
        super().__init__()
        self._config = config
        self._envs = [make_env(config.env) for _ in range(config.eval_episodes)]
        self._seeds = np.random.SeedSequence(config.seed, spawn_key=(1,))
        self.step: list[int] = []
        self.episode: list[int] = []
        self.score: list[float] = []
        self.rows: list[list[float]] = []
        self._clock = TrainingClock()

    def _on_step(self) -> bool:
        if self.num_timesteps % self._config.eval_every_steps == 0:
            self._note()
        return True

    def finish(self) -> None:
        """The last evaluation is at the end."""
        if not self.step or self.step[-1] != self.num_timesteps:
            self._note()

    def _note(self) -> None:
        seconds = [self._clock.seconds] if self._config.timed else []
        with self._clock.stopped():
            self._measure(seconds)

    def _measure(self, seconds: list[float]) -> None:
        self.step.append(self.num_timesteps)
        self.episode.append(self.model._episode_num)
        seeds = self._seeds.spawn(1)[0].generate_state(len(self._envs))
        self.score.append(float(greedy_returns(self._greedy_all, self._envs, seeds).mean()))
        storage = self.model.replay_buffer.storage
        measures = replay_measures(storage, self._config.tail_magnitude, self._config.batch_size)
        self.rows.append([float(self.num_timesteps), *measures, *seconds])

    def _greedy_all(self, obs: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = self.model.predict(obs, deterministic=True)[0]
        return actions

"""A run on any Gymnasium environment, by `DQN`: evaluated without the tail, its buffer measured at
every evaluation, and kept so that it survives."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields

import numpy as np

from sibling_replay.envs import make_env
from sibling_replay.training.dqn import DQN
from sibling_replay.training.gym_config import GymConfig, training_env
from sibling_replay.training.methods import strategy_of
from sibling_replay.training.replay_measures import PURITY, measures_of, purity, replay_measures
from sibling_replay.training.results import RunResult
from sibling_replay.training.settings import NetworkSettings
from sibling_replay.training.training_clock import TrainingClock

CHECKPOINT_SECONDS = 60.0


def train_gym(
    config: GymConfig,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    observe: Callable[[DQN], None] = lambda model: None,
) -> RunResult:
    """Run to the end, from the checkpoint if there is one. `observe` is called now and then."""
    model = new_model(config)
    clock = TrainingClock()
    kept = PURITY, *measures_of(config.timed)
    noted: list[int] = []  # steps, by this process

    def note(model: DQN) -> None:
        """A point of the curve, where one is due and not there yet."""
        due = model.steps % config.eval_every_steps == 0 or model.steps == config.steps
        if due and not (model.notes and model.notes[-1][0] == model.steps):
            if config.timed and model.notes and not noted:
                clock.go_on_from(model.notes[-1][-1])
            noted.append(model.steps)
            seconds = [clock.seconds] if config.timed else []
            with clock.stopped():
                returns = model.evaluate(config.eval_episodes, lambda: make_env(config.env))
                pure = purity(model.buffer, model.learner.values_of)
                measures = (
                    pure,
                    *replay_measures(model.buffer, config.tail_magnitude, config.batch_size),
                )
            score = float(returns.mean())
            model.notes.append([model.steps, model.episodes, score, *measures, *seconds])
        observe(model)

    model.learn(
        config.steps,
        callback=note,
        callback_every=np.gcd(config.eval_every_steps, config.steps),
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
    )
    names = ("step", "episode", "score", *kept)
    table = dict(zip(names, np.array(model.notes, float).reshape(-1, len(names)).T, strict=True))
    return RunResult(
        config=config,
        eval_step=table["step"].astype(np.int64),
        eval_episode=table["episode"].astype(np.int64),
        eval_return=table["score"].copy(),
        eval_success=np.full(len(model.notes), np.nan),
        episodes=model.episodes,
        updates=model.updates,
        diagnostics={name: table[name].copy() for name in ("step", *kept)},
    )


def new_model(config: GymConfig) -> DQN:
    """The model of a run before its first step."""
    names = [field.name for field in fields(NetworkSettings)]
    strategy = strategy_of(config)
    return DQN(
        training_env(config),
        strategy=strategy,
        key=config.key or ("exact" if strategy.needs.groups else None),
        learner=config.learner,
        seed=config.seed,
        **{name: getattr(config, name) for name in names},
    )

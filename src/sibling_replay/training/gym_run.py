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
from sibling_replay.training.replay_measures import MEASURES, replay_measures
from sibling_replay.training.results import RunResult
from sibling_replay.training.settings import NetworkSettings

CHECKPOINT_SECONDS = 60.0
_POINT = ("step", "episode", "score", *MEASURES)


def train_gym(
    config: GymConfig,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    observe: Callable[[DQN], None] = lambda model: None,
) -> RunResult:
    """Run to the end, from the checkpoint if there is one. `observe` is called now and then."""
    model = new_model(config)

    def note(model: DQN) -> None:
        """A point of the curve, where one is due and not there yet."""
        due = model.steps % config.eval_every_steps == 0 or model.steps == config.steps
        if due and not (model.notes and model.notes[-1][0] == model.steps):
            returns = model.evaluate(config.eval_episodes, lambda: make_env(config.env))
            measures = replay_measures(model.buffer, config.tail_magnitude)
            model.notes.append([model.steps, model.episodes, float(returns.mean()), *measures])
        observe(model)

    model.learn(
        config.steps,
        callback=note,
        callback_every=np.gcd(config.eval_every_steps, config.steps),
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
    )
    table = dict(zip(_POINT, np.array(model.notes, float).reshape(-1, len(_POINT)).T, strict=True))
    return RunResult(
        config=config,
        eval_step=table["step"].astype(np.int64),
        eval_episode=table["episode"].astype(np.int64),
        eval_return=table["score"].copy(),
        eval_success=np.full(len(model.notes), np.nan),
        episodes=model.episodes,
        updates=model.updates,
        diagnostics={name: table[name].copy() for name in ("step", *MEASURES)},
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

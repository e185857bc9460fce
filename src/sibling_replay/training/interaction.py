"""The training loop of every learner that is driven from Python: act, store, draw, update, refresh.

The loop is a generator of steps; logging, evaluation, checkpoints and tests observe it from
outside. It can begin anywhere, which is how a killed run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sibling_replay import Batch, ReplayBuffer, Strategy
from sibling_replay.training.worlds import Envs, Transition, World

SIGNALS = ("target", "value")  # what a learner can tell of a row beside its TD error


def refuse_unknown_signals(strategy: Strategy) -> None:
    """Raise for a strategy that needs signals that no learner gives."""
    unknown = [name for name in strategy.needs.signals if name not in SIGNALS]
    if unknown:
        raise ValueError(
            f"{strategy.name} needs the signals {', '.join(unknown)}; the learner gives "
            f"{' and '.join(SIGNALS)}"
        )


class Schedule(Protocol):
    """What the loop reads of a config. Steps are environment steps, counted from 1."""

    @property
    def steps(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    def epsilon(self, step: int) -> float: ...
    def beta(self, update: int) -> float: ...
    def updates_after(self, step: int) -> int: ...
    def target_share(self, step: int) -> float: ...


class Learner(Protocol):
    """Values of actions that learn from batches."""

    def greedy(self, obs: Any) -> int: ...
    def update(self, batch: Batch) -> NDArray[Any]: ...
    def signals_for(self, buffer: ReplayBuffer) -> dict[str, NDArray[Any]]: ...
    def move_target(self, share: float = 1.0) -> None: ...


class Position(NamedTuple):
    """Where a loop is, between two steps."""

    number: int  # steps taken
    updates: int  # updates made
    obs: Any  # of the step to come; of several environments theirs


class Step(NamedTuple):
    """One environment step and the last of the updates that followed it, if any did."""

    number: int  # from 1
    transition: Transition
    batch: Batch | None
    td_errors: NDArray[Any] | None  # [B] target minus value, before the optimizer step
    position: Position  # where the loop goes on


def ignore(batch: Batch, td_errors: NDArray[Any]) -> None:
    """Measure nothing."""


def interact(
    env: gym.Env[Any, Any] | World,
    learner: Learner,
    buffer: ReplayBuffer,
    schedule: Schedule,
    explore: np.random.Generator,
    position: Position,
    *,
    measure: Callable[[Batch, NDArray[Any]], None] = ignore,
) -> Iterator[Step]:
    """Yields after every step: in a world of several environments, after each one's transition.

    `measure` sees a batch and its TD errors before priorities are refreshed, and must change
    nothing.
    """
    refuse_unknown_signals(buffer.strategy)
    world = Envs([env], [position.obs]) if isinstance(env, gym.Env) else env
    number, updates = position.number, position.updates
    while number < schedule.steps:
        actions = []
        for place, obs in enumerate(world.observations):
            chance, which = explore.random(2)
            explores = chance < schedule.epsilon(number + place)
            actions.append(int(which * world.n_actions) if explores else learner.greedy(obs))
        for transition in world.step(actions)[: schedule.steps - number]:
            number += 1
            buffer.add(*transition)
            batch = td_errors = None
            for _ in range(schedule.updates_after(number)):
                batch = buffer.sample(schedule.batch_size, schedule.beta(updates))
                td_errors = learner.update(batch)
                measure(batch, td_errors)
                buffer.update_priorities(batch, td_errors, **learner.signals_for(buffer))
                updates += 1
            share = schedule.target_share(number)
            if share:
                learner.move_target(share)
            shown = world.observations[0] if len(actions) == 1 else world.observations
            yield Step(number, transition, batch, td_errors, Position(number, updates, shown))

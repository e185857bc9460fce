"""The training loop of every learner that is driven from Python: act, store, draw, update, refresh.

The loop is a generator of steps; logging, evaluation, checkpoints and tests observe it from
outside. It can begin anywhere, which is how a killed run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sibling_replay import Batch, ReplayBuffer, Strategy
from sibling_replay.training.worlds import Envs, Transition, World

# What a learner can tell of a row beside its TD error: its target, its value, and the target minus
# the target network's value. What costs something is computed only for strategies that need it.
SIGNALS = ("target", "value", "target_error")


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
    def td_errors(self, batch: Batch) -> NDArray[Any]: ...
    def signals_for(self, buffer: ReplayBuffer, batch: Batch) -> dict[str, NDArray[Any]]: ...
    def values_of(self, obs: Any, action: Any) -> NDArray[Any]: ...
    def move_target(self, share: float = 1.0) -> None: ...


class Position(NamedTuple):
    """Where a loop is, between two steps."""

    number: int  # steps taken
    updates: int  # updates made
    obs: Any  # of the step to come; of several environments theirs


class Step(NamedTuple):
    """One environment step and the last of the updates that followed it, if any did."""

    number: int  # from 1
    updates: int  # made so far
    transition: Transition
    batch: Batch | None
    td_errors: NDArray[Any] | None  # [B] target minus value, before the optimizer step
    world: World

    @property
    def position(self) -> Position:
        """Where the loop goes on; ask before it does."""
        shown = self.world.observations
        return Position(self.number, self.updates, shown[0] if len(shown) == 1 else shown)


def interact(
    env: gym.Env[Any, Any] | World,
    learner: Learner,
    buffer: ReplayBuffer,
    schedule: Schedule,
    explore: np.random.Generator,
    position: Position,
    *,
    measure: Callable[[Batch, NDArray[Any]], None] | None = None,
) -> Generator[Step, None, None]:
    """Yields after every step: in a world of several environments, after each one's transition.

    `measure` sees a batch and its TD errors before priorities are refreshed, and must change
    nothing.
    """
    refuse_unknown_signals(buffer.strategy)
    if buffer.strategy.needs.values:
        buffer.use_values(learner.values_of)
    world = Envs([env], [position.obs]) if isinstance(env, gym.Env) else env
    # looked up once: between two updates every line of Python counts, as its code is no longer near
    number, updates, last = position.number, position.updates, schedule.steps
    epsilon, beta, size = schedule.epsilon, schedule.beta, schedule.batch_size
    updates_after, target_share = schedule.updates_after, schedule.target_share
    add, sample, refresh = buffer.add, buffer.sample, buffer.update_priorities
    update, n_actions, draw = learner.update, world.n_actions, explore.random
    signals, candidates = bool(buffer.strategy.needs.signals), buffer.strategy.needs.candidates
    while number < last:
        actions = []
        for place, obs in enumerate(world.observations):
            chance, which = draw(), draw()
            explores = chance < epsilon(number + place)
            actions.append(int(which * n_actions) if explores else learner.greedy(obs))
        stored = 0
        try:
            found = world.step(actions)
            for place, transition in zip(world.places, found[: last - number], strict=False):
                number += 1
                add(*transition, env_id=place)
                stored += 1
                batch = td_errors = None
                for _ in range(updates_after(number)):
                    batch = sample(size * candidates if candidates else size, beta(updates))
                    if candidates:
                        batch = buffer.select(batch, learner.td_errors(batch), size)
                    td_errors = update(batch)
                    if measure is not None:
                        measure(batch, td_errors)
                    if signals:
                        refresh(batch, td_errors, **learner.signals_for(buffer, batch))
                    else:
                        refresh(batch, td_errors)
                    updates += 1
                share = target_share(number)
                if share:
                    learner.move_target(share)
                yield Step(number, updates, transition, batch, td_errors, world)
        finally:  # also where whoever drives the loop stops within a round
            for place in world.places[stored:]:  # their steps are not kept
                buffer.end_episodes(place)

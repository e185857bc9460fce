"""Double DQN with a `ReplayBuffer`, readably: the learner and the loop of every torch run.

The loop is a generator of steps; logging, evaluation, checkpoints and tests observe it from
outside. It can begin anywhere, which is how a killed run goes on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from sibling_replay import Batch, ReplayBuffer, Strategy
from sibling_replay.grouping.vqvae.adam_state import adam_state, load_adam_state

Arrays = dict[str, NDArray[Any]]


class Schedule(Protocol):
    """What the loop reads of a config. Steps are environment steps."""

    @property
    def steps(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def learning_starts(self) -> int: ...
    @property
    def target_interval(self) -> int: ...
    def epsilon(self, step: int) -> float: ...
    def beta(self, update: int) -> float: ...


SIGNALS = ("target", "value")  # what a learner can tell of a row beside its TD error


def refuse_unknown_signals(strategy: Strategy) -> None:
    """Raise for a strategy that needs signals that no learner gives."""
    unknown = [name for name in strategy.needs.signals if name not in SIGNALS]
    if unknown:
        raise ValueError(
            f"{strategy.name} needs the signals {', '.join(unknown)}; the learner gives "
            f"{' and '.join(SIGNALS)}"
        )


class DoubleDQN:
    """A Q-network with its target and optimizer. Discrete observations become one-hot."""

    def __init__(
        self,
        network: nn.Module,
        observation_space: gym.Space[Any],
        *,
        gamma: float,
        learning_rate: float,
        grad_clip: float,
        device: str = "cpu",
    ) -> None:
        self.network = network.to(device)
        self.target = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate, fused=True)
        self.gamma = gamma
        self.grad_clip = grad_clip
        self.device = device
        self.dtype = next(network.parameters()).dtype
        self.signals: dict[str, Tensor] = {}  # of the last update, by the names in SIGNALS
        self._one_hot: Tensor | None = None
        if isinstance(observation_space, spaces.Discrete):
            n = int(observation_space.n)
            self._one_hot = torch.eye(n, dtype=self.dtype, device=device)

    def features(self, obs: Any) -> Tensor:
        """A batch of observations as the network takes it."""
        if self._one_hot is not None:
            return self._one_hot[self._tensor(obs)]
        return self._tensor(obs).to(self.dtype)

    def _tensor(self, array: Any) -> Tensor:
        return torch.as_tensor(array, device=self.device)

    def greedy(self, obs: Any) -> int:
        """The action of largest value; of equal ones the first."""
        return int(self.greedy_all(np.asarray(obs)[None])[0])

    @torch.inference_mode()
    def greedy_all(self, obs: Any) -> NDArray[np.int64]:
        """The same for each of a batch of observations."""
        best: NDArray[np.int64] = self.network(self.features(obs)).argmax(1).numpy(force=True)
        return best

    def update(self, batch: Batch) -> NDArray[Any]:
        """One optimizer step on the weighted squared TD error. Returns the TD errors before it."""
        outcomes = batch.outcomes  # several an entry for AVG, else one
        with torch.no_grad():
            next_obs = self.features(outcomes.next_obs)
            best = self.network(next_obs).argmax(dim=1, keepdim=True)
            bootstrap = self.target(next_obs).gather(1, best).squeeze(1)
            going = self._tensor(~(outcomes.terminated | outcomes.truncated)).to(self.dtype)
            reward = self._tensor(outcomes.reward).to(self.dtype)
            targets = batch.average(reward + self.gamma * going * bootstrap)  # eq. 11, eq. 12

        action = self._tensor(batch.action)[:, None]
        values = self.network(self.features(batch.obs)).gather(1, action).squeeze(1)
        errors = targets - values
        pulls = errors if batch.shift is None else errors + self._tensor(batch.shift).to(self.dtype)
        loss = (self._tensor(batch.weights) * pulls**2).mean()
        self.signals = {"target": targets, "value": values.detach()}

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.grad_clip)
        self.optimizer.step()
        before: NDArray[Any] = errors.numpy(force=True)
        return before

    def signals_for(self, buffer: ReplayBuffer) -> dict[str, NDArray[Any]]:
        """What a buffer's strategy needs to know of the last update beside its TD errors."""
        wanted = buffer.strategy.needs.signals
        return {name: self.signals[name].numpy(force=True) for name in wanted}

    def copy_target(self) -> None:
        """The hard target update."""
        self.target.load_state_dict(self.network.state_dict())

    def arrays(self) -> Arrays:
        """Both networks and the optimizer, for a checkpoint (copies)."""
        named: dict[str, Tensor] = {}
        for part, module in (("online", self.network), ("target", self.target)):
            named |= {f"{part}/{name}": value for name, value in module.state_dict().items()}
        named |= {f"adam/{name}": value for name, value in adam_state(self.optimizer).items()}
        return {name: np.array(value.numpy(force=True), order="C") for name, value in named.items()}

    def load_arrays(self, arrays: Arrays) -> None:
        """Continue where `arrays` was taken."""
        parts: dict[str, dict[str, Tensor]] = {"online": {}, "target": {}, "adam": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = torch.from_numpy(np.array(array))
        self.network.load_state_dict(parts["online"])
        self.target.load_state_dict(parts["target"])
        load_adam_state(self.optimizer, parts["adam"])


@dataclass(frozen=True)
class Position:
    """Where a loop is, between two steps."""

    number: int  # steps taken
    updates: int  # updates made
    obs: Any  # of the step to come


@dataclass(frozen=True)
class Step:
    """One environment step and, once learning has started, the update that followed it."""

    number: int  # from 1
    obs: Any
    action: int
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool
    batch: Batch | None
    td_errors: NDArray[Any] | None  # [B] target minus value, before the optimizer step
    position: Position  # where the loop goes on


def ignore(batch: Batch, td_errors: NDArray[Any]) -> None:
    """Measure nothing."""


def interact(
    env: gym.Env[Any, Any],
    learner: DoubleDQN,
    buffer: ReplayBuffer,
    schedule: Schedule,
    explore: np.random.Generator,
    position: Position,
    *,
    measure: Callable[[Batch, NDArray[Any]], None] = ignore,
) -> Iterator[Step]:
    """The training loop: act, store, draw, update, refresh. Yields after every step.

    `measure` sees a batch and its TD errors before priorities are refreshed, and must change
    nothing.
    """
    refuse_unknown_signals(buffer.strategy)
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    obs, updates = position.obs, position.updates
    for number in range(position.number + 1, schedule.steps + 1):
        chance, which = explore.random(2)
        explores = chance < schedule.epsilon(number - 1)
        action = int(which * n_actions) if explores else learner.greedy(obs)

        next_obs, paid, terminated, truncated, _ = env.step(action)
        reward = float(paid)
        buffer.add(obs, action, reward, next_obs, terminated, truncated)

        batch = td_errors = None
        if number >= schedule.learning_starts:
            batch = buffer.sample(schedule.batch_size, schedule.beta(updates))
            td_errors = learner.update(batch)
            measure(batch, td_errors)
            buffer.update_priorities(batch, td_errors, **learner.signals_for(buffer))
            updates += 1
        if number % schedule.target_interval == 0:
            learner.copy_target()

        before, obs = obs, env.reset()[0] if terminated or truncated else next_obs
        yield Step(
            number,
            before,
            action,
            reward,
            next_obs,
            terminated,
            truncated,
            batch,
            td_errors,
            Position(number, updates, obs),
        )

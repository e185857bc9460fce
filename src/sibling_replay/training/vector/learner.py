"""Double DQN on vectors, compiled: what `torch.dqn.DoubleDQN` does, without torch."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import DTypeLike, NDArray

from sibling_replay import Batch, ReplayBuffer
from sibling_replay.training.initial import Layers
from sibling_replay.training.losses import loss_named
from sibling_replay.training.vector.network import (
    Perceptron,
    descend,
    greedy,
    layers_of,
    learn,
    move_target,
    new_perceptron,
    values_of,
    write_targets,
)

KEPT = ("theta", "target", "mean", "square")  # of the network, in a checkpoint
_NO_SHIFT = np.zeros(0)


class CompiledDoubleDQN:
    """A Q-network with its target and optimizer. Discrete observations become one-hot, other ones
    are flattened.

    through_time_limits: targets bootstrap where an episode was cut off, not only where it went on.
    n_steps: of the outcomes it learns from; above 1 they have a discount each.
    """

    def __init__(
        self,
        layers: Layers,
        observation_space: gym.Space[Any],
        *,
        gamma: float,
        learning_rate: float,
        grad_clip: float,
        loss: str = "mse",
        through_time_limits: bool = False,
        n_steps: int = 1,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self._use(new_perceptron(layers, 2 * 64, dtype))
        self.learning_rate = learning_rate
        self.gamma = gamma
        self.grad_clip = grad_clip
        self.updates = 0
        self.last_loss = float("nan")  # mean of the last update
        self._last: Any = None  # targets and errors of the last update
        self._loss = loss_named(loss)
        self._through = through_time_limits
        self._n_steps = n_steps
        self._one_hot: NDArray[Any] | None = None
        if isinstance(observation_space, spaces.Discrete):
            self._one_hot = np.eye(int(observation_space.n), dtype=dtype)
            self._first = int(observation_space.start)

    def _use(self, network: Perceptron) -> None:
        self._network = network
        self._handle, self._theta = network.handle, network.theta
        self._room = len(network.rows)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """For `copy` and `pickle`: a copy has arrays of its own."""
        self.__dict__.update(state)
        self._use(self._network)

    @property
    def layers(self) -> Layers:
        """Weights [outputs, inputs] and biases of the online network (copies)."""
        return layers_of(self._network)

    def features(self, obs: Any) -> NDArray[Any]:
        """A batch of observations as rows."""
        if self._one_hot is not None:
            rows: NDArray[Any] = self._one_hot[np.asarray(obs) - self._first]
            return rows
        return obs if obs.ndim == 2 else np.ascontiguousarray(obs).reshape(len(obs), -1)

    def greedy(self, obs: Any) -> int:
        """The action of largest value; of equal ones the first."""
        if self._one_hot is not None:
            row = self._one_hot[int(obs) - self._first]
        else:
            row = obs if obs.ndim == 1 else np.ravel(obs)
        return int(greedy(self._handle, self._theta, row))

    def greedy_all(self, obs: Any) -> NDArray[np.int64]:
        """The same for each of a batch of observations."""
        best: NDArray[np.int64] = self.values(obs).argmax(axis=1)
        return best

    def values(self, obs: Any) -> NDArray[Any]:
        """Q [n, A] of a batch of observations."""
        rows = self.features(obs).astype(self._theta.dtype)
        found: NDArray[Any] = values_of(self._handle, self._theta, rows)
        return found

    def update(self, batch: Batch) -> NDArray[Any]:
        """One optimizer step on the weighted loss. Returns the TD errors before it."""
        outcomes = batch.outcomes  # several an entry for AVG, else one
        obs, next_obs = self._read(batch.obs, outcomes.next_obs)
        network = self._handle, self._theta
        dtype = self._theta.dtype
        errors = np.empty(len(obs), dtype)
        shift = _NO_SHIFT if batch.shift is None else batch.shift
        self.updates += 1
        rule = *self._loss, self.updates, self.learning_rate, self.grad_clip
        if outcomes is batch and self._n_steps == 1:
            targets: NDArray[Any] = np.empty(len(next_obs), dtype)
            self.last_loss = learn(
                *network, obs, batch.action, batch.reward, next_obs, batch.terminated,
                batch.truncated, batch.weights, shift, self.gamma, self._through, *rule, targets,
                errors,
            )  # fmt: skip
        else:
            targets = self._targets(outcomes, obs, next_obs)
            values = own = None
            if batch.residuals:
                values = self.values_of(batch.obs, batch.action)
                own = self.values_of(outcomes.obs, outcomes.action)
            targets = batch.average(targets, values, own)  # eq. 12
            self.last_loss = descend(
                *network, batch.action, targets, batch.weights, shift, *rule, errors
            )
        if not self.last_loss < math.inf:
            raise ValueError(
                f"update {self.updates:,}: the gradient is not finite, so nothing can be learnt "
                f"from it: observations or rewards are too large (largest |TD error| "
                f"{np.abs(errors).max():.3g}), or learning diverges"
            )
        self._last = targets, errors
        return errors

    def _targets(self, outcomes: Any, obs: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[Any]:
        """Of every outcome (eq. 11). Those of several steps have a discount each."""
        single = self._n_steps == 1
        reward = outcomes.reward if single else np.zeros_like(outcomes.reward)
        targets: NDArray[Any] = np.empty(len(next_obs), self._theta.dtype)
        write_targets(
            self._handle, self._theta, obs, next_obs, reward, outcomes.terminated,
            outcomes.truncated, self.gamma if single else 1.0, self._through, targets,
        )  # fmt: skip
        if not single:
            targets = (outcomes.reward + outcomes.discount * targets).astype(targets.dtype)
        return targets

    def _read(self, obs: Any, next_obs: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Entries and outcomes as rows, with room for all of them."""
        first, second = self.features(obs), self.features(next_obs)
        needed = len(first) + len(second)
        if needed > self._room:
            self._make_room(2 * needed)
        return first, second

    def td_errors(self, batch: Batch) -> NDArray[Any]:
        """The TD errors of a batch with one outcome an entry; nothing is learnt."""
        obs, next_obs = self._read(batch.obs, batch.next_obs)
        values = self.values_of(batch.obs, batch.action)
        errors: NDArray[Any] = self._targets(batch, obs, next_obs) - values
        return errors

    def signals_for(self, buffer: ReplayBuffer, batch: Batch) -> dict[str, NDArray[Any]]:
        """What a buffer's strategy needs to know of the last update, which was on this batch,
        beside its TD errors."""
        wanted = buffer.strategy.needs.signals
        if not wanted:
            return {}
        targets, errors = self._last
        found = {"target": targets, "value": targets - errors}
        if "target_error" in wanted:
            found["target_error"] = targets - self._of_pairs(
                self._network.target, batch.obs, batch.action
            )
        return {name: found[name] for name in wanted}

    def values_of(self, obs: Any, action: Any) -> NDArray[Any]:
        """Q of each of a batch of observations with an action each."""
        return self._of_pairs(self._theta, obs, action)

    def _of_pairs(self, theta: NDArray[Any], obs: Any, action: Any) -> NDArray[Any]:
        rows = self.features(obs).astype(theta.dtype)
        found: NDArray[Any] = values_of(self._handle, theta, rows)[np.arange(len(rows)), action]
        return found

    def move_target(self, share: float = 1.0) -> None:
        """target += share (online - target): a hard update, or a soft one."""
        move_target(self._handle, self._theta, share)

    def _make_room(self, rows: int) -> None:
        """Whole-group averages bring as many outcomes as their groups have members."""
        old = self._network
        self._use(new_perceptron(self.layers, rows, old.theta.dtype))
        for name in KEPT:
            getattr(self._network, name)[:] = getattr(old, name)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Both networks and the optimizer, for a checkpoint (copies)."""
        kept = {name: getattr(self._network, name).copy() for name in KEPT}
        return {**kept, "updates": np.array(self.updates)}

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue where `arrays` was taken."""
        for name in KEPT:
            getattr(self._network, name)[:] = arrays[name]
        self.updates = int(arrays["updates"])

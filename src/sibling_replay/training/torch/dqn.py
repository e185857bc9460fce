"""Double DQN in torch, readably: the learner of every torch run."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from sibling_replay import Batch, ReplayBuffer
from sibling_replay.grouping.vqvae.adam_state import adam_state, load_adam_state
from sibling_replay.training.initial import Layers
from sibling_replay.training.torch.losses import loss_of_errors

Arrays = dict[str, NDArray[Any]]


class DoubleDQN:
    """A Q-network with its target and optimizer. Discrete observations become one-hot.

    loss: by name, one of those in `losses`.
    through_time_limits: targets bootstrap where an episode was cut off, not only where it went on.
    n_steps: of the outcomes it learns from; above 1 they have a discount each.
    """

    def __init__(
        self,
        network: nn.Module,
        observation_space: gym.Space[Any],
        *,
        gamma: float,
        learning_rate: float,
        grad_clip: float,
        loss: str = "mse",
        through_time_limits: bool = False,
        n_steps: int = 1,
        device: str = "cpu",
    ) -> None:
        self.network = network.to(device)
        self.target = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate, fused=True)
        self.gamma = gamma
        self.grad_clip = grad_clip
        self._loss_of = loss_of_errors(loss)
        self.last_loss: float | Tensor = float("nan")  # mean of the last update
        self.through_time_limits = through_time_limits
        self.n_steps = n_steps
        self.device = device
        self.dtype = next(network.parameters()).dtype
        self.signals: dict[str, Tensor] = {}  # of the last update, by the names in SIGNALS
        self._one_hot: Tensor | None = None
        if isinstance(observation_space, spaces.Discrete):
            n = int(observation_space.n)
            self._one_hot = torch.eye(n, dtype=self.dtype, device=device)
            self._first = int(observation_space.start)

    def features(self, obs: Any) -> Tensor:
        """A batch of observations as the network takes it."""
        if self._one_hot is not None:
            return self._one_hot[self._tensor(obs) - self._first]
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

    @torch.inference_mode()
    def values(self, obs: Any) -> NDArray[Any]:
        """Q [n, A] of a batch of observations."""
        found: NDArray[Any] = self.network(self.features(obs)).numpy(force=True)
        return found

    @property
    def layers(self) -> Layers:
        """Weights [outputs, inputs] and biases of the linear layers of the network (copies)."""
        linear = [each for each in self.network.modules() if isinstance(each, nn.Linear)]
        return [(x.weight.numpy(force=True).copy(), x.bias.numpy(force=True).copy())
                for x in linear]  # fmt: skip

    def update(self, batch: Batch) -> NDArray[Any]:
        """One optimizer step on the weighted squared TD error. Returns the TD errors before it."""
        targets = self._targets(batch)
        action = self._tensor(batch.action)[:, None]
        values = self.network(self.features(batch.obs)).gather(1, action).squeeze(1)
        errors = targets - values
        pulls = errors if batch.shift is None else errors + self._tensor(batch.shift).to(self.dtype)
        loss = (self._tensor(batch.weights) * self._loss_of(pulls)).mean()
        self.signals = {"target": targets, "value": values.detach()}
        self.last_loss = loss.detach()

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.grad_clip)
        self.optimizer.step()
        before: NDArray[Any] = errors.numpy(force=True)
        return before

    @torch.no_grad()
    def _targets(self, batch: Batch) -> Tensor:
        """What each entry is trained toward (eq. 11, eq. 12)."""
        outcomes = batch.outcomes  # several an entry for AVG, else one
        next_obs = self.features(outcomes.next_obs)
        best = self.network(next_obs).argmax(dim=1, keepdim=True)
        bootstrap = self.target(next_obs).gather(1, best).squeeze(1)
        ended = outcomes.terminated
        if not self.through_time_limits:
            ended = ended | outcomes.truncated
        going = self._tensor(~ended).to(self.dtype)
        discount: float | Tensor = self.gamma
        if self.n_steps > 1:
            discount = self._tensor(outcomes.discount).to(self.dtype)
        targets = self._tensor(outcomes.reward).to(self.dtype) + discount * going * bootstrap
        values = own = None
        if batch.residuals:
            values = self._of_pairs(self.network, batch.obs, batch.action)
            own = self._of_pairs(self.network, outcomes.obs, outcomes.action)
        found: Tensor = batch.average(targets, values, own)
        return found

    def td_errors(self, batch: Batch) -> NDArray[Any]:
        """The TD errors of a batch; nothing is learnt."""
        errors = self._targets(batch) - self._of_pairs(self.network, batch.obs, batch.action)
        found: NDArray[Any] = errors.numpy(force=True)
        return found

    def signals_for(self, buffer: ReplayBuffer, batch: Batch) -> dict[str, NDArray[Any]]:
        """What a buffer's strategy needs to know of the last update, which was on this batch,
        beside its TD errors."""
        wanted = buffer.strategy.needs.signals
        if "target_error" in wanted:
            values = self._of_pairs(self.target, batch.obs, batch.action)
            self.signals["target_error"] = self.signals["target"] - values
        return {name: self.signals[name].numpy(force=True) for name in wanted}

    def values_of(self, obs: Any, action: Any) -> NDArray[Any]:
        """Q of each of a batch of observations with an action each."""
        found: NDArray[Any] = self._of_pairs(self.network, obs, action).numpy(force=True)
        return found

    @torch.no_grad()
    def _of_pairs(self, network: nn.Module, obs: Any, action: Any) -> Tensor:
        found: Tensor = network(self.features(obs))
        return found.gather(1, self._tensor(action)[:, None]).squeeze(1)

    def move_target(self, share: float = 1.0) -> None:
        """target += share (online - target): a hard update, or a soft one."""
        if share == 1.0:
            self.target.load_state_dict(self.network.state_dict())
            return
        with torch.no_grad():
            for old, new in zip(self.target.parameters(), self.network.parameters(), strict=True):
                old.lerp_(new, share)

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

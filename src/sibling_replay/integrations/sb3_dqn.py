"""Stable-Baselines3: `SiblingDQN`, DQN and Double DQN over weighted, prioritized replay."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sibling_replay.integrations import host
from sibling_replay.integrations.sb3_buffer import SiblingSamples
from sibling_replay.integrations.sb3_model import SiblingAlgorithm
from sibling_replay.training.losses import loss_named

with host("Stable-Baselines3", "sb3"):
    import torch as th
    from stable_baselines3 import DQN

    from sibling_replay.training.torch.losses import loss_of_errors


class SiblingDQN(SiblingAlgorithm, DQN):
    """DQN with importance weights, refreshed priorities and annealed beta.

    Takes what `DQN` takes, what `SiblingAlgorithm` adds, and:

    double_q: the online network chooses the next action, the target network values it.
    loss: "huber" (SB3's) or "mse" (the paper's: Huber's minimiser is not the mean target, so it
        also undervalues rare, large outcomes that are replayed as often as they occur); also
        "huber:K", "pal" and "pal:ALPHA" (see `sibling_replay.training.losses`).
    """

    averages: ClassVar[bool] = True

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        double_q: bool = False,
        loss: str = "huber",
        **kwargs: Any,
    ) -> None:
        self.double_q = double_q
        self.loss = loss
        super().__init__(policy, env, *args, **kwargs)

    def _setup_model(self) -> None:
        loss_named(self.loss)  # refuses what is none
        super()._setup_model()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """A train of its own: SB3's has neither a second network to choose nor another loss."""
        stock = self.strategy.needs.host_may_draw and not self.double_q and self.loss == "huber"
        if stock:
            super().train(gradient_steps, batch_size)
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buffer = self.replay_buffer
        buffer.beta = self.beta
        loss_of = loss_of_errors(self.loss)
        losses = []
        for _ in range(gradient_steps):
            samples = buffer.sample(batch_size, env=self._vec_normalize_env)
            targets = self._targets(samples)
            values = self.q_net(samples.observations).gather(1, samples.actions.long())
            # Before the step: TD errors that are no numbers are refused, and the network is whole.
            buffer.update_priorities(samples, targets - values.detach())
            loss = (samples.weights * loss_of(targets - values)).mean()
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            loss.backward()
            th.nn.utils.clip_grad_norm_(self.q_net.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.log_draws(samples)

    def _targets(self, samples: SiblingSamples) -> th.Tensor:
        """[B, 1]: what each entry is trained toward, a mean over its outcomes if it has several."""
        with th.no_grad():
            value = self.next_values(samples.next_observations)
            discounts = self.gamma if samples.discounts is None else samples.discounts
            targets = samples.rewards + (1 - samples.dones) * discounts * value
            averaged: th.Tensor = samples.batch.average(targets.squeeze(1))
            return averaged.unsqueeze(1)

    def next_values(self, next_observations: th.Tensor) -> th.Tensor:
        """[M, 1]: the target network's value of its best action, or of the online network's."""
        values: th.Tensor = self.q_net_target(next_observations)
        if self.double_q:
            best = self.q_net(next_observations).argmax(dim=1, keepdim=True)
            return values.gather(1, best)
        return values.amax(dim=1, keepdim=True)

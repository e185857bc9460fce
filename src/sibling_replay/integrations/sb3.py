"""Stable-Baselines3: `SiblingDQN`, a DQN that learns from weighted, prioritized replay.

    model = SiblingDQN("MlpPolicy", env, strategy=SiblingSample(alpha=0.6))
    model.learn(100_000, progress_bar=True)

`SiblingReplayBuffer` is the buffer behind it. Given to another algorithm as `replay_buffer_class`
it draws by its strategy, but weights and priorities are for that algorithm's `train` to use.
`export(model, path)` writes a buffer, also a stock DQN's, for `sibling-replay diagnose`.
"""

from __future__ import annotations

import io
import pathlib
from typing import Any

import numpy as np
from gymnasium import spaces

from sibling_replay.diagnostics import effective_sample_size
from sibling_replay.integrations import host
from sibling_replay.integrations.sb3_buffer import (
    FUNCTION,
    SiblingReplayBuffer,
    SiblingSamples,
    is_code,
)
from sibling_replay.integrations.sb3_export import export
from sibling_replay.integrations.statistics import group_statistics
from sibling_replay.strategies import SiblingSample, Strategy
from sibling_replay.training.losses import loss_named

with host("Stable-Baselines3", "sb3"):
    import torch as th
    from stable_baselines3 import DQN

    from sibling_replay.training.torch.losses import loss_of_errors

__all__ = ["SiblingDQN", "SiblingReplayBuffer", "SiblingSamples", "export"]

_MEASURE_EVERY = 1000  # steps between measurements of the whole buffer (the paper's interval),
_MEASURE_SHARE = 10  # or a tenth of its entries, where that is more: a step pays for ten entries
_COUNTABLE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)  # outcomes can be equal


class SiblingDQN(DQN):
    """DQN with importance weights, refreshed priorities and annealed beta.

    Takes what `DQN` takes, and:

    strategy: how to draw; `SiblingSample()` unless given. With `Uniform` and the defaults
        below it is the stock DQN, number for number.
    key: what makes siblings, as in `sibling_replay.ReplayBuffer`. No file holds a function or a
        map of your own: give it again to `load`, unless the loaded model is only to predict.
    double_q: the online network chooses the next action, the target network values it.
    loss: "huber" (SB3's) or "mse" (the paper's: Huber's minimiser is not the mean target, so it
        also undervalues rare, large outcomes that are replayed as often as they occur); also
        "huber:K", "pal" and "pal:ALPHA" (see `sibling_replay.training.losses`).
    beta_initial, beta_final: exponent of the weights, linear over the run's time steps; SB3 may go
        some steps beyond the total, at `beta_final`.
    """

    replay_buffer: SiblingReplayBuffer
    replay_buffer_class: Any
    replay_buffer_kwargs: dict[str, Any]

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        strategy: Strategy | None = None,
        key: Any = "default",
        double_q: bool = False,
        loss: str = "huber",
        beta_initial: float = 0.4,
        beta_final: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.strategy = SiblingSample() if strategy is None else strategy
        self.key = key
        self.double_q = double_q
        self.loss = loss
        self.beta_initial = beta_initial
        self.beta_final = beta_final
        self._key_was_function = False  # of the saved model, while it is loaded
        self._measured_at: int | None = None  # time steps
        super().__init__(policy, env, *args, **kwargs)

    def _setup_model(self) -> None:
        for name in ("beta_initial", "beta_final"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        loss_named(self.loss)  # refuses what is none
        if self.n_steps != 1:
            raise ValueError(f"SiblingDQN learns from single steps, not n_steps={self.n_steps}")
        if self.replay_buffer_class is None:
            self.replay_buffer_class = SiblingReplayBuffer
        if not issubclass(self.replay_buffer_class, SiblingReplayBuffer):
            raise TypeError(
                f"SiblingDQN needs a SiblingReplayBuffer, not {self.replay_buffer_class.__name__}; "
                f"a model saved by DQN: SiblingDQN.load(path, env, replay_buffer_class=None)"
            )
        given = self.replay_buffer_kwargs
        doubled = sorted({"strategy", "key", "beta"} & set(given))
        if doubled:
            raise TypeError(f"give {', '.join(doubled)} to SiblingDQN, not in replay_buffer_kwargs")
        to_come = self._key_was_function and self.key == "default"
        self._key_was_function = to_come or is_code(self.key)
        key = FUNCTION if to_come else self.key
        own = {"strategy": self.strategy, "key": key, "beta": self.beta_initial}
        self.replay_buffer_kwargs = {"seed": self.seed, **own, **given}
        super()._setup_model()
        self.replay_buffer_kwargs = given  # what is saved, and given here again when loaded

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *(["key"] if is_code(self.key) else [])]

    def load_replay_buffer(
        self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True
    ) -> None:
        """As DQN's. The buffer gets this model's key, if it was saved with one that is code.

        One of another class, strategy, key, space or number of environments is refused.
        """
        own = self.replay_buffer
        try:
            super().load_replay_buffer(path, truncate_last_traj)
            loaded = self.replay_buffer
        finally:
            self.replay_buffer = own
        if not isinstance(loaded, SiblingReplayBuffer):
            raise ValueError(
                f"the buffer saved there is a {type(loaded).__name__}, without priorities: "
                f"this model's strategy is {self.strategy}"
            )
        for what in ("strategy", "key_kind", "n_envs", "observation_space", "action_space"):
            there, here = getattr(loaded, what), getattr(own, what)
            if there != here:
                raise ValueError(f"{what} of the buffer saved there is {there}, here it is {here}")
        if loaded.key_kind == FUNCTION:
            _ = own.storage  # raises if this model's own key function is still to come
            loaded.join_key(self.key)
        self.replay_buffer = loaded

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SiblingDQN:
        """As DQN's. TensorBoard's name of a run tells the strategy, unless one is given."""
        if tb_log_name is None:
            tb_log_name = f"{type(self).__name__}_{self.strategy.name}"
        super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
        return self

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        _ = self.replay_buffer.storage  # raises if the key function is still to come
        done = super()._setup_learn(*args, **kwargs)
        if self.num_timesteps == 0:
            self._measured_at = None
        return done

    @property
    def beta(self) -> float:
        """The exponent of the weights now: from initial to final as the run goes on.

        SB3 stops after whole rollouts of all environments, so its remaining progress can end below
        zero.
        """
        left = min(max(self._current_progress_remaining, 0.0), 1.0)
        return float(self.beta_final + (self.beta_initial - self.beta_final) * left)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
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
        self.logger.record("replay/beta", buffer.beta)
        self.logger.record_mean("replay/ess", effective_sample_size(samples.batch.weights))
        if buffer.key_kind is not None and not self.strategy.needs.host_may_draw:
            for name, value in buffer.storage.draw_statistics().items():
                self.logger.record(f"replay/{name}", value)

    def _targets(self, samples: SiblingSamples) -> th.Tensor:
        """[B, 1]: what each entry is trained toward, a mean over its outcomes if it has several."""
        with th.no_grad():
            value = self.next_values(samples.next_observations)
            targets = samples.rewards + (1 - samples.dones) * self.gamma * value
            averaged: th.Tensor = samples.batch.average(targets.squeeze(1))
            return averaged.unsqueeze(1)

    def next_values(self, next_observations: th.Tensor) -> th.Tensor:
        """[M, 1]: the target network's value of its best action, or of the online network's."""
        values: th.Tensor = self.q_net_target(next_observations)
        if self.double_q:
            best = self.q_net(next_observations).argmax(dim=1, keepdim=True)
            return values.gather(1, best)
        return values.amax(dim=1, keepdim=True)

    def dump_logs(self) -> None:
        """As DQN's; the whole buffer is measured now and then, if it keeps groups."""
        entries = len(self.replay_buffer.storage)
        interval = max(_MEASURE_EVERY, entries // _MEASURE_SHARE)
        if self._measured_at is None or self.num_timesteps >= self._measured_at + interval:
            self._measured_at = self.num_timesteps
            countable = isinstance(self.observation_space, _COUNTABLE)
            measured = group_statistics(self.replay_buffer.storage, outcomes=countable)
            for name, value in measured.items():
                self.logger.record(f"replay/{name}", value)
        super().dump_logs()

"""What the classes for Stable-Baselines3 share: `SiblingAlgorithm`, a mixin over any of its
off-policy algorithms."""

from __future__ import annotations

import io
import pathlib
from typing import Any, ClassVar

from gymnasium import spaces

from sibling_replay.diagnostics import effective_sample_size
from sibling_replay.integrations import host
from sibling_replay.integrations.host_replay import refuse_unfit
from sibling_replay.integrations.sb3_buffer import (
    FUNCTION,
    SiblingReplayBuffer,
    SiblingSamples,
    is_code,
)
from sibling_replay.integrations.sb3_losses import WeightedLoss, with_loss
from sibling_replay.integrations.statistics import group_statistics
from sibling_replay.strategies import SiblingSample, Strategy

with host("Stable-Baselines3", "sb3"):
    from stable_baselines3 import HerReplayBuffer
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

_MEASURE_EVERY = 1000  # steps between measurements of the whole buffer (the paper's interval),
_MEASURE_SHARE = 10  # or a tenth of its entries, where that is more: a step pays for ten entries
_COUNTABLE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)  # outcomes can be equal


# What a buffer from a file must have in common with the model's own.
_SAME = (
    "strategy", "key_kind", "n_envs", "observation_space", "action_space", "n_steps", "gamma",
    "handle_timeout_termination",
)  # fmt: skip


class SiblingAlgorithm(OffPolicyAlgorithm):
    """An off-policy algorithm with importance weights, refreshed priorities and annealed beta.

    A class of ours is this before SB3's: `class SiblingSAC(SiblingAlgorithm, SAC)`. It takes what
    SB3's takes, and:

    strategy: how to draw; `SiblingSample()` unless given. With `Uniform` it is the stock class,
        number for number.
    key: what makes siblings, as in `sibling_replay.ReplayBuffer`. No file holds a function or a
        map of your own: give it again to `load`, unless the loaded model is only to predict.
    beta_initial, beta_final: exponent of the weights, linear over the run's time steps; SB3 may go
        some steps beyond the total, at `beta_final`.
    """

    replay_buffer: SiblingReplayBuffer
    replay_buffer_class: Any
    replay_buffer_kwargs: dict[str, Any]
    n_steps: int

    loss_path: ClassVar[str]  # what the stock `train` calls its loss
    averages: ClassVar[bool] = False  # whether its targets may be means over several outcomes

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        strategy: Strategy | None = None,
        key: Any = "default",
        beta_initial: float = 0.4,
        beta_final: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.strategy = SiblingSample() if strategy is None else strategy
        self.key = key
        self.beta_initial = beta_initial
        self.beta_final = beta_final
        self._key_was_function = False  # of the saved model, while it is loaded
        self._measured_at: int | None = None  # time steps
        super().__init__(policy, env, *args, **kwargs)

    @classmethod
    def stock_name(cls) -> str:
        """The name of SB3's class below."""
        return next(kind.__name__ for kind in cls.__mro__ if not issubclass(kind, SiblingAlgorithm))

    def _setup_model(self) -> None:
        for name in ("beta_initial", "beta_final"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        own_name, stock = type(self).__name__, self.stock_name()
        refuse_unfit(f"SB3's {stock}", self.strategy, averages=self.averages)
        if self.replay_buffer_class is None:
            self.replay_buffer_class = SiblingReplayBuffer
        if issubclass(self.replay_buffer_class, HerReplayBuffer):
            raise TypeError(
                f"{own_name} cannot learn with HerReplayBuffer: HER gives an entry another goal "
                f"and reward whenever it is drawn, so there are no outcomes to compare siblings by"
            )
        if not issubclass(self.replay_buffer_class, SiblingReplayBuffer):
            raise TypeError(
                f"{own_name} needs a SiblingReplayBuffer, not {self.replay_buffer_class.__name__}; "
                f"a model saved by {stock}: {own_name}.load(path, env, replay_buffer_class=None)"
            )
        given = self.replay_buffer_kwargs
        doubled = sorted({"strategy", "key", "beta"} & set(given))
        if doubled:
            raise TypeError(f"give {', '.join(doubled)} to {own_name}, not in replay_buffer_kwargs")
        to_come = self._key_was_function and self.key == "default"
        self._key_was_function = to_come or is_code(self.key)
        key = FUNCTION if to_come else self.key
        own = {"strategy": self.strategy, "key": key, "beta": self.beta_initial}
        n_steps = self.n_steps
        steps = {"n_steps": n_steps, "gamma": self.gamma}
        self.replay_buffer_kwargs = {"seed": self.seed, **steps, **own, **given}
        self.n_steps = 1  # or SB3 warns that a buffer of another class ignores it: ours does not
        super()._setup_model()
        self.n_steps = n_steps
        self.replay_buffer_kwargs = given  # what is saved, and given here again when loaded

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), *(["key"] if is_code(self.key) else [])]

    def load_replay_buffer(
        self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True
    ) -> None:
        """As SB3's. The buffer gets this model's key, if it was saved with one that is code.

        One of another class, strategy, key, space or number of environments or steps is refused.
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
        for what in _SAME:
            there, here = getattr(loaded, what), getattr(own, what)
            if there != here:
                raise ValueError(f"{what} of the buffer saved there is {there}, here it is {here}")
        if loaded.key_kind == FUNCTION:
            _ = own.storage  # raises if this model's own key function is still to come
            loaded.join_key(self.key)
        loaded.storage.end_episodes()  # what comes next continues no episode of the file
        self.replay_buffer = loaded

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Any:
        """As SB3's. TensorBoard's name of a run tells the strategy, unless one is given."""
        if tb_log_name is None:
            tb_log_name = f"{type(self).__name__}_{self.strategy.name}"
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        _ = self.replay_buffer.storage  # raises if the key function is still to come
        before = self._last_obs
        done = super()._setup_learn(*args, **kwargs)
        if self._last_obs is not before:  # the environments were reset, perhaps within an episode
            self.replay_buffer.storage.end_episodes()
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

    def train(self, *args: Any, **options: Any) -> None:
        """SB3's own, its critics' losses weighted; the actor's loss, where there is one, is not."""
        if self.strategy.needs.host_may_draw:
            super().train(*args, **options)
        else:
            self._train_weighted(*args, **options)

    def _train_weighted(self, gradient_steps: int, *args: Any, **options: Any) -> None:
        buffer = self.replay_buffer
        buffer.beta = self.beta
        loss = WeightedLoss(self.stock_loss(), buffer, self.losses_a_batch())
        buffer.on_draw = loss.draw
        try:
            with_loss(super().train, self.loss_path, loss)(gradient_steps, *args, **options)
        finally:
            buffer.on_draw = None
        if loss.refreshed != gradient_steps:
            raise RuntimeError(
                f"{loss.refreshed} of {gradient_steps} batches were weighted: {self.stock_name()} "
                f"of the installed version computes its losses in another way"
            )
        if loss.samples is not None:
            self.log_draws(loss.samples)

    def stock_loss(self) -> Any:
        """The loss that the stock `train` calls by the name `loss_path`."""
        raise NotImplementedError(
            f"{type(self).__name__} must say what stock_loss() and loss_path are"
        )

    def losses_a_batch(self) -> int:
        """How often it does so for a batch: once for each critic, say."""
        return 1

    def log_draws(self, samples: SiblingSamples) -> None:
        """Record beta, and how the last batch was drawn."""
        buffer = self.replay_buffer
        self.logger.record("replay/beta", buffer.beta)
        self.logger.record_mean("replay/ess", effective_sample_size(samples.batch.weights))
        if buffer.key_kind is not None and not self.strategy.needs.host_may_draw:
            for name, value in buffer.storage.draw_statistics().items():
                self.logger.record(f"replay/{name}", value)

    def dump_logs(self) -> None:
        """As SB3's; the whole buffer is measured now and then, if it keeps groups."""
        entries = len(self.replay_buffer.storage)
        interval = max(_MEASURE_EVERY, entries // _MEASURE_SHARE)
        if self._measured_at is None or self.num_timesteps >= self._measured_at + interval:
            self._measured_at = self.num_timesteps
            countable = isinstance(self.observation_space, _COUNTABLE)
            measured = group_statistics(self.replay_buffer.storage, outcomes=countable)
            for name, value in measured.items():
                self.logger.record(f"replay/{name}", value)
        super().dump_logs()

"""SB3's own `train` with importance weights: only its loss function is replaced.

A stock `train` draws, computes targets, calls a loss for each critic and steps the optimizers. What
prioritized replay adds concerns the loss alone: each row counts by its weight, and the errors are
the new priorities. So the stock code runs as it is, with a loss that does both.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

from sibling_replay.integrations import host
from sibling_replay.integrations.sb3_buffer import SiblingReplayBuffer, SiblingSamples

with host("Stable-Baselines3", "sb3"):
    import torch as th


def with_loss(train: Any, path: str, loss: Callable[..., th.Tensor]) -> Any:
    """A stock `train`, bound as it was, that finds `loss` where it looks for the one at `path`.

    path: the name that its code uses, as "quantile_huber_loss" or "F.mse_loss". The stock module
        itself stays as it is: its code runs over a copy of the module's names.
    """
    stock = train.__func__
    name, _, member = path.partition(".")
    if name not in _names(stock.__code__):
        raise RuntimeError(
            f"{stock.__qualname__} of the installed version does not compute its loss by {path}, "
            f"so it cannot be weighted: install versions that the sb3 extra admits"
        )
    found = SimpleNamespace(**{member: loss}) if member else loss
    names = {**stock.__globals__, name: found}
    twin = FunctionType(
        stock.__code__, names, stock.__name__, stock.__defaults__, stock.__closure__
    )
    return twin.__get__(train.__self__)


def _names(code: CodeType) -> set[str]:
    """The global names that some code uses, that of its generators and comprehensions too."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names}.union(*map(_names, inner))


class WeightedLoss:
    """A loss over rows that counts each row by its weight, and refreshes priorities.

    The gradient of a weighted mean is that of the mean, row by row times the weight. So the loss is
    the stock one, its value unweighted (comparable from strategy to strategy), and the weights are
    applied to the gradient on its way back.

    critics: calls for each batch, one a critic. Its priorities come from all of them: the mean
        absolute TD error, with the sign of the mean TD error.

    TD errors are means over the last axis, which is of quantiles where there are several: the error
    of the expected value. (The spread of the quantiles is no error, it stays when all is learnt.)
    """

    def __init__(
        self, loss: Callable[..., th.Tensor], buffer: SiblingReplayBuffer, critics: int
    ) -> None:
        self._loss, self._buffer, self._critics = loss, buffer, critics
        self._errors: list[th.Tensor] = []
        self.samples: SiblingSamples | None = None  # the batch in work, then the last one
        self.refreshed = 0  # batches

    def draw(self, samples: SiblingSamples) -> None:
        """The buffer tells of a batch it has drawn."""
        self.samples, self._errors = samples, []

    def __call__(self, values: th.Tensor, targets: th.Tensor, **options: Any) -> th.Tensor:
        samples = self.samples
        assert samples is not None
        if samples.batch.outcomes is not samples.batch:  # several outcomes an entry
            targets = samples.batch.average(targets.squeeze(1)).unsqueeze(1)
        weights = samples.weights.reshape(-1, *[1] * (values.ndim - 1))
        values.register_hook(lambda gradient: gradient * weights)
        with th.no_grad():
            errors = targets.mean(dim=-1) - values.mean(dim=-1)
            self._errors.append(errors.reshape(len(errors), -1))
            if len(self._errors) == self._critics:
                # Before the optimizer's step: errors that are no numbers are refused in time.
                every = th.cat(self._errors, dim=1)
                signed = th.copysign(every.abs().mean(dim=1), every.mean(dim=1))
                self._buffer.update_priorities(samples, signed)
                self.refreshed += 1
        return self._loss(values, targets, **options)

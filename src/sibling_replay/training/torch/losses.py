"""The losses of `training.losses` as functions of a tensor of TD errors, one loss an error."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from sibling_replay.training.losses import HUBER, MSE, loss_named


def loss_of_errors(name: str) -> Callable[[Tensor], Tensor]:
    """The loss of a name."""
    kind, number = loss_named(name)
    if kind == MSE:
        return torch.square
    if kind == HUBER:
        return lambda errors: _huber(errors, number)
    return lambda errors: _pal(errors, number)


def _huber(errors: Tensor, threshold: float) -> Tensor:
    return F.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=threshold)


def _pal(errors: Tensor, alpha: float) -> Tensor:
    size = errors.abs().clamp(min=1.0)
    scale = (size**alpha).detach().mean()
    beyond = size ** (1.0 + alpha) / (1.0 + alpha) + 0.5 - 1.0 / (1.0 + alpha)
    return torch.where(errors.abs() > 1.0, beyond, 0.5 * errors.square()) / scale

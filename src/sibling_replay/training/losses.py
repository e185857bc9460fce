"""Losses of TD errors by name: what they are called, and their slope for compiled learners.

    mse         d^2
    huber:K     d^2 / 2 up to |d| = K, then K (|d| - K / 2); "huber" is K = 1
    pal:ALPHA   d^2 / 2 up to |d| = 1, then |d|^(1 + ALPHA) / (1 + ALPHA) and a constant, divided by
                the batch's mean of max(|d|, 1)^ALPHA; "pal" is ALPHA = 0.4

PAL on uniform draws has the expected gradient of LAP's draws with Huber's loss (Fujimoto, Meger,
Precup 2020). The mean it is divided by counts as a constant. `torch/losses.py` has the same losses
of tensors.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from sibling_replay.replay.inner import inner

MSE, HUBER, PAL = range(3)
LOSSES = ("mse", "huber", "huber:K", "pal", "pal:ALPHA")
_KINDS = {"mse": MSE, "huber": HUBER, "pal": PAL}
_USUAL = {"mse": 0.0, "huber": 1.0, "pal": 0.4}


class Loss(NamedTuple):
    """A loss as compiled code knows it."""

    kind: int
    number: float  # K, or alpha; 0 where there is none


def loss_named(name: str) -> Loss:
    """The loss of a name, or an error that lists them."""
    found = re.fullmatch(r"(mse|(huber|pal)(:(?P<number>[^:]+))?)", str(name))
    try:
        if found is None:
            raise ValueError
        kind = name.partition(":")[0]
        number = _USUAL[kind] if found["number"] is None else float(found["number"])
        if not (0.0 <= number < math.inf) or (kind == "huber" and number == 0.0):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)}, with K positive and ALPHA not negative, "
            f"got {name!r}"
        ) from None
    return Loss(_KINDS[kind], number)


@inner(error_model="numpy")
def size_above_one(pull: float, alpha: float) -> float:
    """max(|d|, 1)^alpha."""
    return float(max(abs(pull), 1.0) ** alpha)


@inner(error_model="numpy")
def slope_and_loss(pull: float, kind: int, number: float, scale: float) -> tuple[float, float]:
    """The slope of the loss at an error, in double precision, and the loss. `scale` is what PAL is
    divided by."""
    pull = float(pull)
    size = abs(pull)
    if kind == HUBER:
        if size > number:
            return math.copysign(number, pull), number * (size - 0.5 * number)
        return pull, 0.5 * pull * pull
    if kind == PAL:
        if size > 1.0:
            power = size_above_one(pull, number)
            whole = size * power / (1.0 + number) + 0.5 - 1.0 / (1.0 + number)
            return math.copysign(power, pull) / scale, whole / scale
        return pull / scale, 0.5 * pull * pull / scale
    return pull + pull, pull * pull

"""What learners descend: mean_b w_b f(d_b) over the errors of a batch, by name."""

from __future__ import annotations

from typing import NamedTuple

MSE, HUBER, PAL = range(3)
_KINDS = {"mse": MSE, "huber": HUBER, "pal": PAL}
_NUMBERS = {"huber": 1.0, "pal": 0.4}  # unless others are given


class Loss(NamedTuple):
    """f' = 2 d of the square; d cut off at +-number of Huber's; of PAL (Fujimoto et al., 2020), d
    cut off at +-1 times max(|d|, 1)^number, over the batch's mean of the last factor."""

    kind: int = MSE
    number: float = 0.0  # Huber's threshold, or PAL's exponent


def loss_named(text: str) -> Loss:
    """mse, huber, huber:K, pal or pal:ALPHA."""
    name, colon, number = text.partition(":")
    try:
        value = float(number) if colon else _NUMBERS.get(name, 0.0)
    except ValueError:
        value = -1.0
    fits = value == 0.0 if name == "mse" else 0.0 < value < float("inf")
    if name not in _KINDS or not fits:
        raise ValueError(f"loss must be mse, huber, huber:K, pal or pal:ALPHA, not {text!r}")
    return Loss(_KINDS[name], value)

"""The first weights of a network, by the law that torch has for linear layers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layers = list[tuple[NDArray[Any], NDArray[Any]]]
"""Weights [outputs, inputs] and biases [outputs]."""


def initial_layers(rng: np.random.Generator, sizes: tuple[int, ...]) -> Layers:
    """As `torch.nn.Linear` draws them: U(+-1/sqrt(fan_in))."""
    layers = []
    for fan_in, fan_out in pairwise(sizes):
        bound = 1.0 / math.sqrt(fan_in)
        weight = rng.uniform(-bound, bound, (fan_out, fan_in)).astype(np.float32)
        bias = rng.uniform(-bound, bound, fan_out).astype(np.float32)
        layers.append((weight, bias))
    return layers

"""The paper's MinAtar network."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MinAtarNetwork(nn.Module):
    """3x3 convolutions of 16 and 32 channels that keep the 10x10 grid, 128 hidden units (unless
    others are asked for), action values.

    Takes observations as they are, [B, 10, 10, C], and keeps channels last.
    """

    def __init__(
        self, channels: int, n_actions: int, rng: np.random.Generator, hidden: int = 128
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(3200, hidden)
        self.values = nn.Linear(hidden, n_actions)
        for layer in (self.first, self.second, self.hidden, self.values):
            _initialise(layer, rng)

    def forward(self, obs: Tensor) -> Tensor:
        x = F.relu(self.first(obs.permute(0, 3, 1, 2)))
        x = F.relu(self.second(x)).permute(0, 2, 3, 1).flatten(1)
        values: Tensor = self.values(F.relu(self.hidden(x)))
        return values


def _initialise(layer: nn.Conv2d | nn.Linear, rng: np.random.Generator) -> None:
    """Torch's default initial law, from an owned stream."""
    bound = 1.0 / math.sqrt(layer.weight[0].numel())
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            assert parameter is not None
            drawn = rng.uniform(-bound, bound, tuple(parameter.shape)).astype(np.float32)
            parameter.copy_(torch.from_numpy(drawn))

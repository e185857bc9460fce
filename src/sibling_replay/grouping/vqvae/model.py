"""The VQ-VAE whose frozen encoder makes latent sibling keys (appendix "VQ-VAE grouping").

    encoder    two 3x3 convolutions of stride 2, 64 channels, ReLU; mean over each cell of the code
               grid; 1x1 convolution to 32 dimensions
    quantiser  the nearest of K codes; straight-through gradient; commitment 0.25; codes are moving
               averages of what they stand for, and unused ones start again elsewhere
    decoder    1x1 convolution, nearest upsampling to 10x10, 3x3 convolution, ReLU, 1x1 convolution

An upsampled grid of few cells is constant over large areas, and so is what the decoder's 3x3
convolution makes of it: the 100 positions fall into regions of equal neighbourhood (18 for 2x1).
The decoder is evaluated once a region, and the loss needs only each region's size and its sum of
the observation. That is the same function and loss, in a twenty-fifth of the multiplications.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from sibling_replay.grouping.vqvae.adam_state import adam_state, load_adam_state
from sibling_replay.grouping.vqvae.encoder import check_form

SIDE = 10  # cells of an observation, each way
CHANNELS = 64  # of the hidden layers
DIMENSIONS = 32  # of a code
COMMITMENT = 0.25
DECAY = 0.99  # of the moving averages, an update
FAIR_SHARE = 0.05  # a code used less than this part of an even share is dead

Loss = Literal["bce", "mse"]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Form:
    """What decides the shape of a VQ-VAE."""

    channels: int  # of an observation
    grid: tuple[int, int]  # rows and columns of codes
    codes: int  # K
    loss: Loss = "bce"

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise ValueError(f"channels must be at least 1, got {self.channels}")
        check_form(self.grid, self.codes)
        if self.loss not in ("bce", "mse"):
            raise ValueError(f'loss must be "bce" or "mse", got {self.loss!r}')


class VQVAEModel(nn.Module):
    """The network and its codebook. `update` is one step of training."""

    def __init__(self, form: Form, rng: np.random.Generator, learning_rate: float = 3e-4) -> None:
        super().__init__()
        self.form = form
        self._rng = rng

        def layer(outputs: int, inputs: int, kernel: int) -> nn.Conv2d:
            return _conv(rng, outputs, inputs, kernel)

        self.first = layer(CHANNELS, form.channels, 3)
        self.second = layer(CHANNELS, CHANNELS, 3)
        self.to_code = layer(DIMENSIONS, CHANNELS, 1)
        self.from_code = layer(CHANNELS, DIMENSIONS, 1)
        self.spread = layer(CHANNELS, CHANNELS, 3)
        self.to_logits = layer(form.channels, CHANNELS, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.register_buffer("codebook", torch.zeros(form.codes, DIMENSIONS))
        self.register_buffer("uses", torch.zeros(form.codes))  # an update, on average
        self.register_buffer("sums", torch.zeros(form.codes, DIMENSIONS))
        regions = _Regions(form.grid)
        self.register_buffer("region_of", regions.members, persistent=False)
        self.register_buffer("taps", regions.taps, persistent=False)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate, fused=True)

    codebook: Tensor  # [K, D]
    uses: Tensor  # [K]
    sums: Tensor  # [K, D]
    region_of: Tensor  # [100, R] 1 where a position is in a region
    taps: Tensor  # [9, R * cells] which kernel taps of a region see which cell of the grid

    def embed(self, obs: Tensor) -> Tensor:
        """Observations [B, 10, 10, C] as vectors [B * cells, D], to be quantised."""
        hidden = F.relu(self.first(obs.permute(0, 3, 1, 2)))
        hidden = F.relu(self.second(hidden))
        vectors: Tensor = self.to_code(F.adaptive_avg_pool2d(hidden, self.form.grid))
        return vectors.permute(0, 2, 3, 1).reshape(-1, DIMENSIONS)

    def nearest(self, vectors: Tensor) -> Tensor:
        """The code of each vector; of equally near ones the first."""
        distances = (self.codebook**2).sum(1) - 2.0 * vectors @ self.codebook.T
        return distances.argmin(1)

    def decode(self, vectors: Tensor) -> Tensor:
        """What the decoder says of each region: [B, R, C] logits (or values, for "mse")."""
        cells = self.form.grid[0] * self.form.grid[1]
        weight = self.from_code.weight.flatten(1)
        inner = F.linear(vectors, weight, self.from_code.bias).view(-1, cells * CHANNELS)
        # [o, i, 9] @ [9, R * cells]: each region's kernel, with taps on one cell added up
        kernels = (self.spread.weight.flatten(2) @ self.taps).view(CHANNELS, CHANNELS, -1, cells)
        kernels = kernels.permute(3, 1, 2, 0).reshape(cells * CHANNELS, -1)
        assert self.spread.bias is not None
        hidden = (inner @ kernels).view(len(inner), -1, CHANNELS) + self.spread.bias
        return F.linear(F.relu(hidden), self.to_logits.weight.flatten(1), self.to_logits.bias)

    def reconstruction(self, logits: Tensor, obs: Tensor) -> Tensor:
        """Mean loss an element: binary cross-entropy in nats, or squared error."""
        ones = torch.einsum("bpc,pr->brc", obs.flatten(1, 2), self.region_of)
        size = self.region_of.sum(0)[:, None]
        if self.form.loss == "bce":
            total = (size * F.softplus(logits) - ones * logits).sum()
        else:  # the square of a bit is the bit
            total = (size * logits**2 - 2.0 * ones * logits + ones).sum()
        return total / obs.numel()

    def update(self, obs: Tensor, *, revive: bool) -> tuple[float, float]:
        """One optimizer step on [B, 10, 10, C]; returns reconstruction and commitment losses."""
        vectors = self.embed(obs)
        found = vectors.detach()
        if not self.uses.any():
            self._restart(torch.ones(self.form.codes, dtype=torch.bool), found)
        code = self.nearest(found)
        chosen = self.codebook[code]
        straight_through = vectors + (chosen - found)
        reconstruction = self.reconstruction(self.decode(straight_through), obs)
        commitment = F.mse_loss(vectors, chosen)
        self.optimizer.zero_grad()
        (reconstruction + COMMITMENT * commitment).backward()
        self.optimizer.step()
        self._move_codes(found, code)
        if revive:
            dead = self.uses < FAIR_SHARE * len(found) / self.form.codes
            if dead.any():
                self._restart(dead, found)
        return reconstruction.item(), commitment.item()

    def _move_codes(self, vectors: Tensor, code: Tensor) -> None:
        """Codes follow the moving average of the vectors they stand for."""
        member = F.one_hot(code, self.form.codes).to(vectors.dtype)
        self.uses.lerp_(member.sum(0), 1.0 - DECAY)
        self.sums.lerp_(member.T @ vectors, 1.0 - DECAY)
        alive = self.uses > 1e-3
        self.codebook[alive] = self.sums[alive] / self.uses[alive, None]

    def _restart(self, dead: Tensor, vectors: Tensor) -> None:
        """Put codes onto vectors of this batch, different ones if there are enough, with an even
        share of use."""
        count = int(dead.sum())
        places = self._rng.choice(len(vectors), count, replace=count > len(vectors))
        self.codebook[dead] = vectors[torch.from_numpy(places)]
        self.uses[dead] = len(vectors) / self.form.codes
        self.sums[dead] = self.codebook[dead] * self.uses[dead, None]

    def arrays(self) -> Arrays:
        """All that training needs to go on, without the random stream (copies)."""
        model = {f"model/{name}": value for name, value in self.state_dict().items()}
        adam = {f"adam/{name}": value for name, value in adam_state(self.optimizer).items()}
        return {name: value.numpy(force=True).copy() for name, value in {**model, **adam}.items()}

    def load_arrays(self, arrays: Arrays) -> None:
        """Continue where `arrays` was taken."""
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "adam": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = torch.from_numpy(np.array(array))
        self.load_state_dict(parts["model"])
        load_adam_state(self.optimizer, parts["adam"])


def _conv(rng: np.random.Generator, outputs: int, inputs: int, kernel: int) -> nn.Conv2d:
    """A convolution with torch's default initial law, drawn from `rng`."""
    stride, padding = (2, 1) if kernel == 3 else (1, 0)
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding)
    bound = 1.0 / math.sqrt(inputs * kernel * kernel)
    with torch.no_grad():
        for parameter in (conv.weight, conv.bias):
            assert parameter is not None
            drawn = rng.uniform(-bound, bound, tuple(parameter.shape)).astype(np.float32)
            parameter.copy_(torch.from_numpy(drawn))
    return conv


class _Regions:
    """Positions with the same 3x3 neighbourhood in the upsampled grid, as two 0/1 matrices."""

    def __init__(self, grid: tuple[int, int]) -> None:
        rows, columns = (_line(cells) for cells in grid)
        sees = [(r, c) for r in dict.fromkeys(rows) for c in dict.fromkeys(columns)]
        self.members = torch.zeros(SIDE * SIDE, len(sees))
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                self.members[y * SIDE + x, sees.index((row, column))] = 1.0
        taps = torch.zeros(9, len(sees), grid[0] * grid[1])
        for region, (row, column) in enumerate(sees):
            for tap in range(9):
                v, u = row[tap // 3], column[tap % 3]
                if v is not None and u is not None:
                    taps[tap, region, v * grid[1] + u] = 1.0
        self.taps = taps.flatten(1)


def _line(cells: int) -> list[tuple[int | None, ...]]:
    """For each of the ten positions of a line, the grid cells at it and its two neighbours."""
    cell = [place * cells // SIDE for place in range(SIDE)]
    padded: list[int | None] = [None, *cell, None]
    return [tuple(padded[place : place + 3]) for place in range(SIDE)]

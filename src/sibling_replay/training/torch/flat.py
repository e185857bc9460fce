"""The MinAtar learner for a CPU: `DoubleDQN.update` written out.

Of the ways that benchmarks/minatar_update.py times it is the fastest, before `torch.compile`.
The same arithmetic for one network, `MinAtarNetwork`, without what a CPU pays for generality: no
graph is recorded, gradients are written where they stay, and all parameters are one vector, so that
clipping and Adam are one pass each. Activations are channels last throughout, as observations are.
A test holds it to `DoubleDQN` step by step.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from sibling_replay import Batch
from sibling_replay.training.minatar.network import MinAtarNetwork
from sibling_replay.training.torch.dqn import Arrays, DoubleDQN

BETAS = (0.9, 0.999)  # Adam's, as torch has them by default
EPSILON = 1e-8


class FlatDoubleDQN(DoubleDQN):
    """A learner for `MinAtarNetwork`, float32, on a CPU."""

    def __init__(
        self,
        network: MinAtarNetwork,
        observation_space: gym.Space[Any],
        *,
        gamma: float,
        learning_rate: float,
        grad_clip: float,
    ) -> None:
        super().__init__(
            network,
            observation_space,
            gamma=gamma,
            learning_rate=learning_rate,
            grad_clip=grad_clip,
        )
        self._learning_rate = learning_rate
        size = sum(p.numel() for p in network.parameters())
        self._flat = {
            name: torch.zeros(size) for name in ("online", "target", "gradient", "mean", "square")
        }
        self._step = torch.zeros(())
        self._online = _rehome(network, self._flat["online"])
        self._target = _rehome(self.target, self._flat["target"])
        self._gradient = _views(network, self._flat["gradient"])

    @torch.inference_mode()
    def greedy(self, obs: Any) -> int:
        """The action of largest value; of equal ones the first. `forward` without its modules."""
        image = torch.as_tensor(obs)[None].to(self.dtype).permute(0, 3, 1, 2)
        return int(_forward(self._online, image)[-1].argmax())

    @torch.inference_mode()
    def update(self, batch: Batch) -> NDArray[Any]:
        """One optimizer step on the weighted squared TD error. Returns the TD errors before it."""
        next_obs = self.features(batch.next_obs).permute(0, 3, 1, 2)
        best = _forward(self._online, next_obs)[-1].argmax(dim=1, keepdim=True)
        bootstrap = _forward(self._target, next_obs)[-1].gather(1, best).squeeze(1)
        going = torch.as_tensor(~(batch.terminated | batch.truncated)).to(self.dtype)
        targets = torch.as_tensor(batch.reward) + self.gamma * going * bootstrap  # eq. 11

        obs = self.features(batch.obs).permute(0, 3, 1, 2)
        action = torch.as_tensor(batch.action)[:, None]
        layers = _forward(self._online, obs)
        values = layers[-1].gather(1, action).squeeze(1)
        errors = targets - values
        pulls = errors if batch.shift is None else errors + torch.as_tensor(batch.shift).float()
        slope = torch.as_tensor(batch.weights) * pulls * (-2.0 / batch.size)
        self.signals = {"target": targets, "value": values}
        of_values = torch.zeros_like(layers[-1]).scatter_(1, action, slope[:, None])
        self._backward(obs, layers, of_values)
        self._descend()
        before: NDArray[Any] = errors.numpy()
        return before

    def _backward(self, obs: Tensor, layers: tuple[Tensor, ...], of_values: Tensor) -> None:
        """Write the gradient of every parameter, given the loss's gradient of the values."""
        first, second, hidden, _ = layers
        _, _, w2, _, w3, _, w4, _ = self._online
        g1, c1, g2, c2, g3, c3, g4, c4 = self._gradient
        torch.mm(of_values.t(), hidden, out=g4)
        torch.sum(of_values, 0, out=c4)
        slope = torch.ops.aten.threshold_backward(of_values @ w4, hidden, 0)
        torch.mm(slope.t(), _rows(second), out=g3)
        torch.sum(slope, 0, out=c3)
        image = (slope @ w3).view(-1, 10, 10, second.shape[1]).permute(0, 3, 1, 2)
        image = torch.ops.aten.threshold_backward(image, second, 0)
        image, of_weight, of_bias = _convolution_backward(image, first, w2, need_input=True)
        g2.copy_(of_weight)
        c2.copy_(of_bias)
        image = torch.ops.aten.threshold_backward(image, first, 0)
        _, of_weight, of_bias = _convolution_backward(image, obs, self._online[0], need_input=False)
        g1.copy_(of_weight)
        c1.copy_(of_bias)

    def _descend(self) -> None:
        """Clip the gradient by its norm, and Adam."""
        flat = self._flat
        scale = self.grad_clip / (float(torch.linalg.vector_norm(flat["gradient"])) + 1e-6)
        if scale < 1.0:
            flat["gradient"].mul_(scale)
        self._step.add_(1.0)
        torch._fused_adam_(
            [flat["online"]],
            [flat["gradient"]],
            [flat["mean"]],
            [flat["square"]],
            [],
            [self._step],
            lr=self._learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def move_target(self, share: float = 1.0) -> None:
        """target += share (online - target): a hard update, or a soft one."""
        self._flat["target"].lerp_(self._flat["online"], share)

    def arrays(self) -> Arrays:
        """Both networks and the optimizer, for a checkpoint (copies)."""
        kept = {name: x for name, x in self._flat.items() if name != "gradient"}
        return {name: x.numpy().copy() for name, x in {**kept, "step": self._step}.items()}

    def load_arrays(self, arrays: Arrays) -> None:
        """Continue where `arrays` was taken."""
        for name, array in arrays.items():
            place = self._step if name == "step" else self._flat[name]
            place.copy_(torch.from_numpy(np.array(array)))


def _forward(parameters: list[Tensor], obs: Tensor) -> tuple[Tensor, ...]:
    """Activations of each layer, the action values last; as `MinAtarNetwork.forward`."""
    w1, b1, w2, b2, w3, b3, w4, b4 = parameters
    first = F.conv2d(obs, w1, b1, padding=1).relu_()
    second = F.conv2d(first, w2, b2, padding=1).relu_()
    # the weights on the left: the same sums as addmm(b3, rows, w3.t()) in half the time
    hidden = torch.addmm(b3[:, None], w3, _rows(second).t()).t().contiguous().relu_()
    return first, second, hidden, torch.addmm(b4, hidden, w4.t())


def _rows(image: Tensor) -> Tensor:
    """[B, C, 10, 10], channels last, as [B, 100 C]: a view."""
    return image.permute(0, 2, 3, 1).flatten(1)


def _convolution_backward(
    slope: Tensor, inputs: Tensor, weight: Tensor, *, need_input: bool
) -> Any:
    """Gradients of a 3x3 convolution with padding 1: of its inputs, weight and bias."""
    ones, zeros, outputs = [1, 1], [0, 0], [weight.shape[0]]
    return torch.ops.aten.convolution_backward(
        slope, inputs, weight, outputs, ones, ones, ones, False, zeros, 1, [need_input, True, True]
    )


def _views(network: MinAtarNetwork, flat: Tensor) -> list[Tensor]:
    """Pieces of a vector in the shapes of a network's parameters; kernels channels last."""
    views = []
    start = 0
    for parameter in network.parameters():
        piece = flat[start : start + parameter.numel()]
        start += parameter.numel()
        if parameter.ndim == 4:
            outputs, inputs, *kernel = parameter.shape
            views.append(piece.view(outputs, *kernel, inputs).permute(0, 3, 1, 2))
        else:
            views.append(piece.view(parameter.shape))
    return views


def _rehome(network: Any, flat: Tensor) -> list[Tensor]:
    """Move a network's parameters into a vector; the network goes on using them there."""
    views = _views(network, flat)
    for parameter, view in zip(network.parameters(), views, strict=True):
        view.copy_(parameter.detach())
        parameter.data = view
        parameter.requires_grad_(False)
    return views

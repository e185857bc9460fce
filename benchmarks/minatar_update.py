"""Ways to write one MinAtar update on a CPU, timed side by side: which one a run should use.

The same network, batches and arithmetic each time (Double DQN, weighted squared errors, clipping,
Adam); before anything is timed, each way must give the TD errors of the first. `make bench-minatar`
puts the table into minatar.md.
"""

from __future__ import annotations

import copy
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from sibling_replay import Batch, Prioritized, ReplayBuffer
from sibling_replay.envs import MinAtarEnv
from sibling_replay.training.minatar.network import MinAtarNetwork
from sibling_replay.training.torch.dqn import DoubleDQN
from sibling_replay.training.torch.flat import FlatDoubleDQN

SETTINGS = {"gamma": 0.99, "learning_rate": 1e-4, "grad_clip": 10.0}
BATCHES = 30  # a piece
PIECES = 20

Update = Callable[[Batch], Any]
Tensors = dict[str, Tensor]


class PlanarNetwork(nn.Module):
    """A `MinAtarNetwork` that keeps its images as planes, torch's own order."""

    def __init__(self, network: MinAtarNetwork) -> None:
        super().__init__()
        self.inner = network

    def forward(self, obs: Tensor) -> Tensor:
        x = obs.permute(0, 3, 1, 2).contiguous()
        x = self.inner.second(self.inner.first(x).relu()).relu()
        rows = x.permute(0, 2, 3, 1).flatten(1)  # the hidden layer's weights expect this order
        values: Tensor = self.inner.values(self.inner.hidden(rows).relu())
        return values


class CompiledUpdate:
    """The whole update, gradients and Adam included, as one graph of `torch.compile`."""

    def __init__(self, network: MinAtarNetwork) -> None:
        self.network = network
        self.online: Tensors = {k: p.detach().clone() for k, p in network.named_parameters()}
        self.target, self.mean, self.square = (
            {k: f(p) for k, p in self.online.items()}
            for f in (torch.clone, torch.zeros_like, torch.zeros_like)
        )
        self.step = torch.zeros(())
        self.graph = torch.compile(self._update, fullgraph=True, dynamic=False)

    def _update(
        self,
        online: Tensors,
        target: Tensors,
        mean: Tensors,
        square: Tensors,
        step: Tensor,
        obs: Tensor,
        action: Tensor,
        reward: Tensor,
        next_obs: Tensor,
        going: Tensor,
        weights: Tensor,
    ) -> Tensor:
        best = functional_call(self.network, online, next_obs).argmax(1, keepdim=True)
        bootstrap = functional_call(self.network, target, next_obs).gather(1, best).squeeze(1)
        targets = reward + SETTINGS["gamma"] * going * bootstrap

        def loss(parameters: Tensors) -> tuple[Tensor, Tensor]:
            values = functional_call(self.network, parameters, obs).gather(1, action).squeeze(1)
            errors = targets - values
            return (weights * errors**2).mean(), errors

        gradient, (_, errors) = grad_and_value(loss, has_aux=True)(online)
        norm = torch.stack([g.square().sum() for g in gradient.values()]).sum().sqrt()
        scale = torch.clamp(SETTINGS["grad_clip"] / (norm + 1e-6), max=1.0)
        step.add_(1.0)
        for name, parameter in online.items():
            g = gradient[name] * scale
            mean[name].mul_(0.9).add_(g, alpha=0.1)
            square[name].mul_(0.999).add_(g * g, alpha=0.001)
            spread = (square[name] / (1 - 0.999**step)).sqrt() + 1e-8
            parameter.sub_(SETTINGS["learning_rate"] * mean[name] / (1 - 0.9**step) / spread)
        return errors

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Any:
        as_floats = (batch.reward, batch.next_obs, ~(batch.terminated | batch.truncated))
        reward, next_obs, going = (torch.as_tensor(x).float() for x in as_floats)
        errors = self.graph(
            self.online,
            self.target,
            self.mean,
            self.square,
            self.step,
            torch.as_tensor(batch.obs).float(),
            torch.as_tensor(batch.action)[:, None],
            reward,
            next_obs,
            going,
            torch.as_tensor(batch.weights),
        )
        return errors.numpy()


def ways(env: MinAtarEnv) -> dict[str, Update]:
    """Every way, from the same initial network."""
    space = env.observation_space
    network = MinAtarNetwork(space.shape[-1], 6, np.random.default_rng(0))  # type: ignore[index]

    def plain(module: nn.Module) -> DoubleDQN:
        learner = DoubleDQN(module, space, **SETTINGS)
        parameters, rate = learner.network.parameters(), SETTINGS["learning_rate"]
        learner.optimizer = torch.optim.Adam(parameters, lr=rate)
        return learner

    def fresh() -> MinAtarNetwork:
        return copy.deepcopy(network)

    found: dict[str, Update] = {
        "eager, images as planes, torch's default Adam": plain(PlanarNetwork(fresh())).update,
        "eager, channels last, default Adam": plain(fresh()).update,
        "eager, channels last, fused Adam (`DoubleDQN`)": (
            DoubleDQN(fresh(), space, **SETTINGS).update
        ),
        "written out, one parameter vector (`FlatDoubleDQN`, used)": (
            FlatDoubleDQN(fresh(), space, **SETTINGS).update
        ),
    }
    if shutil.which("g++") or shutil.which("clang++"):  # what torch.compile needs on a CPU
        found["the whole update as one graph of `torch.compile`"] = CompiledUpdate(fresh())
    return found


def random_batches(env: MinAtarEnv) -> list[Batch]:
    """Minibatches of random play."""
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer.for_env(env, 5_000, Prioritized(alpha=0.6), seed=0)
    obs, _ = env.reset(seed=0)
    for action in rng.integers(6, size=buffer.capacity):
        next_obs, reward, terminated, truncated, _ = env.step(int(action))
        buffer.add(obs, int(action), reward, next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
    return [buffer.sample(32, 0.4) for _ in range(BATCHES)]


def table(game: str) -> list[str]:
    """The lines of a Markdown section."""
    env = MinAtarEnv(game)
    batches, contestants = random_batches(env), ways(env)
    for batch in batches[:3]:  # also compiles
        first, *others = (update(batch) for update in contestants.values())
        for errors in others:
            np.testing.assert_allclose(errors, first, rtol=1e-3, atol=1e-4)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(PIECES):
        for name, update in contestants.items():
            before = time.process_time()
            for batch in batches:
                update(batch)
            times[name].append((time.process_time() - before) / BATCHES * 1e6)
    reference = next(iter(times.values()))
    lines = [
        "## Ways to write the update",
        "",
        f"CPU microseconds of one update, medians of {PIECES} interleaved pieces of {BATCHES}; "
        "ratios within a piece. All give the same TD errors.",
        "",
        "| update | us | of the first |",
        "|---|---:|---:|",
    ]
    for name, values in times.items():
        ratio = statistics.median(a / b for a, b in zip(values, reference, strict=True))
        lines.append(f"| {name} | {statistics.median(values):.0f} | {ratio:.2f} |")
    return lines

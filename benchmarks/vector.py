"""A whole training step on vectors: `DQN` beside SB3's DQN, a plain torch loop, and its own floor.

One core, one process, CPU time. The same environment, network, batch and updates a step for all; a
piece of every contestant is timed in turn, so that whatever else the machine does hits all of them
alike. The floor is what no learner can do without: the matrix products of one update and a pass of
Adam (BLAS and compiled loops), and the environment's own step.

    .venv-sb3/bin/python benchmarks/vector.py [--pieces 12] [--out benchmarks/vector.md]
"""

# ruff: noqa: E402  (libraries read the number of threads when they are loaded)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch are loaded

import argparse
import copy
import itertools
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from numba import njit
from torch import nn

from sibling_replay import Prioritized, SiblingSample, Strategy, Uniform
from sibling_replay.training import DQN
from sibling_replay.training.adam import adam_pass

BATCH = 32
STEPS = 500  # a piece
STARTS = 1_000  # steps before updates, taken before anything is timed
CAPACITY = 20_000
TARGET_INTERVAL = 500


class Task(NamedTuple):
    env: str
    hidden: tuple[int, ...]
    over_sb3: float  # how many times faster than SB3's DQN it must be
    over_loop: float
    over_floor: float  # how many times its floor it may take


TASKS = (
    Task("CartPole-v1", (64, 64), 15.0, 10.0, 2.0),
    Task("Acrobot-v1", (64, 64), 0.0, 0.0, 2.0),
    Task("CartPole-v1", (256, 256), 0.0, 0.0, 2.0),
)
Piece = Callable[[], None]


def ours(task: Task, strategy: Strategy) -> Piece:
    key = "auto" if strategy.needs.groups else None
    model = DQN(
        task.env,
        strategy=strategy,
        key=key,
        hidden=task.hidden,
        capacity=CAPACITY,
        batch_size=BATCH,
        learning_starts=STARTS,
        target_interval=TARGET_INTERVAL,
        epsilon_decay_steps=1,
        seed=0,
    )
    model.learn(3 * STARTS)

    def piece() -> None:
        model.learn(STEPS)

    return piece


def sb3(task: Task) -> Piece:
    model = stable_baselines3.DQN(
        "MlpPolicy",
        task.env,
        buffer_size=CAPACITY,
        batch_size=BATCH,
        learning_starts=STARTS,
        train_freq=1,
        target_update_interval=TARGET_INTERVAL,
        exploration_fraction=1e-6,
        policy_kwargs={"net_arch": list(task.hidden)},
        seed=0,
        device="cpu",
    )
    model.learn(STARTS + 10)

    def piece() -> None:
        model.learn(STEPS, reset_num_timesteps=False)

    return piece


def plain_loop(task: Task) -> Piece:
    """One file's worth of DQN, as CleanRL writes it: NumPy ring, eager torch."""
    env = gym.make(task.env)
    rng = np.random.default_rng(0)
    inputs, actions = env.observation_space.shape[0], int(env.action_space.n)
    sizes = (inputs, *task.hidden, actions)
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    ring = {
        "obs": np.zeros((CAPACITY, inputs), np.float32),
        "next_obs": np.zeros((CAPACITY, inputs), np.float32),
        "action": np.zeros(CAPACITY, np.int64),
        "reward": np.zeros(CAPACITY, np.float32),
        "done": np.zeros(CAPACITY, np.float32),
    }
    state: dict[str, Any] = {"obs": env.reset(seed=0)[0], "count": 0}

    def step() -> None:
        obs, count = state["obs"], state["count"]
        if rng.random() < 0.05:
            action = int(rng.integers(actions))
        else:
            with torch.no_grad():
                action = int(network(torch.as_tensor(obs)[None]).argmax(1))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        row = (obs, next_obs, action, float(reward), float(terminated))
        for column, value in zip(ring.values(), row, strict=True):
            column[count % CAPACITY] = value
        state["obs"] = env.reset()[0] if terminated or truncated else next_obs
        state["count"] = count = count + 1
        if count < STARTS:
            return
        chosen = rng.integers(min(count, CAPACITY), size=BATCH)
        batch = {name: torch.as_tensor(column[chosen]) for name, column in ring.items()}
        with torch.no_grad():
            best = network(batch["next_obs"]).argmax(1, keepdim=True)
            value = target(batch["next_obs"]).gather(1, best).squeeze(1)
            goal = batch["reward"] + 0.99 * (1 - batch["done"]) * value
        now = network(batch["obs"]).gather(1, batch["action"][:, None]).squeeze(1)
        loss = ((goal - now) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        if count % TARGET_INTERVAL == 0:
            target.load_state_dict(network.state_dict())

    for _ in range(STARTS + 10):
        step()

    def piece() -> None:
        for _ in range(STEPS):
            step()

    return piece


@njit(cache=True)
def _products(pairs, theta, mean, square, grad, repeats):
    f = np.float32
    coefficients = (f(1), f(0.9), f(0.999), f(0.1), f(1e-3), f(1e-3), f(1), f(1e-8), f(1e-30))
    for _ in range(repeats):
        for left, right, out in pairs:
            np.dot(left, right, out)
        adam_pass(theta, mean, square, grad, coefficients)


def floor(task: Task) -> Piece:
    """The products of an update, Adam, and the environment's step with random actions."""
    env = gym.make(task.env)
    sizes = [env.observation_space.shape[0], *task.hidden, int(env.action_space.n)]
    shapes = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        shapes.append((2 * BATCH, fan_in, fan_out))  # online: entries and outcomes
        shapes.append((BATCH, fan_in, fan_out))  # target: outcomes
        shapes.append((fan_in, BATCH, fan_out))  # gradient of the weights
        if fan_in != sizes[0]:
            shapes.append((BATCH, fan_out, fan_in))  # gradient of the inputs
    rng = np.random.default_rng(0)
    pairs = tuple(
        (
            rng.random((m, k), dtype=np.float32),
            rng.random((k, n), dtype=np.float32),
            np.empty((m, n), np.float32),
        )
        for m, k, n in shapes
    )
    parameters = sum((i + 1) * o for i, o in itertools.pairwise(sizes))
    vectors = [rng.random(parameters, dtype=np.float32) for _ in range(4)]
    actions = rng.integers(sizes[-1], size=STEPS)
    env.reset(seed=0)
    _products(pairs, *vectors, 1)

    def piece() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        _products(pairs, *vectors, STEPS)

    return piece


def measure(task: Task, pieces: int) -> dict[str, float]:
    """Median CPU microseconds a step of every contestant."""
    contestants: dict[str, Piece] = {
        "floor: products, Adam, environment": floor(task),
        "DQN, uniform": ours(task, Uniform()),
        "DQN, PER": ours(task, Prioritized()),
        "DQN, SAMPLE by Auto": ours(task, SiblingSample()),
        "SB3's DQN": sb3(task),
        "a plain torch loop": plain_loop(task),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(pieces + 1):
        for name, piece in contestants.items():
            before = time.process_time()
            piece()
            if number:  # the first of each warms it up
                times[name].append((time.process_time() - before) / STEPS * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def report(measured: dict[Task, dict[str, float]], pieces: int) -> tuple[str, bool]:
    lines = [
        "# CPU time of a whole training step on vectors",
        "",
        f"Batch {BATCH}, one update a step, one core ({platform.machine()}), medians of {pieces} "
        f"interleaved pieces of {STEPS} steps; SB3 {stable_baselines3.__version__}, torch "
        f"{torch.__version__}. Written by `make bench-train`.",
    ]
    checks = []
    for task, times in measured.items():
        base = times["floor: products, Adam, environment"]
        layers = "-".join(map(str, task.hidden))
        lines += ["", f"## {task.env}, {layers}", ""]
        lines += ["| | us a step | of the floor | SB3's DQN takes | the loop takes |"]
        lines += ["|---|---:|---:|---:|---:|"]
        for name, value in times.items():
            beside = ["", ""]
            if name.startswith("DQN"):
                beside = [f"{times[o] / value:.1f} x" for o in ("SB3's DQN", "a plain torch loop")]
            lines.append(f"| {name} | {value:.1f} | {value / base:.2f} | {' | '.join(beside)} |")
        for name in ("DQN, uniform", "DQN, PER", "DQN, SAMPLE by Auto"):
            where = f"{task.env} {layers}, {name}"
            checks.append((f"{where} over its floor", times[name] / base, "<=", task.over_floor))
        own = times["DQN, uniform"]
        for what, bound in (("SB3's DQN", task.over_sb3), ("a plain torch loop", task.over_loop)):
            if bound:
                ratio = times[what] / own
                checks.append((f"{task.env} {layers}, {what} over DQN", ratio, ">=", bound))
    lines += ["", "Required:", ""]
    passed = True
    for what, value, sign, bound in checks:
        ok = value <= bound if sign == "<=" else value >= bound
        passed &= ok
        lines.append(f"* {'pass' if ok else 'FAIL'}: {what} {value:.2f} ({sign} {bound:g})")
    return "\n".join(lines) + "\n", passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pieces", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("vector.md"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    measured = {task: measure(task, options.pieces) for task in TASKS}
    text, passed = report(measured, options.pieces)
    options.out.write_text(text)
    print(text)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()

"""A whole training step on vectors: `DQN` beside SB3's and SBX's DQN, a plain torch loop, and its
own floor.

One core, one process, CPU time. The same environment, network, batch and updates a step for all; a
piece of every contestant is timed in turn, so that whatever else the machine does hits all of them
alike. The floor is what no learner can do without: the matrix products of one update and a pass of
Adam (BLAS and compiled loops), and the environment's own step; each is repeated by itself, so code
and data are near. A training step takes turns with them, and nothing is near when its turn comes:
"in turn" is the same floor, one environment step and one update after the other.

    .venv-sbx/bin/python benchmarks/vector.py [--pieces 12] [--out benchmarks/vector.md]
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
import sbx
import stable_baselines3
import torch
from numba import njit
from torch import nn

from sibling_replay import Prioritized, SiblingSample, Strategy, Uniform
from sibling_replay.replay.handles import handle_of, open_table, open_vector
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
    over_sbx: float
    over_floor: float  # how many times its floor it may take
    over_env: float = 0.0  # and how many times the environment's own step, where that dominates


TASKS = (
    Task("CartPole-v1", (64, 64), 15.0, 10.0, 3.0, 2.0),
    Task("Acrobot-v1", (64, 64), 0.0, 0.0, 0.0, 2.0),
    Task("LunarLander-v3", (64, 64), 0.0, 0.0, 0.0, 2.0, over_env=1.3),
    Task("CartPole-v1", (256, 256), 0.0, 0.0, 0.0, 2.0),
)
Piece = Callable[[], None]
ACTING = "the environment alone"
FLOOR = "floor: products, Adam, environment"
OTHERS = ("SB3's DQN", "SBX's DQN", "a plain torch loop")


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


def sb3(task: Task, library: Any) -> Piece:
    model = library.DQN(
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
def _update(handle, shapes, repeats):
    """The products and Adam of so many updates, on the arrays of a handle."""
    f = np.float32
    coefficients = (f(1), f(0.9), f(0.999), f(0.1), f(1e-3), f(1e-3), f(1), f(1e-8), f(1e-30))
    n = len(shapes)
    theta, mean = open_vector(handle, 3 * n, f), open_vector(handle, 3 * n + 1, f)
    square, grad = open_vector(handle, 3 * n + 2, f), open_vector(handle, 3 * n + 3, f)
    for _ in range(repeats):
        for place in range(n):
            left = open_table(handle, 3 * place, shapes[place, 1], f)
            right = open_table(handle, 3 * place + 1, shapes[place, 2], f)
            np.dot(left, right, open_table(handle, 3 * place + 2, shapes[place, 2], f))
        adam_pass(theta, mean, square, grad, coefficients)


def floors(task: Task) -> tuple[Piece, Piece, Piece]:
    """The environment's step with random actions; that, the products of an update and Adam, each by
    itself; and in turn."""
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
    arrays = [
        rng.random(shape, dtype=np.float32)
        for m, k, n in shapes
        for shape in ((m, k), (k, n), (m, n))
    ]
    parameters = sum((i + 1) * o for i, o in itertools.pairwise(sizes))
    arrays += [rng.random(parameters, dtype=np.float32) for _ in range(4)]
    handle, table = handle_of(arrays), np.array(shapes)
    actions = rng.integers(sizes[-1], size=STEPS)
    env.reset(seed=0)
    _update(handle, table, 1)

    def act(action: int) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    def acting() -> None:
        for action in actions:
            act(action)

    def apart() -> None:
        acting()
        _update(handle, table, STEPS if arrays else 0)  # which keeps the arrays alive

    def in_turn() -> None:
        for action in actions:
            act(action)
            _update(handle, table, 1)

    return acting, apart, in_turn


def measure(task: Task, pieces: int) -> dict[str, float]:
    """Median CPU microseconds a step of every contestant."""
    acting, apart, in_turn = floors(task)
    contestants: dict[str, Piece] = {
        ACTING: acting,
        FLOOR: apart,
        "the same, in turn": in_turn,
        "DQN, uniform": ours(task, Uniform()),
        "DQN, PER": ours(task, Prioritized()),
        "DQN, SAMPLE by Auto": ours(task, SiblingSample()),
        "SB3's DQN": sb3(task, stable_baselines3),
        "SBX's DQN": sb3(task, sbx),
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
        f"interleaved pieces of {STEPS} steps; SB3 {stable_baselines3.__version__}, SBX "
        f"{sbx.__version__}, torch {torch.__version__}. In turn: one environment step, one update, "
        "as in training, where neither finds its code and data near. Written by `make "
        "bench-train`.",
    ]
    checks = []
    for task, times in measured.items():
        base = times[FLOOR]
        layers = "-".join(map(str, task.hidden))
        lines += ["", f"## {task.env}, {layers}", ""]
        heads = ["us a step", "of the floor", "in turn", *(f"{other} takes" for other in OTHERS)]
        lines += [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
        for name, value in times.items():
            ratios = [f"{value / base:.2f}", f"{value / times['the same, in turn']:.2f}"]
            beside = [f"{times[other] / value:.1f} x" for other in OTHERS]
            cells = [f"{value:.1f}", *ratios, *(beside if name.startswith("DQN") else [""] * 3)]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        for name in ("DQN, uniform", "DQN, PER", "DQN, SAMPLE by Auto"):
            where = f"{task.env} {layers}, {name}"
            checks.append((f"{where} over its floor", times[name] / base, "<=", task.over_floor))
        own = times["DQN, uniform"]
        if task.over_env:
            least = f"its floor: {base / times[ACTING]:.2f}"
            what = f"{task.env} {layers}, DQN over the environment's step ({least})"
            checks.append((what, own / times[ACTING], "<=", task.over_env))
        bounds = (task.over_sb3, task.over_sbx, task.over_loop)
        for what, bound in zip(OTHERS, bounds, strict=True):
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

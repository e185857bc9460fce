"""A MinAtar training step, split into its parts, beside a plain DQN loop: CPU time per step.

One core, one process, one game. Buffers are full (100,000 entries), exploration is at its final
rate, every step updates. Pieces of every contestant are timed in turn, so that whatever else the
machine does hits all of them alike. The plain loop is written as CleanRL writes its DQN: a NumPy
ring, uniform draws, a target of the largest value, torch's default Adam; with the same network, and
one forward pass less than Double DQN needs. The split is measured on further steps of the same
sessions, with a clock around each part. Below it, the ways to write an update (minatar_update.py).

    python benchmarks/minatar_step.py [--game SpaceInvaders] [--encoder FILE] [--out FILE]
"""

# ruff: noqa: E402  (libraries read the number of threads when they are loaded)

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch are loaded

import argparse
import copy
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from minatar_update import table as update_table
from torch.nn import functional as F

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.envs import MinAtarEnv
from sibling_replay.grouping.vqvae.files import EncoderFile, load_encoder, shipped_encoder
from sibling_replay.studies.minatar.runs import minatar_config
from sibling_replay.training.minatar.config import MINATAR_METHODS, MinAtarConfig
from sibling_replay.training.minatar.network import MinAtarNetwork
from sibling_replay.training.minatar.session import Session

FILL = 100_000  # steps before the first update, and entries of the buffer
PIECES = 30
PIECE = 40  # steps
SPLIT_STEPS = 1_000

# The requirements (issue 5, points 3, 4 and 5).
SAMPLE_OVER_PLAIN = 1.1
KEY_SHARE = 0.05
REPLAY_KEY_DIAGNOSTICS_SHARE = 0.05
CHECKPOINT_SECONDS = 1.0
CHECKPOINT_MEGABYTES = 60.0

PARTS = {
    "env": (("env", "step"), ("env", "reset")),
    "replay": (("buffer", "add"), ("buffer", "sample"), ("buffer", "update_priorities")),
    "act": (("learner", "greedy"),),
    "update": (("learner", "update"),),
    "diagnostics": (("windows", "measure"), ("windows", "act")),
}


def plain_dqn(config: MinAtarConfig) -> Iterator[None]:
    """DQN in one function, a step at a time, in the manner of a single-file implementation."""
    rng = np.random.default_rng(config.seed)
    env = MinAtarEnv(config.env)
    obs, _ = env.reset(seed=config.seed)
    n = config.capacity
    observations, next_observations = (np.zeros((n, *obs.shape), bool) for _ in range(2))
    actions, rewards, dones = np.zeros(n, int), np.zeros(n, np.float32), np.zeros(n, np.float32)
    network = MinAtarNetwork(obs.shape[-1], 6, rng)
    target_network = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    for step in range(config.steps):
        if rng.random() < config.epsilon(step):
            action = int(rng.integers(6))
        else:
            values = network(torch.Tensor(obs[None]))
            action = int(torch.argmax(values, dim=1).numpy()[0])
        next_obs, reward, terminated, truncated, _ = env.step(action)
        place = step % n
        observations[place], next_observations[place] = obs, next_obs
        actions[place], rewards[place], dones[place] = action, reward, terminated or truncated
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step >= config.learning_starts:
            chosen = rng.integers(min(step + 1, n), size=config.batch_size)
            with torch.no_grad():
                best, _ = target_network(torch.Tensor(next_observations[chosen])).max(dim=1)
                going = 1 - torch.from_numpy(dones[chosen])
                td_target = torch.from_numpy(rewards[chosen]) + config.gamma * best * going
            action_index = torch.from_numpy(actions[chosen])[:, None]
            values = network(torch.Tensor(observations[chosen])).gather(1, action_index).squeeze()
            loss = F.mse_loss(td_target, values)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % config.target_interval == 0:
            target_network.load_state_dict(network.state_dict())
        yield


def configs(game: str, encoder: EncoderFile) -> dict[str, MinAtarConfig]:
    """The paper's settings; learning starts when the buffer is full."""
    return {
        method: minatar_config(
            game,
            method,
            "mp-tail",
            0,
            learning_starts=FILL,
            encoder=encoder.encoder.digest if method == "SAMPLE" else "",
            eval_every_steps=10**9,
        )
        for method in MINATAR_METHODS
    }


def split(session: Session) -> dict[str, float]:
    """CPU microseconds per step of each part, from a clock around its calls."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            before = time.process_time_ns()
            result = function(*arguments, **named)
            spent[part] += time.process_time_ns() - before
            return result

        return call

    session = copy_of(session)
    for part, calls in PARTS.items():
        for owner, name in calls:
            holder = getattr(session, owner) if owner else session
            function = getattr(holder, name)
            if function is not None:
                setattr(holder, name, timed(part, function))
    start = time.process_time_ns()
    session.advance(session.position.number + SPLIT_STEPS)
    whole = time.process_time_ns() - start
    found = {part: ns / SPLIT_STEPS / 1e3 for part, ns in spent.items()}
    found["loop"] = whole / SPLIT_STEPS / 1e3 - sum(found.values())
    found["key"] = key_cost(session)  # a part of `add`
    found["replay"] -= found["key"]
    return found


def key_cost(session: Session) -> float:
    """CPU microseconds of the key of one observation, 0 where there are no groups."""
    key = session.buffer._key
    if key is None:
        return 0.0
    stored = session.buffer.transitions()
    rows = [(stored["obs"][[i]], stored["action"][[i]]) for i in range(SPLIT_STEPS)]
    start = time.process_time_ns()
    for obs, action in rows:
        key.keys(obs, action)
    return (time.process_time_ns() - start) / SPLIT_STEPS / 1e3


def copy_of(session: Session) -> Session:
    """The same run, with a loop that has not begun: it will look its parts up again."""
    session.load_state(*session.state())
    return session


def checkpoint_cost(session: Session) -> tuple[float, float]:
    """Wall seconds and megabytes of a checkpoint of a full buffer."""
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = RollingCheckpoint(directory)
        seconds = []
        for _ in range(5):
            before = time.perf_counter()
            checkpoint.save(*session.state())
            seconds.append(time.perf_counter() - before)
        return statistics.median(seconds), checkpoint.newest.stat().st_size / 1e6


def measure(game: str, encoder: EncoderFile) -> dict[str, Any]:
    sessions = {
        name: Session(config, encoder.encoder if config.encoder else None)
        for name, config in configs(game, encoder).items()
    }
    plain = plain_dqn(configs(game, encoder)["DDQN"])
    for _ in range(FILL + 20):
        next(plain)
    for session in sessions.values():
        session.advance(FILL + 20)

    def plain_piece() -> None:
        for _ in range(PIECE):
            next(plain)

    def our_piece(session: Session) -> None:
        session.advance(session.position.number + PIECE)

    times: dict[str, list[float]] = {"plain DQN": [], **{name: [] for name in sessions}}
    for _ in range(PIECES):
        for name in times:
            before = time.process_time()
            our_piece(sessions[name]) if name in sessions else plain_piece()
            times[name].append((time.process_time() - before) / PIECE * 1e6)
    return {
        "steps": {name: statistics.median(values) for name, values in times.items()},
        "checkpoint": checkpoint_cost(sessions["SAMPLE"]),
        "split": {name: split(session) for name, session in sessions.items()},
    }


def report(game: str, found: dict[str, Any]) -> tuple[str, bool]:
    steps, splits = found["steps"], found["split"]
    seconds, megabytes = found["checkpoint"]
    parts = ["env", "key", *(part for part in PARTS if part != "env"), "loop"]
    lines = [
        f"# CPU time of a MinAtar training step: {game}",
        "",
        f"Microseconds per environment step, one core ({platform.machine()}), full buffers of "
        f"{FILL:,}, batch 32, one update a step;",
        f"medians of {PIECES} interleaved pieces of {PIECE} steps, parts over {SPLIT_STEPS:,} "
        "further steps, each timed by itself: they need not add up to the step. No evaluations. "
        "Written by `make bench-minatar`.",
        "",
        f"| | step | of plain | {' | '.join(parts)} |",
        f"|---|---:|---:|{'---:|' * len(parts)}",
        f"| plain DQN | {steps['plain DQN']:.0f} | 1.00 |{' |' * len(parts)}",
    ]
    for name in MINATAR_METHODS:
        cells = " | ".join(f"{splits[name][part]:.1f}" for part in parts)
        ratio = steps[name] / steps["plain DQN"]
        lines.append(f"| ours, {name} | {steps[name]:.0f} | {ratio:.2f} | {cells} |")
    split_of = splits["SAMPLE"]
    whole = sum(split_of.values())
    beside = sum(split_of[part] for part in ("replay", "key", "diagnostics"))
    checks = [
        ("SAMPLE over plain DQN", steps["SAMPLE"] / steps["plain DQN"], SAMPLE_OVER_PLAIN),
        ("key, of SAMPLE's step", split_of["key"] / whole, KEY_SHARE),
        ("replay, key and diagnostics, of SAMPLE's step", beside / whole,
         REPLAY_KEY_DIAGNOSTICS_SHARE),
        ("checkpoint of a full buffer, seconds", seconds, CHECKPOINT_SECONDS),
        ("checkpoint of a full buffer, MB", megabytes, CHECKPOINT_MEGABYTES),
    ]  # fmt: skip
    lines += ["", "Required:", ""]
    for what, value, bound in checks:
        verdict = "pass" if value <= bound else "FAIL"
        lines.append(f"* {verdict}: {what} {value:.3g} (<= {bound:g})")
    lines += ["", *update_table(game)]
    return "\n".join(lines) + "\n", all(value <= bound for _, value, bound in checks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--game", default="SpaceInvaders")
    parser.add_argument("--encoder", type=Path, help="an encoder file (default: the package's)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("minatar.md"))
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    encoder = load_encoder(options.encoder or shipped_encoder(options.game))
    text, passed = report(options.game, measure(options.game, encoder))
    options.out.write_text(text)
    print(text)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()

"""What `Auto` chooses, and how well its groups are filled: random play in several environments.

A buffer with key=Auto() takes 50,000 steps of random play; every fourth step a batch is drawn and a
linear Q-function learns from it, so that entries have priorities of TD errors as in training. The
buffer chooses at 2,000 entries and whenever they have doubled. Environments that are not installed
are left out.

    python benchmarks/auto_support.py [--steps 50000] [--out benchmarks/auto_support.md]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import sibling_replay.envs  # noqa: F401  (registers MinAtar's games)
from sibling_replay import ReplayBuffer, SiblingSample
from sibling_replay.grouping import Auto

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
ENVS = (
    *("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "LunarLander-v3"),
    "MiniGrid-Dynamic-Obstacles-8x8-v0",
    *(f"sibling_replay/MinAtar-{game}-v0" for game in GAMES),
)
LEAST, MOST = 0.005, 0.05  # G/N that is asked for at the end
EVERY, BATCH, BETA = 4, 32, 0.4
GAMMA, RATE, LARGEST = 0.99, 0.1, 100.0


class LinearQ:
    """Q(s, a) = w_a . (s, 1), by normalised gradient steps: not good, but its errors are real."""

    def __init__(self, width: int, actions: int) -> None:
        self.weights = np.zeros((width + 1, actions))

    def __call__(self, obs: Any) -> Any:
        rows = obs.reshape(len(obs), -1).astype(np.float64)
        return np.concatenate([rows, np.ones((len(obs), 1))], axis=1)

    def update(self, batch: Any) -> Any:
        now, later = self(batch.obs), self(batch.next_obs)
        best = (later @ self.weights).max(axis=1).clip(-LARGEST, LARGEST)
        target = batch.reward + GAMMA * best * ~batch.terminated
        errors = target - (now @ self.weights)[np.arange(len(now)), batch.action]
        steps = RATE / len(now) * batch.weights * errors / (1.0 + (now**2).sum(axis=1))
        np.add.at(self.weights.T, batch.action, steps[:, None] * now)
        return errors


def made(name: str) -> gym.Env[Any, Any]:
    if not name.startswith("MiniGrid"):
        return gym.make(name)
    from minigrid.wrappers import ImgObsWrapper  # the view alone: a mission's text is no number

    return ImgObsWrapper(gym.make(name))


def played(name: str, steps: int) -> ReplayBuffer:
    env = made(name)
    env.action_space.seed(0)
    buffer = ReplayBuffer.for_env(env, steps, SiblingSample(), key=Auto(), seed=0)
    space = env.action_space
    assert isinstance(space, gym.spaces.Discrete) and env.observation_space.shape is not None
    learner = LinearQ(int(np.prod(env.observation_space.shape)), int(space.n))
    obs, _ = env.reset(seed=0)
    for step in range(1, steps + 1):
        action = space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, float(reward), next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step % EVERY == 0 and step >= BATCH:
            batch = buffer.sample(BATCH, BETA)
            buffer.update_priorities(batch, learner.update(batch))
    return buffer


def row_of(name: str, buffer: ReplayBuffer, seconds: float) -> str:
    found, choices = buffer.support(), buffer.key_choices
    kept = found.groups_per_entry
    verdict = "yes" if LEAST <= kept <= MOST else "no"
    taken = choices[-1]
    return (
        f"| {name.split('/')[-1]} | `{taken.key}` | {kept:.4f} | {verdict} "
        f"| {found.median_bucket:g} | {found.singletons:.1%} "
        f"| {taken.entries:,} entries: {taken.reason} | {seconds:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("auto_support.md"))
    options = parser.parse_args()
    lines = [
        "# What `Auto` chooses",
        "",
        f"{options.steps:,} entries of random play, priorities of a linear Q-function, the last "
        f"choice in force. G/N from {LEAST} to {MOST} is asked for.",
        "Written by `python benchmarks/auto_support.py`.",
        "",
        "| env | map | G/N | as asked | median group | alone | why, at its last choice | s |",
        "|---|---|---:|---|---:|---:|---|---:|",
    ]
    for name in ENVS:
        before = time.perf_counter()
        try:
            buffer = played(name, options.steps)
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            lines.append(f"| {name} | not installed | | | | | {str(error).splitlines()[0]} | |")
        else:
            lines.append(row_of(name, buffer, time.perf_counter() - before))
        print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

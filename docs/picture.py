"""Draws docs/picture.png from a real buffer: `python docs/picture.py`.

A tabular learner plays OutlierBandit at random (the risky arm pays 100 once in a hundred tries,
else 0) and replays with PER. Then we ask, on the same transitions and priorities, what each
strategy replays once it has chosen the risky arm.
"""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import sibling_replay.envs  # noqa: F401  (registers the environments)
from sibling_replay import Prioritized, ReplayBuffer, SiblingSample

STEPS = 20_000
DRAWS = 200_000
BETA = 0.4
LEARNING_RATE = 0.01


def trained_buffer() -> ReplayBuffer:
    """A buffer of 5,000 transitions whose priorities come from learning with PER."""
    env = gym.make("sibling_replay/OutlierBandit-v0")
    buffer = ReplayBuffer.for_env(env, 5_000, Prioritized(alpha=0.6), key="exact", seed=0)
    rng = np.random.default_rng(0)
    values = np.zeros(2)
    obs, _ = env.reset(seed=0)
    for step in range(STEPS):
        action = int(rng.integers(2))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, float(reward), next_obs, terminated, truncated)
        obs, _ = env.reset()
        if step >= 500:
            batch = buffer.sample(32, beta=BETA)
            errors = batch.reward - values[batch.action]
            np.add.at(values, batch.action, LEARNING_RATE * batch.weights * errors)
            buffer.update_priorities(batch, errors)
    return buffer


def rare_share(batch) -> float:
    """How much of what was replayed of the risky arm is the rare outcome."""
    risky = batch.action == 1
    return float((batch.reward[risky] == 100).mean())


def main() -> None:
    per = trained_buffer()
    sample = ReplayBuffer.for_env(
        gym.make("sibling_replay/OutlierBandit-v0"), 5_000, SiblingSample(alpha=0.6), seed=1
    )
    state = per.state_dict()  # the same transitions and priorities, another strategy
    state["header"] = {
        **state["header"],
        "strategy": "SiblingSample",
        "options": sample.strategy.options(),
    }
    sample.load_state_dict(state)

    everything = per.transitions()
    stored = (everything["reward"][everything["action"] == 1] == 100).mean()
    shares = {
        "stored\nin the buffer": float(stored),
        "replayed\nby PER": rare_share(per.sample(DRAWS, beta=BETA)),
        "replayed\nby SAMPLE": rare_share(sample.sample(DRAWS, beta=BETA)),
    }
    figure, axes = plt.subplots(figsize=(6.4, 2.9), dpi=160)
    bars = axes.bar(list(shares), [100 * s for s in shares.values()], width=0.55,
                    color=["#9aa5b1", "#c8553d", "#2a7f62"])  # fmt: skip
    axes.bar_label(bars, [f"{100 * s:.1f} %" for s in shares.values()], padding=2)
    axes.set_ylabel("share of the rare outcome\namong the risky arm's (%)")
    axes.set_title("OutlierBandit, risky arm: 100 with probability 0.01, else 0", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.15)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("picture.png"))


if __name__ == "__main__":
    main()

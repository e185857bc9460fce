"""Training steps of Stable-Baselines3's DQN with its own replay and with ours.

.venv-sb3/bin/python benchmarks/hosts/sb3.py --out FILE
"""

from __future__ import annotations

from common import learning, output_file, race, write  # first: it sets the number of threads

# isort: split

import stable_baselines3
import torch
from stable_baselines3 import DQN

from sibling_replay import (
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.integrations.sb3 import SiblingDQN

ENV = "CartPole-v1"
CAPACITY = 20_000
STEPS = 250  # a piece
# One update a step. Everything else is SB3's default: batch 32, two layers of 64, Adam.
OPTIONS = dict(buffer_size=CAPACITY, learning_starts=CAPACITY, train_freq=1, seed=1, device="cpu")

CONTESTANTS = {
    "DQN, its uniform replay": lambda: DQN("MlpPolicy", ENV, **OPTIONS),
    "ours, Uniform": lambda: SiblingDQN("MlpPolicy", ENV, strategy=Uniform(), **OPTIONS),
    "ours, PER": lambda: SiblingDQN("MlpPolicy", ENV, strategy=Prioritized(), **OPTIONS),
    "ours, SAMPLE": lambda: SiblingDQN("MlpPolicy", ENV, strategy=SiblingSample(), **OPTIONS),
    "ours, MODEL": lambda: SiblingDQN("MlpPolicy", ENV, strategy=SiblingModel(), **OPTIONS),
    "ours, AVG": lambda: SiblingDQN("MlpPolicy", ENV, strategy=SiblingAverage(), **OPTIONS),
}


def main() -> None:
    torch.set_num_threads(1)
    out = output_file()
    figures = race({name: learning(make(), CAPACITY, STEPS) for name, make in CONTESTANTS.items()})
    write(
        out,
        "Stable-Baselines3",
        stable_baselines3.__version__,
        figures,
        f"{ENV}, MlpPolicy, batch 32, full buffer of {CAPACITY:,}, one update an environment step; "
        "act, step, store, draw, update, refresh. It has no PER of its own.",
    )


if __name__ == "__main__":
    main()

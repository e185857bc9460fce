"""Training steps of SB3's other off-policy algorithms, stock and with our replay.

.venv-sb3/bin/python benchmarks/hosts/sb3_algorithms.py --out FILE
"""

from __future__ import annotations

from common import (  # first: it sets the threads
    Piece,
    learning,
    output_file,
    race,
    result,
    write_all,
)

# isort: split

import stable_baselines3
import torch
from sb3_contrib import QRDQN, TQC
from stable_baselines3 import DDPG, SAC, TD3

from sibling_replay import Prioritized, SiblingSample, Strategy
from sibling_replay.grouping import Auto
from sibling_replay.integrations.sb3 import SiblingDDPG, SiblingSAC, SiblingTD3
from sibling_replay.integrations.sb3_contrib import SiblingQRDQN, SiblingTQC

CAPACITY = 20_000
STEPS = 25  # a piece
# One update a step; everything else is the algorithm's default.
OPTIONS = dict(buffer_size=CAPACITY, learning_starts=CAPACITY, train_freq=1, seed=1, device="cpu")
ALGORITHMS = (
    (SAC, SiblingSAC, "Pendulum-v1"),
    (TD3, SiblingTD3, "Pendulum-v1"),
    (DDPG, SiblingDDPG, "Pendulum-v1"),
    (QRDQN, SiblingQRDQN, "CartPole-v1"),
    (TQC, SiblingTQC, "Pendulum-v1"),
)


def training(kind: type, env: str, strategy: Strategy | None = None, **options: object) -> Piece:
    if strategy is not None:
        options["strategy"] = strategy
    return learning(kind("MlpPolicy", env, **OPTIONS, **options), CAPACITY, STEPS)


def main() -> None:
    torch.set_num_threads(1)
    out = output_file()
    results = []
    for stock, sibling, env in ALGORITHMS:
        name = stock.__name__
        contestants = {
            f"{name}, its uniform replay": training(stock, env),
            "ours, PER": training(sibling, env, Prioritized()),
            "ours, SAMPLE by Auto": training(sibling, env, SiblingSample(), key=Auto()),
        }
        note = (
            f"{env}, MlpPolicy, full buffer of {CAPACITY:,}, one update an environment step, "
            f"{name}'s defaults otherwise."
        )
        version = stable_baselines3.__version__
        results.append(result(f"Stable-Baselines3, {name}", version, race(contestants), note))
        write_all(out, results)


if __name__ == "__main__":
    main()

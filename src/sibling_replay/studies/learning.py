"""Does the compiled learner learn, and how soon, beside the same algorithm in SB3? Declared before
it was run.

Environments: CartPole-v1, Acrobot-v1 and LunarLander-v3, with the settings that rl-zoo3 publishes
for SB3's DQN there, for both learners alike: Double DQN, Huber's loss. Learners: SB3 (`SiblingDQN`
with uniform replay, which is SB3's DQN bit for bit but for double Q), `DQN` with uniform replay,
and `DQN` with SAMPLE by `Auto`. Seeds: 400-409, used nowhere before. Evaluation: ten greedy
episodes.

A run has learnt an environment at its first evaluation with a mean return of at least 475 on
CartPole, -100 on Acrobot, 200 on LunarLander (Gymnasium's own thresholds). The table has the share
of seeds that did, and the median steps and CPU seconds (evaluations apart) of those. Nothing is
tested: the question is whether it learns, not which is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.artefacts.summaries import series
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run, select, spelt
from sibling_replay.studies.gym_job import GymJob
from sibling_replay.studies.keys.declared import with_annealing
from sibling_replay.studies.study import Choice, Study, chosen_run
from sibling_replay.studies.tabular import RunNeeds
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.replay_measures import CPU_SECONDS

NAME = "learning"
SEEDS = range(400, 410)
THRESHOLDS = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "LunarLander-v3": 200.0}
_ZOO: dict[str, Any] = {
    "loss": "huber",
    "gamma": 0.99,
    "hidden_layers": "256-256",
    "timed": True,
}
_LONGER: dict[str, Any] = {  # of Acrobot and LunarLander
    **_ZOO,
    "steps": 100_000,
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "capacity": 50_000,
    "learning_starts": 0,
    "target_interval": 250,
    "train_every": 4,
    "updates_a_round": 4,
    "epsilon_decay_steps": 12_000,
    "epsilon_end": 0.1,
    "eval_every_steps": 2_500,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        **_ZOO,
        "steps": 50_000,
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "capacity": 100_000,
        "learning_starts": 1_000,
        "target_interval": 10,
        "train_every": 256,
        "updates_a_round": 128,
        "epsilon_decay_steps": 8_000,
        "epsilon_end": 0.04,
        "eval_every_steps": 1_000,
    },
    "Acrobot-v1": _LONGER,
    "LunarLander-v3": _LONGER,
}


@dataclass(frozen=True)
class Contestant:
    """A learner with a way to replay."""

    words: str
    learner: str
    method: str
    key: str = ""


CONTESTANTS = (
    Contestant("SB3, uniform", "sb3", "DDQN"),
    Contestant("DQN, uniform", "compiled", "DDQN"),
    Contestant("DQN, SAMPLE by auto", "compiled", "SAMPLE", "auto"),
)


def declared_runs(choice: Choice) -> tuple[Run, ...]:
    """Those chosen, a seed of all before the next."""
    named = tuple(spelt("environment", env, SETTINGS, " in this study") for env in choice.envs)
    choice = with_annealing(choice)
    found: dict[str, Run] = {}
    for env in named or SETTINGS:
        for seed in choice.seeds or SEEDS:
            for each in CONTESTANTS:
                settings = {**SETTINGS[env], "beta_updates": SETTINGS[env]["steps"]}
                usual = GymConfig(
                    env=env, method=each.method, seed=seed, learner=each.learner, key=each.key,
                    **settings,
                )  # fmt: skip
                run = chosen_run(NAME, usual, choice, each.learner)
                found[run.id] = run
    return select(found.values(), methods=choice.methods)


class LearningStudy(Study):
    """90 runs."""

    name = NAME
    about = (
        "whether and how soon DQN learns CartPole, Acrobot and LunarLander beside SB3: 90 runs, "
        "some 5 core-hours (needs the extra sb3, and box2d)"
    )

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return declared_runs(choice)

    def job(self, choice: Choice) -> JobFunction:
        return GymJob()


def learnt_at(row: dict[str, Any]) -> tuple[int, float] | None:
    """Step and CPU seconds of the first evaluation that reached the threshold, if one did."""
    reached = np.asarray(row["eval_return"]) >= THRESHOLDS[row["env"]]
    if not reached.any():
        return None
    first = int(reached.argmax())
    return int(row["eval_step"][first]), float(series(row, CPU_SECONDS)[first])


def rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """A cell of the table each."""
    found = []
    for env in SETTINGS:
        for each in CONTESTANTS:
            same = (pl.col("learner") == each.learner) & (pl.col("method") == each.method)
            runs = frame.filter(same & (pl.col("env") == env)).sort("seed").to_dicts()
            if not runs:
                continue
            reached = [at for at in map(learnt_at, runs) if at is not None]
            last = sum(run["eval_return"][-1] >= THRESHOLDS[env] for run in runs)
            cells = {
                "reached": f"{len(reached)} of {len(runs)}",
                "steps to it": _median([step for step, _ in reached], 0),
                "CPU seconds to it": _median([seconds for _, seconds in reached], 1),
                "there at the end": f"{last} of {len(runs)}",
                "CPU seconds a run": _median([series(r, CPU_SECONDS)[-1] for r in runs], 1),
                "last return": _median([r["eval_return"][-1] for r in runs], 1),
            }
            keys = {"env": env, "learner": each.words, "paper": ""}
            found += [keys | {"metric": name, "ours": text} for name, text in cells.items()]
    return found


def _median(values: list[float], decimals: int) -> str:
    return number(float(np.median(values)), decimals) if values else ""


def _table(frames: Frames) -> tuple[Table, Count]:
    return texts(rows(frames[NAME]), Shape(rows=("learner",), block="env")), Count()


LearningStudy.sections = (
    Section(
        NAME,
        "Networks that learn: DQN beside SB3",
        "Double DQN on three classic tasks with rl-zoo3's published settings, compiled and in SB3.",
        (
            TableEntry(
                "learning-results",
                "Not in the paper",
                "How soon they learn",
                "Reached: at one evaluation (ten greedy episodes) or more the mean return was at "
                "Gymnasium's own threshold; the first of them counts. There at the end: at the "
                "last one, too. Medians over seeds 400-409; CPU seconds without evaluations.",
                RunNeeds(NAME),
                _table,
            ),
        ),
    ),
)
STUDIES = (LearningStudy(),)

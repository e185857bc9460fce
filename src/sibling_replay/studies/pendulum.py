"""Does the correction help in continuous control? Declared before it was run.

Environment: Pendulum-v1, clean and with a mean-preserving tail (p = 0.02, M = 40) on every reward.
M is 40 because clean rewards go down to -16.3: so no clean reward passes for a rare one. Learners:
SB3's SAC and TD3 as `SiblingSAC` and `SiblingTD3`, with rl-zoo3's learning rates, discounts and
noise, networks of 256-256, 10,000 steps, learning from step 1,000 on. Replay: uniform, PER
(alpha = 0.6, beta from 0.4 to 1), SAMPLE with `Auto` over observations and actions. Seeds: 600-604,
used nowhere before. Scores: area under the curve of the mean return of ten greedy episodes in the
clean environment every 500 steps.

Hypotheses, of each algorithm by itself:

    H1  Under the tail, SAMPLE with Auto is above PER: the 95 % paired t interval of the difference
        in AUC, over the five seeds, lies above zero.
    H2  SAMPLE with Auto replays the rare outcome at most 1.2 times as often as it is stored: R,
        averaged over the evaluations of the second half of a run, then over seeds.
    H3  On clean rewards the mean AUC of SAMPLE with Auto is no more than a tenth of PER's below it.

Differences of uniform replay from PER are in the table, and not tested.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sibling_replay.artefacts.entries import FigureEntry, Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, texts
from sibling_replay.artefacts.panels import Curve, Figure, LinePanel
from sibling_replay.artefacts.seeds import mean_curve
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run, select, spelt
from sibling_replay.studies.keys import tables
from sibling_replay.studies.keys.declared import AUTO, PER, UNIFORM, Replay, with_annealing
from sibling_replay.studies.keys.study import SB3Job
from sibling_replay.studies.study import Choice, Study, chosen_run
from sibling_replay.studies.tabular import RunNeeds
from sibling_replay.training.control_config import ControlConfig

NAME = "pendulum"
ENV = "Pendulum-v1"
SEEDS = range(600, 605)
REPLAYS = {"mp-tail": (UNIFORM, PER, AUTO), "clean": (UNIFORM, PER, AUTO)}
_SHARED: dict[str, Any] = {
    "steps": 10_000,
    "beta_updates": 10_000,
    "learning_rate": 1e-3,
    "capacity": 20_000,
    "eval_every_steps": 500,
    "tail_magnitude": 40.0,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "SAC": {**_SHARED, "gamma": 0.99},
    "TD3": {**_SHARED, "gamma": 0.98, "action_noise": 0.1},
}


def declared_runs(choice: Choice) -> tuple[Run, ...]:
    """Those chosen, a seed of all before the next."""
    for env in choice.envs:
        spelt("environment", env, (ENV,), " in this study")
    choice = with_annealing(choice)
    found: dict[str, Run] = {}
    for seed in choice.seeds or SEEDS:
        for algorithm, settings in SETTINGS.items():
            for condition in choice.options.get("condition") or REPLAYS:
                for replay in REPLAYS[condition]:
                    usual = ControlConfig(
                        env=ENV, method=replay.method, key=replay.key, seed=seed,
                        condition=condition, algorithm=algorithm, **settings,
                    )  # fmt: skip
                    run = chosen_run(NAME, usual, choice, algorithm, condition)
                    found[run.id] = run
    return select(found.values(), methods=choice.methods)


class PendulumStudy(Study):
    """60 runs of two minutes, in SB3."""

    name = NAME
    about = (
        "uniform, PER and SAMPLE in continuous control: 60 runs of SB3's SAC and TD3 on Pendulum, "
        "some 2 core-hours (needs the extra sb3)"
    )
    options = frozenset({"condition"})

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return declared_runs(choice)

    def job(self, choice: Choice) -> JobFunction:
        return SB3Job()


def _table(frames: Frames) -> tuple[Table, Count]:
    rows = tables.rows(frames[NAME], "algorithm", SETTINGS, REPLAYS)
    return texts(rows, Shape(rows=("condition", "replay"), block="algorithm")), Count()


def _verdict_table(frames: Frames) -> tuple[Table, Count]:
    rows = tables.verdicts(frames[NAME], "algorithm", SETTINGS, SEEDS)
    return texts(rows, Shape(rows=("hypothesis",), block="algorithm")), Count()


def curves(frame: pl.DataFrame) -> Figure | None:
    """Returns along training, an algorithm a row and a condition a column."""
    panels = []
    for algorithm in SETTINGS:
        for condition, replays in REPLAYS.items():
            cell = frame.filter(algorithm=algorithm, condition=condition)
            drawn = [
                _curve(runs, replay)
                for replay in replays
                if (runs := tables.of_replay(cell, replay)).height
            ]
            if drawn:
                title = f"{algorithm}, {condition}"
                panels.append(LinePanel(title, "environment steps", "return", tuple(drawn)))
    return Figure(tuple(panels), 2, "Mean ± standard error over seeds.") if panels else None


def _curve(runs: pl.DataFrame, replay: Replay) -> Curve:
    """All runs are evaluated at the same steps."""
    returns = [each.to_numpy() for each in runs["eval_return"]]
    return mean_curve(replay.method, replay.words, runs["eval_step"][0].to_list(), returns)


_NEEDS = RunNeeds(NAME)
PendulumStudy.sections = (
    Section(
        NAME,
        "Continuous control",
        "SB3's SAC and TD3 on Pendulum with groups over observations and real actions, declared "
        "before it was run.",
        (
            FigureEntry(
                "pendulum-curves",
                "Not in the paper",
                "Returns on Pendulum along training",
                "Ten greedy episodes of the clean environment every 500 steps, whatever the "
                "rewards that were trained on.",
                _NEEDS,
                curves,
            ),
            TableEntry(
                "pendulum-results",
                "Not in the paper",
                "Uniform, PER and SAMPLE by Auto on Pendulum",
                "Mean ± standard error over seeds 600-604; differences in AUC with 95 % paired "
                "t intervals; R: how often the rare outcome is replayed over how often it is "
                "stored, in the second half of a run.",
                _NEEDS,
                _table,
            ),
            TableEntry(
                "pendulum-verdicts",
                "Not in the paper",
                "The hypotheses of Pendulum, as declared",
                "Each algorithm by itself, once all five seeds are there.",
                _NEEDS,
                _verdict_table,
            ),
        ),
    ),
)
STUDIES = (PendulumStudy(),)

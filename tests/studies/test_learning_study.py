"""The study of how soon networks learn: its runs, what its table says of known rows, and runs."""

from __future__ import annotations

import numpy as np
import polars as pl

from sibling_replay.running import store
from sibling_replay.studies import study_named
from sibling_replay.studies.learning import learnt_at, rows
from sibling_replay.studies.study import Choice
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.gym_run import train_gym
from sibling_replay.training.results import RunResult

STUDY = study_named("learning")


def test_its_runs_are_those_declared() -> None:
    runs = STUDY.runs(Choice())
    assert len({run.id for run in runs}) == len(runs) == 90
    assert {run.config.seed for run in runs} == set(range(400, 410))
    assert {run.id for run in runs if run.config.seed == 400 and "Lunar" in run.id} == {
        "learning/LunarLander-v3/DDQN/sb3/seed=400",
        "learning/LunarLander-v3/DDQN/compiled/seed=400",
        "learning/LunarLander-v3/SAMPLE/compiled/seed=400",
    }


def test_the_table_has_the_first_evaluation_at_the_threshold() -> None:
    """SB3 learns in even seeds alone, at step 20,000; DQN in every seed, at 10,000."""
    found = []
    for run in STUDY.runs(Choice(envs=("CartPole-v1",))):
        config = run.config
        assert isinstance(config, GymConfig)
        at = 20_000 if config.learner == "sb3" else 10_000
        learns = config.learner != "sb3" or config.seed % 2 == 0
        step = np.array([10_000, 20_000, 50_000])
        score = np.where((step >= at) & learns, 475.0, 474.9)
        zeros = np.zeros(3)
        measured = {"step": step, "cpu_seconds": step / 4_000}
        result = RunResult(config, step, step, score, zeros, 1, 1, measured)
        found.append(store.to_row(run, result))
    cells = {(each["learner"], each["metric"]): each["ours"] for each in rows(pl.concat(found))}
    assert cells["SB3, uniform", "reached"] == "5 of 10"
    assert cells["SB3, uniform", "steps to it"] == "20000"
    assert cells["SB3, uniform", "CPU seconds to it"] == "5.0"
    assert cells["DQN, SAMPLE by auto", "reached"] == "10 of 10"
    assert cells["DQN, SAMPLE by auto", "CPU seconds to it"] == "2.5"


def test_a_run_that_is_timed_says_how_long_it_trained() -> None:
    run = STUDY.runs(
        Choice(settings={"steps": 700, "eval_every_steps": 300, "learning_starts": 300}, seeds=(3,))
    )[1]
    assert isinstance(run.config, GymConfig) and run.config.learner == "compiled"
    result = train_gym(run.config)
    seconds = result.diagnostics["cpu_seconds"]
    assert result.eval_step.tolist() == [300, 600, 700]
    assert (np.diff(seconds) > 0).all() and seconds[0] > 0
    assert learnt_at(store.to_row(run, result).to_dicts()[0]) is None

"""The study of key maps: its runs and their names, and what its tables say of known rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from sibling_replay.running import store
from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.keys import tables
from sibling_replay.studies.study import Choice
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.results import RunResult

STUDY = study_named("keys")
Score = Callable[[GymConfig], float]


def row(run: Run, score: Score, ratio: Score) -> pl.DataFrame:
    """A run whose curve is flat at a score, and whose tail is replayed at a ratio late on."""
    config = run.config
    assert isinstance(config, GymConfig)
    step = np.array([0, config.steps // 2, config.steps])
    value = np.full(3, score(config))
    diagnostics = {
        "step": step.astype(float),
        "tail_ratio": np.array([99.0, 99.0, ratio(config)]),
        "groups_per_entry": np.full(3, 0.015),
        "largest_mass": np.zeros(3),
    }
    return store.to_row(
        run, RunResult(config, step, step, value, value * np.nan, 1, 1, diagnostics)
    )


def frame(score: Score, ratio: Score) -> pl.DataFrame:
    return pl.concat([row(run, score, ratio) for run in STUDY.runs(Choice())])


def test_its_runs_are_those_declared() -> None:
    runs = STUDY.runs(Choice())
    assert len({run.id for run in runs}) == len(runs) == 200
    assert {run.config.seed for run in runs} == set(range(100, 110))
    assert {run.config.env for run in runs} == {"CartPole-v1", "Acrobot-v1"}
    assert all(run.config.steps == run.config.beta_updates == 25_000 for run in runs)
    first = [run.id for run in runs[:3]]
    assert first == [
        "keys/CartPole-v1/DDQN/mp-tail/seed=100",
        "keys/CartPole-v1/PER/mp-tail/seed=100",
        "keys/CartPole-v1/SAMPLE/mp-tail/key=auto/initial=largest/seed=100",
    ]


def test_a_map_of_ones_own_takes_the_place_of_the_studys() -> None:
    chosen = Choice(settings={"key": "simhash:8", "steps": 500}, methods=("SAMPLE",), seeds=(3,))
    ids = {run.id.split("/", 4)[4] for run in STUDY.runs(chosen)}
    assert ids == {
        f"key=simhash:8/initial={start}/beta_updates=500/steps=500/seed=3"
        for start in ("largest", "recent", "median")
    }
    assert not set(ids) & {run.id.split("/", 4)[-1] for run in STUDY.runs(Choice())}


def test_tables_say_what_the_rows_hold() -> None:
    """SAMPLE by Auto is 10 above PER in every seed, but for noise of the seed that both share."""
    gain = {"DDQN": 5.0, "PER": 0.0, "SAMPLE": 10.0}
    found = frame(
        lambda config: 100.0 + config.seed + gain[config.method] + 0.5 * (config.seed % 2),
        lambda config: 8.0 if config.method == "PER" else 1.1,
    )
    cells: dict[tuple[str, ...], dict[str, str]] = {
        (each["env"], each["condition"], each["replay"]): {} for each in tables.rows(found)
    }
    for each in tables.rows(found):
        place = (each["env"], each["condition"], each["replay"])
        cells[place][each["metric"]] = each["ours"]
    auto = cells["CartPole-v1", "mp-tail", "SAMPLE, auto"]
    assert auto["minus, paired"] == "+10.0 [+10.0, +10.0] (PER)"
    assert auto["R of the tail"] == "1.10 ± 0.00"
    assert auto["G/N at the end"] == "0.0150 ± 0.0000"
    per = cells["Acrobot-v1", "clean", "PER"]
    assert per["seeds"] == "10" and "R of the tail" not in per
    said = [each["ours"] for each in tables.verdicts(found)]
    assert said[:4] == ["yes", "+10.0 [+10.0, +10.0]", "yes", "1.10"]


@pytest.mark.parametrize(
    ("gain", "ratio", "clean", "answers"),
    [
        (0.0, 1.1, 0.0, ["no", "yes", "yes"]),  # no difference is no success
        (10.0, 1.3, 0.0, ["yes", "no", "yes"]),
        (10.0, 1.1, -30.0, ["yes", "yes", "no"]),
    ],
)
def test_hypotheses_can_fail(gain: float, ratio: float, clean: float, answers: list[str]) -> None:
    def score(config: GymConfig) -> float:
        if config.method != "SAMPLE":
            return -100.0
        return -100.0 + (gain if config.condition == "mp-tail" else clean)

    found = tables.verdicts(frame(score, lambda config: ratio))
    assert [each["ours"] for each in found if each["metric"] == "answer"] == answers * 2


def test_nothing_is_said_before_all_seeds_are_there() -> None:
    whole = frame(lambda config: 1.0, lambda config: 1.0)
    last = (pl.col("seed") == 109) & (pl.col("method") == "PER") & (pl.col("env") == "Acrobot-v1")
    assert {each["env"] for each in tables.verdicts(whole.filter(~last))} == {"CartPole-v1"}

"""The study of continuous control: its runs, its settings, and what its tables say of known
rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from sibling_replay.running import store
from sibling_replay.studies import pendulum, study_named
from sibling_replay.studies.keys import tables
from sibling_replay.studies.study import Choice
from sibling_replay.training.control_config import ControlConfig
from sibling_replay.training.results import RunResult

STUDY = study_named("pendulum")


def test_its_runs_are_those_declared() -> None:
    runs = STUDY.runs(Choice())
    assert len({run.id for run in runs}) == len(runs) == 2 * 2 * 3 * 5
    assert {run.config.seed for run in runs} == set(range(600, 605))
    assert all(run.config.steps == run.config.beta_updates == 10_000 for run in runs)
    assert [run.id for run in runs[:3]] == [
        f"pendulum/Pendulum-v1/{method}/SAC/mp-tail/seed=600"
        for method in ("DDQN", "PER", "SAMPLE")
    ]
    keys = {(run.config.method, run.config.key) for run in runs}
    assert keys == {("DDQN", ""), ("PER", ""), ("SAMPLE", "auto")}
    noise = {(run.config.algorithm, run.config.action_noise) for run in runs}
    assert noise == {("SAC", 0.0), ("TD3", 0.1)}


def test_no_clean_reward_passes_for_a_rare_one() -> None:
    worst = -(np.pi**2 + 0.1 * 8**2 + 0.001 * 2**2)  # of Pendulum
    config = STUDY.runs(Choice())[0].config
    kept = config.tail_probability * config.tail_magnitude / (1 - config.tail_probability)
    assert worst > -0.5 * config.tail_magnitude  # below which `replay_measures` calls it rare
    assert kept - config.tail_magnitude < -0.5 * config.tail_magnitude


def test_tables_say_what_the_rows_hold() -> None:
    """SAMPLE is 10 above PER with SAC, and 10 below it with TD3."""
    found = []
    for run in STUDY.runs(Choice()):
        config = run.config
        assert isinstance(config, ControlConfig)
        gain = 10.0 if config.algorithm == "SAC" else -10.0
        score = -200.0 - config.seed + (gain if config.method == "SAMPLE" else 0.0)
        step = np.array([0, 5_000, 10_000])
        diagnostics: dict[str, Any] = {
            "step": step.astype(float),
            "tail_ratio": np.full(3, 4.0 if config.method == "PER" else 1.0),
            "groups_per_entry": np.full(3, 0.02),
            "largest_mass": np.zeros(3),
        }
        value = np.full(3, score)
        result = RunResult(config, step, step, value, value * np.nan, 1, 1, diagnostics)
        found.append(store.to_row(run, result))
    frame = pl.concat(found)
    said = tables.verdicts(frame, "algorithm", pendulum.SETTINGS, pendulum.SEEDS)
    answers = {(each["algorithm"], each["hypothesis"][:2]): each["ours"]
               for each in said if each["metric"] == "answer"}  # fmt: skip
    assert answers == {
        ("SAC", "H1"): "yes", ("SAC", "H2"): "yes", ("SAC", "H3"): "yes",
        ("TD3", "H1"): "no", ("TD3", "H2"): "yes", ("TD3", "H3"): "yes",
    }  # fmt: skip
    figure = pendulum.curves(frame)
    assert figure is not None and len(figure.panels) == 4
    per = figure.panels[0].curves[1]  # type: ignore[union-attr]
    assert (per.label, per.x, per.y[0]) == ("PER", (0.0, 5_000.0, 10_000.0), -802.0)
    assert pendulum.curves(frame.head(0)) is None
    cells = tables.rows(frame, "algorithm", pendulum.SETTINGS, pendulum.REPLAYS)
    minus = {each["algorithm"]: each["ours"] for each in cells
             if each["metric"] == "minus, paired" and each["replay"] == "SAMPLE, auto"}  # fmt: skip
    gap = "10.0 [{0}10.0, {0}10.0] (PER)"
    assert minus == {
        "SAC": "+" + gap.format("+"),
        "TD3": "\N{MINUS SIGN}" + gap.format("\N{MINUS SIGN}"),
    }
    without = frame.filter((pl.col("seed") != 604) | (pl.col("algorithm") != "TD3"))
    said = tables.verdicts(without, "algorithm", pendulum.SETTINGS, pendulum.SEEDS)
    assert {each["algorithm"] for each in said} == {"SAC"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"algorithm": "PPO"}, "algorithm must be one of SAC, TD3, got 'PPO'"),
        ({"learner": "torch"}, "learner must be sb3"),
        ({"action_noise": 0.1}, "action_noise must be from 0 to 1, and 0 for SAC"),
        ({"algorithm": "TD3", "action_noise": 1.5}, "action_noise must be from 0 to 1"),
        ({"epsilon_end": 0.2}, "epsilon_end must be left alone: SAC has no such setting"),
        ({"target_interval": 5}, "target_interval must be left alone"),
        ({"loss": "huber"}, "loss must be left alone"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ControlConfig(env="Pendulum-v1", method="PER", seed=0, steps=100, **settings)


def test_other_environments_are_refused() -> None:
    with pytest.raises(ValueError, match="CartPole"):
        STUDY.runs(Choice(envs=("CartPole-v1",)))

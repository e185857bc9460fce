"""`sibling-replay train` as a user meets it: environments and strategies of their own."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from sibling_replay.running import store
from support.command import run
from support.own_strategy import STRATEGY

ENVIRONMENT = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

gym.register("Heavy-v0", entry_point=lambda: CartPoleEnv(), max_episode_steps=50)
"""


def test_environments_and_strategies_of_ones_own_by_module(tmp_path, capsys, monkeypatch):
    """Both are imported by the command and by the worker that trains."""
    (tmp_path / "own_replay.py").write_text(STRATEGY)
    (tmp_path / "own_envs.py").write_text(ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    some = ("--env", "own_envs:Heavy-v0", "--strategy", "own_replay:Newest", "--steps", "1500")
    assert run("train", *some, "--hidden", "8-8", "--runs", "runs") == 0
    said = capsys.readouterr().out
    assert "1 done, 0 already there, 0 failed" in said and "return" in said
    (row,) = store.each_run(tmp_path / "runs", ["train"])
    assert row["method"][0] == "own_replay:Newest" and row["env"][0] == "own_envs:Heavy-v0"
    assert row["updates"][0] == 501 and row["final_return"][0] > 5.0
    assert run("table", "train", "--runs", "runs") == 0
    assert "steps=1500, hidden_layers=8-8" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("FrozenLake-v1", "--steps", "4999"),
            "4,999 steps end before the first update, which follow",
        ),
        (
            ("CartPole-v1", "--steps", "1100", "--learning-starts", "1101"),
            "1,100 steps end before the",
        ),
        (
            ("CartPole-v1", "--steps", "1500", "--capacity", "500", "--learning-starts", "2000"),
            "1,500 steps end before the",
        ),
        (("TwoChains", "--steps", "900", "--capacity", "500"), "900 steps end before the first"),
    ],
)
def test_a_run_that_would_learn_nothing_is_refused(arguments, message, tmp_path, capsys):
    assert run("train", "--method", "PER", "--env", *arguments, "--runs", str(tmp_path)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_misspelt_environment_is_guessed(tmp_path, capsys):
    assert run("train", "--method", "PER", "--env", "PortalBrige", "--runs", str(tmp_path)) == 2
    assert "(did you mean PortalBridge" in capsys.readouterr().err


def test_schedules_longer_than_a_run_are_told(tmp_path, capsys):
    out = ("--runs", str(tmp_path))
    assert run("train", "--env", "TwoChains", "--method", "PER", "--steps", "1200", *out) == 0
    said = capsys.readouterr().out
    assert "epsilon_decay_steps is 50,000, past the last step of this run" in said
    assert "beta_updates is 100,000, past the last update of this run" in said
    two = ("--updates-a-step", "2", "--beta-updates", "2400", "--epsilon-decay-steps", "1200")
    some = ("--env", "TwoChains", "--method", "PER", "--steps", "1200", *out)
    assert run("train", *some, *two) == 0
    assert "cut off" not in capsys.readouterr().out
    few = ("--steps", "1200", "--set", "train_every=4", "--hidden", "8", *out)
    for method, told in (("PER", True), ("LAP", False)):  # LAP's batches have no weights
        own = ("train", "--env", "CartPole-v1", "--method", method, *few)
        assert run(*own) == 0
        assert "cut off" not in capsys.readouterr().out  # beta follows the updates there are
        assert run(*own, "--beta-updates", "1200") == 0
        assert ("beta_updates is 1,200, past the last update" in capsys.readouterr().out) is told
    assert run("train", "--env", "CartPole-v1", "--method", "DDQN", *few) == 0
    assert "cut off" not in capsys.readouterr().out, "it has no weights"


def test_a_single_evaluation_has_no_area(tmp_path, capsys):
    some = ("--method", "DDQN", "--steps", "1200", "--hidden", "8", "--set")
    out = ("--runs", str(tmp_path))
    assert run("train", "--env", "CartPole-v1", *some, "eval_every_steps=1200", *out) == 0
    assert "(auc) needs two evaluations" in capsys.readouterr().out


def test_signals_that_no_trainer_gives_are_refused_at_once(tmp_path, capsys):
    for env in ("TwoChains", "CartPole-v1"):
        assert run("train", "--env", env, "--method", "UPER", "--runs", str(tmp_path)) == 2
        assert "UPER needs the signals epistemic, aleatoric" in capsys.readouterr().err


def test_a_strategy_has_one_name_in_ids(tmp_path, capsys):
    for names in (("siblingsample", "SAMPLE"), ("SiblingAverage", "AVG")):
        for name in names:
            some = ("--env", "OutlierBandit", "--method", name, "--steps", "800")
            assert run("train", *some, "--runs", str(tmp_path)) == 0
        assert "0 done, 1 already there" in capsys.readouterr().out, names


def test_the_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith(
        f"sibling-replay {version('sibling-replay')}, Python 3"
    )


def test_runs_with_and_without_a_table_stand_in_one_list(tmp_path, capsys):
    """Once a column had two types in them, and no command read both."""
    out = ("--runs", str(tmp_path))
    assert run("train", "--env", "TwoChains", "--method", "PER", "--steps", "1200", *out) == 0
    assert run("train", "--env", "CartPole-v1", "--method", "PER", "--steps", "1200", *out) == 0
    capsys.readouterr()
    assert run("table", "train", *out) == 0
    said = capsys.readouterr().out
    assert "TwoChains" in said and "CartPole-v1" in said
    assert run("collect", "train", *out, "--results", str(tmp_path / "results")) == 0
    assert store.load_file(tmp_path / "results" / "train.parquet").height == 2

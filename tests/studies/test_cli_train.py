"""`sibling-replay train` as a user meets it: environments and strategies of their own."""

from __future__ import annotations

from sibling_replay.running import store
from support.command import run

STRATEGY = """
from dataclasses import dataclass

import numpy as np

from sibling_replay import Draw, Law, Needs, Strategy


@dataclass(frozen=True, kw_only=True)
class Newest(Strategy):
    \"\"\"The newest half, uniformly.\"\"\"

    name = "newest"
    needs = Needs()

    def draw(self, view, size, stream, beta):
        place = (stream.take(size) * view.size).astype(np.int64)
        return Draw(slots=view.slots[place])

    def refresh(self, view, draw, td_errors, signals):
        return None

    def law(self, view, size):
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)
"""
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

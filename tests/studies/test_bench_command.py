"""`sibling-replay bench`: what it runs, says, refuses, and what its table holds."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sibling_replay.running import store
from sibling_replay.studies.rivals.declared import BY_NAME
from sibling_replay.studies.rivals.shortlist import bench_rows, bench_run
from sibling_replay.training.config import TabularConfig
from sibling_replay.training.gym_config import GymConfig
from support.command import run
from support.own_strategy import STRATEGY


def bench(*arguments: str) -> int:
    return run("bench", *arguments)


def test_it_runs_says_how_long_and_goes_on(tmp_path: Path, capsys) -> None:
    shared = ("--env", "Chain", "--steps", "4500", "--method", "DDQN", "CV", "--yes")
    assert bench(*shared, "--seeds", "2", "--runs", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert re.search(r"4 runs of 4,500 steps on Chain: some .*, by \d+ us a step of DDQN", said)
    assert "4 done, 0 already there, 0 failed" in said
    assert bench(*shared, "--seeds", "3", "--runs", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "2 runs of 4,500 steps" in said and "2 done, 4 already there" in said
    for word in ("minus DDQN", "beats DDQN", "shown", "control variate"):
        assert word in re.sub(r"\s+", " ", said), word
    assert run("status", "bench", "--runs", tmp_path) == 0
    said = capsys.readouterr().out
    assert "bench: 6 runs of your own" in said and "seed 0, 1, 2" in said
    assert run("table", "bench", "--runs", tmp_path) == 0
    assert "Chain" in capsys.readouterr().out
    assert run("reproduce", "bench", "--runs", tmp_path) == 2
    assert "made by `sibling-replay bench`" in capsys.readouterr().err


def test_a_strategy_of_ones_own_beside_the_built_in_ones(tmp_path, capsys, monkeypatch) -> None:
    """Where there is a table, whose trainer takes built-in ones, all are trained by DQN then."""
    (tmp_path / "own_bench.py").write_text(STRATEGY.replace('"newest"', '"newest of the bench"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    shared = ("--env", "FrozenLake-v1", "--steps", "2000", "--seeds", "2", "--yes")
    assert bench(*shared, "--method", "DDQN", "own_bench:Newest", "--runs", "runs") == 0
    said = capsys.readouterr().out
    assert "4 done, 0 already there, 0 failed" in said and "your own" in said
    kinds = {row["kind"][0] for row in store.each_run(tmp_path / "runs", ["bench"])}
    assert kinds == {GymConfig.kind}
    # changed code is other code: its runs are not those that are stored
    assert bench(*shared, "--method", "DDQN", "own_bench:Newest", "--runs", "runs") == 0
    assert "0 done, 4 already there, 0 failed" in capsys.readouterr().out
    changed = STRATEGY.replace('"newest"', '"newest of the bench"') + "\n# changed\n"
    (tmp_path / "own_bench.py").write_text(changed)
    del sys.modules["own_bench"]
    linecache.checkcache()
    assert bench(*shared, "--method", "DDQN", "own_bench:Newest", "--runs", "runs") == 0
    assert "2 done, 2 already there, 0 failed" in capsys.readouterr().out


def test_with_and_without_a_table_in_one_directory(tmp_path, capsys, monkeypatch) -> None:
    """The shortlist first, by its table, then one's own beside it, on an environment of ours that
    Gymnasium knows by another name."""
    (tmp_path / "own_beside.py").write_text(STRATEGY.replace('"newest"', '"newest beside"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    shared = ("--env", "TwoChains", "--steps", "2000", "--seeds", "2", "--yes", "--runs", "runs")
    for method in ("PER", "own_beside:Newest"):
        assert bench(*shared, "--method", "DDQN", method) == 0
        assert "4 done, 0 already there, 0 failed" in capsys.readouterr().out
    assert bench(*shared, "--method", "DDQN", "PER") == 0
    assert "0 done, 4 already there, 0 failed" in capsys.readouterr().out


def test_runs_without_a_curve_are_no_table(tmp_path: Path, capsys) -> None:
    """They are kept; but there is nothing to compare, and no row of nan says so."""
    some = ("--env", "Chain", "--steps", "1100", "--method", "DDQN", "PER", "--seeds", "2", "--yes")
    assert bench(*some, "--runs", str(tmp_path)) == 2
    told = capsys.readouterr()
    assert "evaluated less than twice in 1,100 steps" in told.err
    assert "nan" not in told.out and "minus DDQN" not in told.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--env", "Chain", "--seeds", "1"), "--seeds must be at least 2"),
        (("--env", "Chain", "--method", "DDQN"), "at least two contenders"),
        (("--env", "Chain", "--method", "DDQN", "DDQN"), "each once"),
        (("--env", "Chain", "--method", "DDQN", "MAGIC"), "unknown method 'MAGIC'"),
        (("--env", "Chain", "--key", "grid:4"), "groups of Chain are exact"),
        (("--env", "Nowhere-v0"), "Nowhere-v0"),
        (("--env", "Chain", "--steps", "1500"), "add --yes to begin"),
        (("--env", "Chain", "--steps", "900", "--yes"), "before the first update"),
        (("--env", "CartPole-v1", "--steps", "1999", "--yes"), "too few for a curve"),
        (
            ("--env", "CartPole-v1", "--method", "DDQN", "sibling_replay:UPER"),
            "UPER needs the signals",
        ),
        (("--env", "Pendulum-v1", "--yes"), "Pendulum-v1: DQN chooses among Discrete actions"),
        (("--env", "Chain", "--method", "PER", "nowhere:Mine"), "no strategy is found"),
    ],
)
def test_wrong_use_is_told(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys
) -> None:
    assert bench(*arguments, "--runs", str(tmp_path)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.parquet")), "nothing was run"


def test_a_contender_with_and_without_a_table() -> None:
    table = bench_run("Chain", BY_NAME["AVG-uniform"], 3, True, steps=800).config
    assert isinstance(table, TabularConfig) and (table.method, table.alpha) == ("AVG", 0.0)
    assert (table.steps, table.beta_updates, table.epsilon_decay_steps) == (800, 800, 400)
    network = bench_run("CartPole-v1", BY_NAME["AVG-uniform"], 3, False, steps=800).config
    assert isinstance(network, GymConfig) and network.method == "AVG-g8"
    assert (network.key, network.alpha, network.beta_updates) == ("auto", 0.0, 800)
    plain = bench_run("CartPole-v1", BY_NAME["PER"], 3, False).config
    assert isinstance(plain, GymConfig) and plain.key == ""


def test_rows_say_what_is_shown_and_what_is_not() -> None:
    """PER is 2 below DDQN in every seed but for a little noise; CV is level with it."""
    rng = np.random.default_rng(0)
    rows = [
        {"run": f"bench/Chain/X/{name}/seed={seed}", "seed": seed,
         "auc_return": 10.0 + seed - 2.0 * (name == "PER") + 0.1 * rng.normal()}
        for seed in range(6) for name in ("DDQN", "PER", "CV")
    ]  # fmt: skip
    found = {
        row["contender"]: row
        for row in bench_rows(pl.DataFrame(rows), [BY_NAME[name] for name in ("DDQN", "PER", "CV")])
    }
    assert found["PER"]["shown"] == "below" and found["CV"]["shown"] == "not shown"
    gap = float(found["PER"]["minus DDQN"].split()[0])
    assert gap == pytest.approx(-2.0, abs=0.2) and "shown" not in found["DDQN"]


def test_two_updates_a_step_are_two_on_vectors_as_well() -> None:
    plain, twice = (
        bench_run("CartPole-v1", BY_NAME[name], 0, table=False).config
        for name in ("DDQN", "DDQN-2updates")
    )
    assert isinstance(plain, GymConfig) and isinstance(twice, GymConfig)
    assert (plain.updates_a_round, twice.updates_a_round) == (1, 2)


def test_what_cannot_be_run_is_refused_before_anything_is_timed(tmp_path: Path, capsys) -> None:
    for wrong, message in (
        (("--env", "Chain", "--workers", "0"), "--workers must be at least 1, got 0"),
        (("--env", "CliffWalking-v1"), "CliffWalking-v1 has no time limit"),
    ):
        assert bench(*wrong, "--yes", "--runs", str(tmp_path)) == 2
        assert message in re.sub(r"\s+", " ", capsys.readouterr().err)
    assert not any(tmp_path.iterdir())

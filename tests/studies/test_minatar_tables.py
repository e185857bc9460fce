"""MinAtar beside the paper's: hand-made runs, lengths kept apart, nothing averaged that differs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sibling_replay import cli
from sibling_replay.artefacts.statistics import Interval
from sibling_replay.running import metrics, store
from sibling_replay.studies.alike import check_alike
from sibling_replay.studies.minatar import tables as minatar_tables
from sibling_replay.studies.minatar.coverage import (
    CELL,
    PAPER_STEPS,
    counts,
    horizons,
    status_lines,
)
from sibling_replay.studies.minatar.job import checkpoint_name
from sibling_replay.studies.minatar.runs import PER_RATES, RATES, minatar_config, minatar_run
from sibling_replay.studies.paper import numbers as published
from sibling_replay.training.results import RunResult
from support.command import run
from support.minatar_frames import SHORT, row, scored, stack, trial


def cell(frame: pl.DataFrame, **keys: object) -> dict:
    (found,) = frame.filter(**keys).rows(named=True)
    return found


def test_published_numbers_are_all_there() -> None:
    auc = published.minatar()
    assert len(auc) == 5 * 5 + 5 * 3
    assert auc["mp-tail", "Freeway", "SAMPLE-DDQN"] == published.Published(-10.57, 0.94, 0.005)
    assert auc["clean", "Freeway", "PER"].mean == 49.80
    intervals = published.minatar_intervals()
    assert len(intervals) == 10
    assert intervals["Breakout", "SAMPLE-DDQN"] == Interval(0.85, -0.01, 1.70)


def test_auc_and_paired_differences_are_those_made_by_hand() -> None:
    compared = minatar_tables.compare_auc(scored())
    space = compared.filter(env="SpaceInvaders")
    assert space["metric"].to_list() == list(minatar_tables.COLUMNS)
    assert space["mean"].to_list() == pytest.approx([7.5, 3.0, 12.0, 9.0, 4.5])
    assert space["se"].to_list() == pytest.approx([1.5, 0.0, 3.0, 3.0, 1.5])
    assert space["paper_mean"].to_list() == [73.87, 19.62, 75.64, 56.02, 1.77]
    assert space["of"].unique().to_list() == ["2"]
    only = cell(compared, env="Breakout")  # one run: no error, no difference
    assert (only["metric"], only["mean"], only["of"]) == ("PER", pytest.approx(2.0), "1")
    assert math.isnan(only["se"])


def test_a_shorter_run_stands_beside_the_paper_and_is_not_judged() -> None:
    compared = minatar_tables.compare_auc(scored())
    assert compared["distance"].null_count() == compared.height > 0
    assert set(compared["horizon"]) == {"ours: 200,000 steps, paper: 5,000,000"}
    whole = minatar_tables.compare_auc(scored(steps=PAPER_STEPS))
    found = cell(whole, env="SpaceInvaders", metric="SAMPLE-DDQN")
    assert found["horizon"] == "5,000,000 steps, as the paper"
    assert found["distance"] == pytest.approx((4.5 - 1.77 - 0.005) / math.hypot(1.5, 1.51))


def test_lengths_are_kept_apart() -> None:
    """A seed of one length is no partner and no repetition of a seed of another."""
    long = row("SpaceInvaders", "SAMPLE", 2, 30.0, steps=PAPER_STEPS)
    both = stack(scored(), long)
    assert horizons(both) == (PAPER_STEPS, SHORT)
    check_alike(both, CELL)
    compared = minatar_tables.compare_auc(both)
    assert compared["steps"].to_list() == sorted(compared["steps"], reverse=True)
    assert cell(compared, steps=PAPER_STEPS)["mean"] == pytest.approx(30.0)
    short = compared.filter(steps=SHORT)
    assert short.equals(minatar_tables.compare_auc(scored()))


def test_differences_pair_the_seeds_that_both_have() -> None:
    frame = stack(scored(), row("SpaceInvaders", "SAMPLE", 4, 100.0))
    compared = minatar_tables.compare_auc(frame)
    found = cell(compared, env="SpaceInvaders", metric="SAMPLE-PER")
    assert (found["seeds"], found["mean"], found["of"]) == (2, pytest.approx(9.0), "2 to 3")
    mean = cell(compared, env="SpaceInvaders", metric="SAMPLE")["mean"]
    assert mean == pytest.approx((9 + 15 + 100) / 3)


def test_paired_intervals() -> None:
    found = minatar_tables.paired_differences(stack(scored(), scored("clean")))
    assert found.height == 2  # SpaceInvaders under mp-tail
    per = cell(found, metric="SAMPLE-PER")
    t = 12.706205  # of one degree of freedom, 97.5 %
    ends = (9.0, 9.0 - 3.0 * t, 9.0 + 3.0 * t)
    assert (per["mean"], per["low"], per["high"]) == pytest.approx(ends, rel=1e-6)
    assert (per["paper_mean"], per["paper_low"], per["paper_high"]) == (56.02, 53.14, 58.90)
    one = scored().filter(pl.col("seed") == 0)
    (pair,) = minatar_tables.paired_differences(one).filter(metric="SAMPLE-DDQN").rows(named=True)
    assert (pair["seeds"], pair["low"], pair["high"]) == (1, None, None)
    assert pair["mean"] == pytest.approx(3.0)


def test_the_tails_effect_pairs_the_seeds_that_both_conditions_have() -> None:
    clean = (
        row("SpaceInvaders", "PER", 0, 13.0, "clean"),
        row("SpaceInvaders", "PER", 1, 23.0, "clean"),
        row("SpaceInvaders", "SAMPLE", 1, 16.0, "clean"),
        row("SpaceInvaders", "DDQN", 4, 1.0, "clean"),  # no such seed under the tail
        row("Breakout", "PER", 0, 1.0, "clean", steps=PAPER_STEPS),  # nor this length
        row("Freeway", "PER", 0, 1.0, "clean"),
        row("Breakout", "PER", 0, 9.0, "clean", learning_rate=1e-4),  # another experiment
    )
    found = minatar_tables.tail_effect(stack(scored(), *clean))
    assert found.height == 2
    per = cell(found, env="SpaceInvaders", metric="PER")
    assert (per["seeds"], per["mean"], per["se"]) == (2, pytest.approx(-15.0), pytest.approx(5.0))
    assert per["paper_mean"] == pytest.approx(19.62 - 67.92)
    one = cell(found, metric="SAMPLE")
    assert (one["seeds"], one["mean"]) == (1, pytest.approx(-1.0)) and math.isnan(one["se"])
    assert minatar_tables.tail_effect(scored()).is_empty()


def test_runs_that_differ_in_more_than_their_seed_are_not_averaged() -> None:
    check_alike(stack(scored(), scored("clean"), row("Breakout", "PER", 1, 2.0)), CELL)
    other = row("SpaceInvaders", "SAMPLE", 2, 1.0, encoder="f" * 32)
    with pytest.raises(
        ValueError, match="mp-tail, SpaceInvaders, SAMPLE, 200000 differ in encoder"
    ):
        check_alike(stack(scored(), other), CELL)
    again = row("Breakout", "PER", 0, 1.0, learning_rate=1e-4)
    with pytest.raises(ValueError, match=r"differ in learning_rate \(3e-05, 0.0001\)"):
        check_alike(stack(scored(), again), CELL)


def test_learning_rates_used_and_selected() -> None:
    best = {rate: -abs(rate - 6e-5) for rate in PER_RATES}
    trials = [trial("Freeway", "PER", rate, best[rate]) for rate in PER_RATES]
    trials += [trial("Freeway", "DDQN", rate, rate) for rate in RATES[1:]]  # one is missing
    trials += [trial("Freeway", "SAMPLE", rate, rate) for rate in RATES]
    trials.append(trial("Freeway", "SAMPLE", RATES[0], 1.0, seed=1))  # the others have yet to come
    frame = stack(scored(), row("Breakout", "PER", 0, 2.0, "clean", learning_rate=1.5e-5))
    found = minatar_tables.rates_used(frame, stack(*trials))
    used = found.filter(kind="used")
    assert used.select("env", "method", "learning_rate", "paper").rows() == [
        ("Breakout", "PER", 1.5e-5, 3e-5),
        ("Breakout", "PER", 3e-5, 3e-5),
        ("SpaceInvaders", "DDQN", 3e-5, 3e-5),
        ("SpaceInvaders", "PER", 7.5e-6, 7.5e-6),
        ("SpaceInvaders", "SAMPLE", 3e-5, 3e-5),
    ]
    (chosen,) = found.filter(kind="selected").rows(named=True)  # not of a grid with a hole
    assert (chosen["env"], chosen["method"]) == ("Freeway", "PER")
    assert (chosen["learning_rate"], chosen["paper"], chosen["steps"]) == (6e-5, 1.875e-6, SHORT)


def test_nothing_run_gives_empty_tables() -> None:
    nothing = store.no_runs()
    assert horizons(nothing) == ()
    assert set(counts(nothing, PAPER_STEPS).values()) == {0}
    check_alike(nothing, CELL)
    for table in (
        minatar_tables.compare_auc(nothing),
        minatar_tables.paired_differences(nothing),
        minatar_tables.tail_effect(nothing),
        minatar_tables.rates_used(nothing, nothing),
    ):
        assert table.is_empty()


def stored(root, frame: pl.DataFrame):
    for one in frame.iter_slices(1):
        path = store.run_path(root, one["run"][0])
        path.parent.mkdir(parents=True, exist_ok=True)
        one.write_parquet(path)
    return root


def test_commands(tmp_path, capsys) -> None:
    out = stored(tmp_path / "runs", scored())
    checkpoint = out / "checkpoints" / "Breakout-PER-mp-tail-seed1-abc" / "checkpoint.npz"
    finished = store.config_of(store.load_runs(out).row(0, named=True))
    stale = out / "checkpoints" / checkpoint_name(finished) / "checkpoint.npz"
    for path in (checkpoint, stale):
        path.parent.mkdir(parents=True)
        path.touch()
    assert run("status", "minatar", "--runs", out) == 0
    said = capsys.readouterr().out
    assert f"minatar, 200,000 steps: 7 of 150 runs done in {out}" in said
    assert re.search(r"SpaceInvaders +SAMPLE +clean 0 / 5 +mp-tail 2 / 5", said)
    assert "minatar, 5,000,000 steps: 0 of 150 runs done" in said
    assert "unfinished, has a checkpoint: Breakout-PER-mp-tail-seed1-abc" in said
    assert said.count("has a checkpoint") == 1  # what is stored is finished

    assert run("table", "minatar", "--runs", out) == 0
    from_runs = capsys.readouterr().out
    assert re.search(r"mp-tail +│ 200,000 │ SpaceInvaders │ SAMPLE-PER +│ +2 │ +9\.000", from_runs)
    assert "56.020 ± 1.040" in from_runs and "nan" not in from_runs
    assert run("collect", "minatar", "--runs", out, "--results", tmp_path) == 0
    assert "7 runs" in capsys.readouterr().out
    assert run("table", "minatar", "--runs", tmp_path / "minatar.parquet") == 0
    assert capsys.readouterr().out == from_runs


def test_commands_with_nothing_run(tmp_path, capsys) -> None:
    assert run("status", "minatar", "--runs", tmp_path) == 0
    assert "minatar, 5,000,000 steps: 0 of 150 runs done" in capsys.readouterr().out
    assert run("status", "--runs", tmp_path) == 0
    said = capsys.readouterr().out
    assert "grid: 0 of 960" in said and "minatar, 5,000,000 steps: 0 of 150" in said
    for command in ("table", "collect"):
        assert run(command, "minatar", "--runs", tmp_path) == 1
        assert "no finished runs" in capsys.readouterr().err


def test_the_table_refuses_unlike_runs(tmp_path, capsys) -> None:
    other = row("SpaceInvaders", "SAMPLE", 0, 1.0, encoder="f" * 32)
    out = stored(tmp_path, stack(scored(), other))
    assert run("table", "minatar", "--runs", out) == 2
    assert "differ in encoder" in capsys.readouterr().err


@pytest.mark.parametrize("older", [False, True])
def test_a_run_with_one_evaluation_has_no_auc_beside_the_papers(
    tmp_path, capsys, monkeypatch, older: bool
) -> None:
    """Older versions stored 0, which was printed beside the paper's 19.17."""
    if older:
        monkeypatch.setattr(metrics, "auc", lambda step, value, horizon: 0.0)
    config = minatar_config("Breakout", "PER", "clean", 0, steps=10_000)
    once = [np.array([value]) for value in (10_000, 90, 5.0, np.nan)]
    result = RunResult(config, *once, episodes=90, updates=5_000)  # type: ignore[arg-type]
    store.save_run(tmp_path, minatar_run("minatar", config), result)
    assert older == (store.load_runs(tmp_path)["auc_return"][0] == 0.0)
    with pytest.raises(SystemExit) as end:
        cli.main(["table", "minatar", "--runs", str(tmp_path)])
    assert end.value.code == 0
    said = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "1 no AUC 19.170 ± 0.350 -" in said
    assert "no AUC: the runs were evaluated once, and one point has no area under it" in said


def test_status_counts_the_papers_runs_and_names_others(tmp_path: Path) -> None:
    """Neither another method nor a key of one's own passes for a run of the paper's."""
    own = [
        row("Breakout", "RANK", 0, 1.0),
        row("Breakout", "SAMPLE", 0, 1.0, key="grid:2", encoder=""),
    ]
    for each in (*own, row("Breakout", "PER", 0, 2.0)):
        path = store.run_path(tmp_path, each["run"][0])
        path.parent.mkdir(parents=True, exist_ok=True)
        store._write(path, each)
    lines = status_lines(tmp_path)
    assert "200,000 steps: 1 of " in lines[0]
    assert "  and 2 runs with settings of your own" in lines

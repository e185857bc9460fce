"""The command as a user meets it: exit codes, messages, help; and once the real trainer."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import study_jobs

from sibling_replay import cli
from sibling_replay.experiments import store
from sibling_replay.experiments.spec import select, study
from sibling_replay.training.config import RunConfig


def run(*arguments):
    """The exit code of the command, run in this process."""
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    return stop.value.code or 0


@pytest.fixture
def faked(monkeypatch):
    monkeypatch.setattr(cli, "_trainer", lambda: study_jobs.fake_train)


def test_reproduce_status_collect_table(tmp_path, capsys, faked):
    out = str(tmp_path / "runs")
    some = ("--env", "TwoChains", "--method", "PER", "AVG", "--seeds", "0", "1", "2")
    assert run("reproduce", "exact", *some, "--workers", "2", "--out", out) == 0
    said = capsys.readouterr().out
    assert "6 runs, 0 already done, 6 to do" in said
    assert re.search(
        r"\[6/6\] exact/TwoChains/(PER|AVG)/seed=\d  \d+ s  [\d,]+ steps/s  0 s left", said
    )
    assert "\x1b" not in said  # not a terminal: no bar, no colours
    assert run("reproduce", "exact", *some, "--out", out) == 0
    assert "0 done, 6 already there, 0 failed" in capsys.readouterr().out

    assert run("status", "exact", "--out", out) == 0
    said = capsys.readouterr().out
    assert "exact: 6 of 220 runs done" in said
    assert re.search(r"TwoChains +AVG +3 / 10", said)
    assert re.search(r"OutlierBandit +DDQN +0 / 10", said)

    results = tmp_path / "results"
    assert run("collect", "exact", "--out", out, "--results", str(results)) == 0
    assert "6 runs" in capsys.readouterr().out
    assert run("table", "exact", "--out", out) == 0
    from_runs = capsys.readouterr().out
    assert "0.840 ± 0.020" in from_runs  # the paper's PER AUC in TwoChains
    assert run("table", "exact", "--out", str(results / "exact.parquet")) == 0
    assert capsys.readouterr().out == from_runs


def test_failing_run_fails_the_command_at_the_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "_trainer", lambda: study_jobs.raising_train)
    some = ("--env", "TwoChains", "--method", "PER")
    assert run("reproduce", "testing", *some, "--workers", "1", "--out", str(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "FAILED testing/TwoChains/PER/seed=1\nTraceback" in said
    assert "ArithmeticError: seed 1 does not like you" in said
    assert said.rstrip().endswith(f"1 done, 0 already there, 1 failed: {tmp_path}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce", "exact", "--env", "TwoChain"), "choose from OutlierBandit, TwoChains"),
        (("reproduce", "exact", "--method", "SAMPEL"), "choose from DDQN, PER, SAMPLE"),
        (("reproduce", "grid", "--seeds", "10"), "unknown seed 10 in this study: choose from 0, 1"),
        (("reproduce", "everything"), "'exact', 'grid'"),
        (("reproduce", "exact", "--workers", "0"), "workers must be at least 1"),
        (("reproduce", "exact", "--address", "auto"), "needs --backend ray"),
        (("train", "--env", "TwoChain", "--method", "PER"), "choose from OutlierBandit, TwoChains"),
        (("train", "--env", "TwoChains", "--method", "PPER"), "one of DDQN, PER, SAMPLE"),
        (("train", "--env", "CliffWalking-v1", "--method", "PER"), "has no time limit"),
        (("train", "--env", "TwoChains", "--method", "PER", "--gamma", "2"), "between 0 and 1"),
        (("table", "testing"), "no published numbers"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments, says, capsys):
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert says in re.sub(r"[\s│]+", " ", said.out + said.err)


def test_damaged_store_is_named(tmp_path, capsys, faked):
    path = tmp_path / "exact/TwoChains/PER/seed=0.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1")
    for command in ("reproduce", "table"):
        assert run(command, "exact", "--out", str(tmp_path)) == 1
        assert f"{path} is not a readable Parquet file" in capsys.readouterr().err


def test_ray_is_an_extra(tmp_path, capsys, faked, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run("reproduce", "testing", "--backend", "ray", "--out", str(tmp_path)) == 2
    assert "pip install 'sibling-replay[ray]'" in capsys.readouterr().err


def test_help_documents_every_option(capsys):
    for command in ("reproduce", "status", "table", "collect", "train"):
        assert run(command, "--help") == 0
        said = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
        if command == "train":
            for field in dataclasses.fields(RunConfig):
                # the method implies max_siblings; nothing measures without an observer
                if field.name not in ("max_siblings", "diagnostics_every"):
                    assert f"--{field.name.replace('_', '-')} " in said
            assert said.count("(paper: ") >= 15
            for unit in ("environment steps", "transitions", "training episodes", "updates"):
                assert unit in said.lower()
        if command == "reproduce":
            for word in ("--env", "--method", "--seeds", "--workers", "--backend {local,ray}"):
                assert word in said
            assert "--address" in said and "--out" in said and "FrozenLake-H100/H300" in said


def test_real_trainer_from_end_to_end(tmp_path):
    """The command's bytes are those of calling `train` here: worker and process do not matter."""
    from sibling_replay.training.tabular import train

    some = ("--env", "TwoChains", "--seeds", "0")
    command = [sys.executable, "-m", "sibling_replay", "reproduce", "testing", *some]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    chosen = select(study("testing"), ["TwoChains"], seeds=[0])
    for job in chosen:
        here = store.save_run(tmp_path / "here", job, train(job.config))
        assert here.read_bytes() == store.run_path(tmp_path, job.id).read_bytes()


@pytest.mark.long
def test_real_command_killed_and_rerun(tmp_path):
    """`kill -9` of `sibling-replay reproduce exact` on full-length runs; the rerun is identical."""
    some = ("--env", "OutlierBandit", "--method", "PER", "--seeds", "0", "1", "2", "3")
    command = [sys.executable, "-m", "sibling_replay", "reproduce", "exact", *some, "--workers=2"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, "--out", str(whole)], check=True)
    runner = subprocess.Popen([*command, "--out", str(broken)])
    while not list(broken.rglob("*.parquet")):
        assert runner.poll() is None
        time.sleep(0.02)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    assert 0 < len(list(broken.rglob("*.parquet"))) < 4
    subprocess.run([*command, "--out", str(broken)], check=True)
    files = {str(p.relative_to(whole)): p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    assert len(files) == 4
    assert files == {
        str(p.relative_to(broken)): p.read_bytes() for p in broken.rglob("*") if p.is_file()
    }

"""The command as a user meets it: exit codes, messages, help; and once the real trainer."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import signal
import subprocess
import sys
import time

import gymnasium as gym
import pytest
import study_jobs

from sibling_replay.running import store
from sibling_replay.running.metrics import Scores
from sibling_replay.running.runs import select
from sibling_replay.studies.own import OwnRuns
from sibling_replay.studies.tabular import TabularStudy
from sibling_replay.training.config import TabularConfig
from support.command import run
from support.studies import study

# the package has the command of that name
encoder_commands = importlib.import_module("sibling_replay.cli.vqvae")
COMMANDS = ("reproduce", "status", "table", "collect", "report", "train", "diagnose",
            "vqvae train", "vqvae inspect", "vqvae sweep")  # fmt: skip


@pytest.fixture
def faked(monkeypatch):
    monkeypatch.setattr(TabularStudy, "job", lambda *_: study_jobs.fake_train)
    monkeypatch.setattr(OwnRuns, "job", lambda *_: study_jobs.fake_train)


def test_reproduce_status_collect_table(tmp_path, capsys, faked):
    out = str(tmp_path / "runs")
    some = ("--env", "TwoChains", "--method", "PER", "AVG", "--seeds", "0", "1", "2")
    assert run("reproduce", "exact", *some, "--workers", "2", "--runs", out) == 0
    said = capsys.readouterr().out
    assert "6 runs, 0 already done, 6 to do" in said
    assert re.search(
        r"\[6/6\] exact/TwoChains/(PER|AVG)/seed=\d  \d+ s  [\d,]+ steps/s  0 s left", said
    )
    assert "\x1b" not in said  # not a terminal: no bar, no colours
    assert run("reproduce", "exact", *some, "--runs", out) == 0
    assert "0 done, 6 already there, 0 failed" in capsys.readouterr().out

    assert run("status", "exact", "--runs", out) == 0
    said = capsys.readouterr().out
    assert "exact: 6 of 220 runs done" in said
    assert re.search(r"TwoChains +AVG +3 / 10", said)
    assert re.search(r"OutlierBandit +DDQN +0 / 10", said)

    results = tmp_path / "results"
    assert run("collect", "exact", "--runs", out, "--results", str(results)) == 0
    assert "6 runs" in capsys.readouterr().out
    assert run("table", "exact", "--runs", out) == 0
    from_runs = capsys.readouterr().out
    assert "0.840 ± 0.020" in from_runs  # the paper's PER AUC in TwoChains
    assert run("table", "exact", "--runs", str(results / "exact.parquet")) == 0
    assert capsys.readouterr().out == from_runs

    again = str(tmp_path / "again")
    back = ("collect", "exact", "--runs", again, "--results", str(results), "--back")
    assert run(*back) == 0 and "6 runs of" in capsys.readouterr().out
    assert run("reproduce", "exact", *some, "--runs", again) == 0
    assert "0 done, 6 already there, 0 failed" in capsys.readouterr().out


def test_names_are_taken_in_any_case(tmp_path, faked):
    some = ("--env", "twochains", "FROZENLAKE-h50", "--method", "per", "Avg-G2", "--seeds", "3")
    assert run("reproduce", "exact", *some, "--runs", str(tmp_path)) == 0
    assert (
        run("train", "--env", "frozenlake-V1", "--method", "avg-G3", "--runs", str(tmp_path)) == 0
    )
    assert run("train", "--env", "TWOCHAINS", "--method", "sample", "--runs", str(tmp_path)) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")} == {
        "exact/TwoChains/PER/seed=3.parquet",
        "exact/FrozenLake-H50/PER/seed=3.parquet",
        "exact/FrozenLake-H50/AVG-g2/seed=3.parquet",
        "train/FrozenLake-v1/AVG-g3/seed=0.parquet",
        "train/TwoChains/SAMPLE/seed=0.parquet",
    }


def test_environments_with_parameters(tmp_path, faked):
    """One spelling in ids, and the settings of the bench where they are its own."""
    for env in ("noisygridworld", "noisygridworld,rewards=mean,variance=1",
                "frozenLake-v1,max_episode_steps=200,map_name=8x8",
                "taxi-V4,is_rainy=TRUE"):  # fmt: skip
        assert run("train", "--env", env, "--method", "sample", "--runs", str(tmp_path)) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")} == {
        "train/NoisyGridworld/SAMPLE/seed=0.parquet",
        "train/NoisyGridworld,rewards=mean,variance=1/SAMPLE/seed=0.parquet",
        "train/FrozenLake-v1,map_name=8x8,max_episode_steps=200/SAMPLE/seed=0.parquet",
        "train/Taxi-v4,is_rainy=true/SAMPLE/seed=0.parquet",
    }
    steps = dict(store.load_runs(tmp_path, ["train"]).select("env", "steps").iter_rows())
    assert steps == {
        "NoisyGridworld": 80_000,
        "NoisyGridworld,rewards=mean,variance=1": 80_000,
        "FrozenLake-v1,map_name=8x8,max_episode_steps=200": 100_000,
        "Taxi-v4,is_rainy=true": 80_000,
    }


def test_games_are_taken_in_any_case(monkeypatch):
    asked = []
    monkeypatch.setattr(
        encoder_commands, "trained_encoder", lambda config, *_: asked.append(config)
    )
    assert run("vqvae", "train", "--game", "spaceINVADERS") == 0
    assert [(config.game, config.codes) for config in asked] == [("SpaceInvaders", 32)]


def test_other_seeds_are_run_and_never_compared_with_the_paper(tmp_path, capsys, faked):
    """Seed 0 is the paper's in TwoChains, not in FrozenLake; 42 nowhere."""
    out = str(tmp_path)
    some = ("--env", "TwoChains", "FrozenLake-H50", "--method", "PER")
    assert run("reproduce", "exact", *some, "--seeds", "1", "2", "--runs", out) == 0
    assert run("table", "--runs", out) == 0
    of_the_paper = capsys.readouterr().out.split("Main comparison")[1]
    assert run("reproduce", "exact", *some, "--seeds", "2", "42", "--runs", out) == 0
    said = capsys.readouterr().out
    assert (
        "2 of these runs have seeds or settings that are not the study's own: they are kept" in said
    )
    assert "2 done, 2 already there" in said
    assert run("status", "exact", "--runs", out) == 0
    said = capsys.readouterr().out
    assert re.search(r"TwoChains +PER +2 / 10", said)
    assert "and 2 runs with seeds or settings that are not the study's own" in said
    assert run("table", "--runs", out) == 0
    with_others = capsys.readouterr().out.split("Main comparison")[1]
    assert (
        with_others == of_the_paper + "left out: 2 runs with seeds that are not the study's own\n"
    )


def test_runs_of_ones_own_are_listed_and_compared(tmp_path, capsys, faked):
    out = ("--runs", str(tmp_path))
    assert run("status", "train", *out) == 0
    assert capsys.readouterr().out == f"train: no runs of your own in {tmp_path}\n"
    assert run("table", "train", *out) == 1
    said = capsys.readouterr().err
    assert "no finished runs below" in said and "--back" not in said, "there are none to lay out"
    assert run("table", "rivals", *out) == 1
    assert "`collect rivals --back`" in capsys.readouterr().err
    for seed in ("0", "7"):
        own = ("--method", "PER", "--seed", seed, "--alpha", "0.3", "--gamma", "0.9")
        assert run("train", "--env", "TwoChains", *own, *out) == 0
    assert run("train", "--env", "TwoChains", "--method", "SAMPLE", *out) == 0
    assert run("train", "--env", "FrozenLake-v1", "--method", "DDQN", "--steps", "5999", *out) == 0
    capsys.readouterr()

    assert run("status", "train", *out) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"train: 4 runs of your own in {tmp_path}",
        "  FrozenLake-v1          DDQN    steps=5999; seed 0",
        "  TwoChains              SAMPLE  as the paper; seed 0",
        "  TwoChains              PER     gamma=0.9, alpha=0.3; seed 0, 7",
    ]
    assert run("status", "all", *out) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"train: 4 runs of your own in {tmp_path}" in said
    assert not any(line.startswith(" ") for line in said), "of all studies a line each"

    assert run("table", "train", *out) == 0
    said = capsys.readouterr().out
    assert said.index("FrozenLake-v1") < said.index("TwoChains")
    rows = [re.split(r" *│ *", line)[1:-1] for line in said.splitlines() if line[0] == "│"]
    stored = [
        store.load_file(path).row(0, named=True)
        for path in sorted(tmp_path.rglob("TwoChains/PER/**/*.parquet"))
    ]
    numbers = [[row[name] for name in Scores._fields] for row in stored]
    first, second = numbers
    assert rows[2] == ["PER", "gamma=0.9, alpha=0.3", "0", *(f"{x:.3f}" for x in first)]
    assert rows[3] == ["", "", "7", *(f"{x:.3f}" for x in second)]
    means = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    errors = [abs(a - b) / 2 for a, b in zip(first, second, strict=True)]
    assert rows[4] == ["", "", "mean of 2", *(f"{x:.3f}" for x in means)]
    assert rows[5] == ["", "", "std. error", *(f"{x:.3f}" for x in errors)]
    assert len(rows) == 6


def test_settings_and_methods_of_ones_own_never_stand_as_the_papers(faked, tmp_path, capsys):
    some = ("--env", "TwoChains", "--seeds", "0", "--workers", "1", "--runs", str(tmp_path))
    assert run("reproduce", "exact", "--method", "PER", *some) == 0
    assert run("reproduce", "exact", "--method", "per", "rank", "--set", "hidden=8", *some) == 0
    said = capsys.readouterr().out
    assert "2 of these runs have seeds or settings that are not the study's own" in said
    places = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")}
    assert places == {
        "exact/TwoChains/PER/seed=0.parquet",
        "exact/TwoChains/PER/hidden=8/seed=0.parquet",
        "exact/TwoChains/RANK/hidden=8/seed=0.parquet",
    }
    assert run("table", "exact", "--runs", str(tmp_path)) == 0
    said = capsys.readouterr().out
    compared, own = said.split("2 runs with settings of your own, which nothing published is like:")
    assert "RANK" not in compared and "hidden" not in compared
    assert "RANK" in own and own.count("hidden=8") == 2
    assert run("status", "exact", "--runs", str(tmp_path)) == 0
    assert "exact: 1 of 220 runs done" in capsys.readouterr().out


def test_failing_run_fails_the_command_at_the_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(TabularStudy, "job", lambda *_: study_jobs.raising_train)
    some = ("--env", "TwoChains", "--method", "PER")
    assert run("reproduce", "testing", *some, "--workers", "1", "--runs", str(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "FAILED testing/TwoChains/PER/seed=1\nTraceback" in said
    assert "ArithmeticError: seed 1 does not like you" in said
    assert said.rstrip().endswith(f"1 done, 0 already there, 1 failed: {tmp_path}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce", "exact", "--env", "TwoChain"), "choose from OutlierBandit, TwoChains"),
        (("reproduce", "exact", "--method", "SAMPEL"), "choose from DDQN, PER, SAMPLE"),
        (("reproduce", "grid", "--seeds", "-1"), "seed must be an int >= 0, got -1"),
        (("reproduce", "everything"), "choose from exact, grid, keys, learning, minatar"),
        (("reproduce", "exact", "--workers", "0"), "workers must be at least 1"),
        (("reproduce", "exact", "--address", "auto"), "needs --backend ray"),
        (("train", "--env", "TwoChain", "--method", "PER"), "choose from OutlierBandit, TwoChains"),
        (("train", "--env", "TwoChains", "--method", "PPER"), "choose from DDQN, PER, SAMPLE"),
        (("train", "--env", "CliffWalking-v1", "--method", "PER"), "has no time limit"),
        (
            ("train", "--env", "CliffWalking-v1,is_slippery=true", "--method", "PER"),
            "Give it one: CliffWalking-v1,is_slippery=true,max_episode_steps=200",
        ),
        (
            ("train", "--env", "FrozenLake-v1,map_name", "--method", "PER"),
            "parameters as name=value, each once and after a comma",
        ),
        (
            ("train", "--env", "FrozenLake-v1,size=8", "--method", "PER"),
            "FrozenLake-v1,size=8 cannot be made",
        ),
        (
            ("train", "--env", "Taxi-v4,fickle_passenger=true", "--method", "PER"),
            "sibling_replay/FickleTaxi-v0 is the same with a table",
        ),
        (
            ("train", "--env", "CartPole-v1", "--method", "PER", "--learner", "tabular"),
            "needs an environment with a transition table P over numbered states and actions, such "
            "as FrozenLake-v1, and CartPole-v1 is not one: CartPoleEnv has no transition table",
        ),
        (("train", "--env", "Pendulum-v1", "--method", "PER"), "such as SAC"),
        (("train", "--env", "no_such:Env-v0", "--method", "PER"), "No module named 'no_such'"),
        (
            ("train", "--env", "TwoChains", "--method", "no_such:Mine"),
            "no strategy is found at 'no_such:Mine': No module named 'no_such'",
        ),
        (
            ("train", "--env", "FrozenLake-v1", "--method", "SAMPLE", "--key", "auto"),
            "--key is for runs without a table: groups of FrozenLake-v1 are exact",
        ),
        (
            ("train", "--env", "CartPole-v1", "--method", "PER", "--eval-every-episodes", "9"),
            "--eval-every-episodes is for environments with a transition table",
        ),
        (
            (
                "train",
                "--env",
                "CartPole-v1",
                "--method",
                "PER",
                "--hidden",
                "64",
                "--set",
                "hidden_layers=64-64",
            ),
            "hidden_layers is given twice: by --set and by an option of its own",
        ),
        (
            (
                "train",
                "--env",
                "CartPole-v1",
                "--method",
                "SAMPLE",
                "--key",
                "auto",
                "--set",
                "key=grid:4",
            ),
            "key is given twice",
        ),
        (
            (
                "train",
                "--env",
                "CartPole-v1",
                "--method",
                "PER",
                "--learner",
                "compiled",
                "--set",
                "learner=torch",
            ),
            "learner is given twice",
        ),
        (
            ("train", "--env", "CartPole-v1", "--method", "PER", "--key", "grid:4"),
            "--key makes siblings, and PER draws without: it would do nothing",
        ),
        (
            ("bench", "--env", "CartPole-v1", "--method", "DDQN", "PER", "--key", "grid:4"),
            "none of DDQN, PER draws by groups: --key would do nothing",
        ),
        (
            ("train", "--env", "CartPole-v1", "--method", "SAMPLE", "--key", "grids:4"),
            "unknown key 'grids:4'",
        ),
        (
            ("reproduce", "exact", "--device", "cpu"),
            "--device is for the study minatar or minatar-rates: exact has no use",
        ),
        (("reproduce", "grid", "--gpu-share", "0.125"), "--gpu-share is for the study minatar"),
        (
            ("reproduce", "testing", "--encoders", "x", "--checkpoint-minutes", "5"),
            "--encoders, --checkpoint-minutes are for the study minatar or minatar-rates: testing",
        ),
        (
            ("reproduce", "exact", "--set", "width=9"),
            "unknown setting 'width' of exact: choose from",
        ),
        (("reproduce", "exact", "--set", "hidden"), "--set takes name=value"),
        (("reproduce", "exact", "--set", "hidden=x"), "--set hidden must be a whole number"),
        (("reproduce", "exact", "--set", "hidden=0"), "hidden must be an int >= 1, got 0"),
        (("reproduce", "exact", "--set", "gamma=1", "gamma=0"), "--set gamma is given twice"),
        (("reproduce", "exact", "--set", "steps=9", "--steps", "8"), "not both"),
        (("reproduce", "train"), "runs of your own are made by `sibling-replay train`"),
        (("reproduce", "exact", "--select-lr"), "--select-lr is for the study minatar"),
        (
            ("reproduce", "exact", "--condition", "clean"),
            "--condition is for the study keys, minatar, pendulum or rivals-networks",
        ),
        (("train", "--env", "TwoChains", "--method", "PER", "--gamma", "2"), "between 0 and 1"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments, says, capsys):
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert says in re.sub(r"[\s│]+", " ", said.out + said.err)


def test_an_environment_that_cannot_be_made_is_named(capsys):
    def entry_point():
        raise RuntimeError("a part of it is not installed")

    gym.register("test/Broken-v0", entry_point=entry_point)
    try:
        assert run("train", "--env", "test/broken-v0", "--method", "PER") == 2
    finally:
        del gym.registry["test/Broken-v0"]
    assert "test/Broken-v0 cannot be made: a part of it is not installed" in capsys.readouterr().err


def test_damaged_store_is_named(tmp_path, capsys, faked):
    path = tmp_path / "exact/TwoChains/PER/seed=0.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1")
    for command in ("reproduce", "table"):
        assert run(command, "exact", "--runs", str(tmp_path)) == 1
        assert f"{path} is not a readable Parquet file" in capsys.readouterr().err


def test_ray_is_an_extra(tmp_path, capsys, faked, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run("reproduce", "testing", "--backend", "ray", "--runs", str(tmp_path)) == 2
    assert "pip install 'sibling-replay[ray]'" in capsys.readouterr().err


def test_help_documents_every_option(capsys):
    for command in COMMANDS:
        assert run(*command.split(), "--help") == 0
        said = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
        # what takes effect is said, and no one is to type None
        assert "None" not in said and "(default: )" not in said
        if command == "train":
            for field in dataclasses.fields(TabularConfig):
                # the method implies max_siblings; nothing measures without an observer
                if field.name not in ("max_siblings", "diagnostics_every"):
                    assert f"--{field.name.replace('_', '-')} " in said
            assert said.count("(paper: ") >= 15
            assert said.count("(default: the paper's)") == 19
            for unit in ("environment steps", "transitions", "training episodes", "updates"):
                assert unit in said.lower()
        if command == "reproduce":
            for word in ("--env", "--method", "--seeds", "--workers", "--backend {local,ray}"):
                assert word in said
            for effect in ("all", "both", "cpu", "0.125", "5.0", "the study's"):
                assert f"(default: {effect})" in said
            assert "--address" in said and "--runs" in said and "FrozenLake-H100/H300" in said


def test_real_trainer_from_end_to_end(tmp_path):
    """The command's bytes are those of training here: worker and process do not matter."""
    from sibling_replay.training.tabular.trainer import train_tabular

    some = ("--env", "TwoChains", "--seeds", "0")
    command = [sys.executable, "-m", "sibling_replay", "reproduce", "testing", *some]
    done = subprocess.run([*command, "--runs", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    chosen = select(study("testing"), ["TwoChains"], seeds=[0])
    for job in chosen:
        here = store.save_run(tmp_path / "here", job, train_tabular(job.config))
        assert here.read_bytes() == store.run_path(tmp_path, job.id).read_bytes()


@pytest.mark.long
def test_real_command_killed_and_rerun(tmp_path):
    """`kill -9` of `sibling-replay reproduce exact` on full-length runs; the rerun is identical."""
    some = ("--env", "OutlierBandit", "--method", "PER", "--seeds", "0", "1", "2", "3")
    command = [sys.executable, "-m", "sibling_replay", "reproduce", "exact", *some, "--workers=2"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, "--runs", str(whole)], check=True)
    runner = subprocess.Popen([*command, "--runs", str(broken)])
    while not list(broken.rglob("*.parquet")):
        assert runner.poll() is None
        time.sleep(0.02)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    assert 0 < len(list(broken.rglob("*.parquet"))) < 4
    subprocess.run([*command, "--runs", str(broken)], check=True)
    files = {str(p.relative_to(whole)): p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    assert len(files) == 4
    assert files == {
        str(p.relative_to(broken)): p.read_bytes() for p in broken.rglob("*") if p.is_file()
    }

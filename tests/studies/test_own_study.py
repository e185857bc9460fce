"""A study that is one file, outside the package: in every command, with nothing else touched."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sibling_replay.studies as studies
from sibling_replay import cli
from sibling_replay.running import store
from sibling_replay.running.runs import Run, select
from sibling_replay.studies.study import Choice, Study, chosen_run
from sibling_replay.training.config import CONFIGS, RunConfig
from sibling_replay.training.results import RunResult

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(one) for one in arguments])
    return int(stop.value.code or 0)


# ------------------------------------------------------------- announced by a package


@pytest.fixture
def announced(tmp_path: Path) -> dict[str, str]:
    """An environment in which a package announces the example's study, as an installed one does."""
    package = tmp_path / "site" / "capacity_study-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: capacity-study\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[sibling_replay.studies]\ncapacity = capacity:STUDY\n"
    )
    places = [str(tmp_path / "site"), str(ROOT / "examples" / "studies"), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def test_a_file_of_another_package_is_in_every_command(tmp_path: Path, announced) -> None:
    runs = tmp_path / "runs"

    def command(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sibling_replay", *map(str, arguments)],
            env=announced, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "8 to do" in command("reproduce", "capacity", "--runs", runs)
    assert "8 already there" in command("reproduce", "capacity", "--runs", runs)
    assert "capacity: 8 of 8 runs done" in command("status", "--runs", runs)
    said = command("table", "capacity", "--runs", runs)
    assert "capacity=500" in said and "mean of 2" in said
    assert "8 runs" in command("collect", "capacity", "--runs", runs)
    command("curves", "capacity", "--runs", runs, "--to", "curves.csv")
    frame = pl.read_csv(tmp_path / "curves.csv")
    assert frame["run"].n_unique() == 8 and {"eval_step", "eval_return"} <= set(frame.columns)
    assert "capacity: 8 rows from" in command("report", "--runs", runs, "--out", "report")
    assert "The size of the buffer" in (tmp_path / "report" / "index.html").read_text()
    assert (tmp_path / "report" / "figures" / "capacity.pdf").exists()

    # settings of one's own stand beside it, under their names
    said = command("reproduce", "capacity", "--set", "hidden=8", "--seeds", "0", "--runs", runs)
    assert "4 of these runs have seeds or settings that are not" in said
    assert "hidden=8" in command("table", "capacity", "--runs", runs)


# ------------------------------------------------------------- with a trainer of its own


@dataclass(frozen=True, kw_only=True)
class CoinConfig(RunConfig):
    """A run of the trainer below."""

    kind = "coin"
    bias: float = 0.5


def toss(config: RunConfig) -> RunResult:
    """No learning at all: evaluations are coins."""
    assert isinstance(config, CoinConfig)
    rng = np.random.default_rng(config.seed)
    step = np.arange(1, 11) * (config.steps // 10)
    score = (rng.random(10) < config.bias).astype(np.float64)
    return RunResult(config, step, step // 5, score, score.copy(), 10, 0)


class CoinStudy(Study):
    """Two coins."""

    name = "coins"
    about = "coins"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        found = []
        for seed in choice.seeds or range(3):
            usual = CoinConfig(env="coin", method="DDQN", seed=seed, steps=1_000)
            found.append(chosen_run("coins", usual, choice))
        return select(found, choice.envs, choice.methods)

    def job(self, choice: Choice):
        return toss


@pytest.fixture
def coins(monkeypatch):
    monkeypatch.setattr(studies, "_registered", {})
    return studies.register_study(CoinStudy())


def test_a_study_with_a_trainer_and_settings_of_its_own(tmp_path, coins, capsys) -> None:
    place = ("--runs", tmp_path, "--workers", "1")
    for chosen in coins.runs(Choice()), coins.runs(Choice(settings={"bias": 0.9})):
        for one in chosen:
            store.save_run(tmp_path, one, toss(one.config))
    assert run("reproduce", "coins", *place) == 0
    assert "3 already there" in capsys.readouterr().out
    assert run("reproduce", "coins", "--set", "bias=0.9", *place) == 0
    said = capsys.readouterr().out
    assert "3 of these runs have seeds or settings that are not the paper's" in said
    assert "3 already there" in said
    frame = store.load_runs(tmp_path, ["coins"])
    assert set(frame["kind"]) == {"coin"}
    configs = [store.config_of(row) for row in frame.iter_rows(named=True)]
    assert {config.bias for config in configs} == {0.5, 0.9}
    assert run("table", "coins", "--runs", tmp_path) == 0
    said = capsys.readouterr().out
    assert "bias=0.9" in said
    assert run("status", "coins", "--runs", tmp_path) == 0
    assert "and 3 runs with seeds or settings" in capsys.readouterr().out


def test_a_kind_of_config_that_nothing_defines_is_named(tmp_path, monkeypatch) -> None:
    one = CoinStudy().runs(Choice())[0]
    store.save_run(tmp_path, one, toss(one.config))
    monkeypatch.delitem(CONFIGS, "coin")
    with pytest.raises(store.StoreError, match="kind 'coin', which nothing imported defines"):
        store.check_finished(tmp_path, [one])


def test_two_studies_of_one_name_are_refused(coins) -> None:
    with pytest.raises(ValueError, match="there is a study 'coins' already"):
        studies.register_study(CoinStudy())
    with pytest.raises(TypeError, match="is an instance of Study"):
        studies.register_study(CoinStudy)  # type: ignore[arg-type]

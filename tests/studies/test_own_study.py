"""A study that is one file, outside the package: in every command, with nothing else touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from coin_study import CoinStudy, toss

import sibling_replay.studies as studies
from sibling_replay.running import store
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import CONFIGS
from support.command import run

ROOT = Path(__file__).parent.parent.parent

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
    alone = subprocess.run(
        [sys.executable, ROOT / "examples" / "studies" / "capacity.py", "status", "capacity"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "capacity: 8 of 8 runs done" in alone.stdout
    assert (tmp_path / "report" / "figures" / "capacity.pdf").exists()

    # settings of one's own stand beside it, under their names
    said = command("reproduce", "capacity", "--set", "hidden=8", "--seeds", "0", "--runs", runs)
    assert "4 of these runs have seeds or settings that are not the study's own" in said
    assert "hidden=8" in command("table", "capacity", "--runs", runs)


# ------------------------------------------------------------- with a trainer of its own


@pytest.fixture
def coins(monkeypatch):
    monkeypatch.setattr(studies, "_registered", {})
    return studies.register_study(CoinStudy())


def test_a_study_with_a_trainer_and_settings_of_its_own(tmp_path, coins, capsys) -> None:
    place = ("--runs", tmp_path, "--workers", "1")
    assert run("reproduce", "coins", *place) == 0
    assert "3 done, 0 already there, 0 failed" in capsys.readouterr().out
    assert run("reproduce", "coins", "--set", "bias=0.9", *place) == 0
    said = capsys.readouterr().out
    assert "3 of these runs have seeds or settings that are not the study's own" in said
    assert "3 done, 0 already there, 0 failed" in said
    frame = store.load_runs(tmp_path, ["coins"])
    assert set(frame["kind"]) == {"coin"}
    for row in frame.iter_rows(named=True):
        config = store.config_of(row)
        assert config.bias == (0.9 if "bias=0.9" in row["run"] else 0.5)
        assert row["eval_return"] == toss(config).eval_return.tolist()
    assert run("table", "coins", "--runs", tmp_path) == 0
    said = capsys.readouterr().out
    assert "bias=0.9" in said and "as the study has it" in said and "paper" not in said
    assert run("status", "coins", "--runs", tmp_path) == 0
    said = capsys.readouterr().out
    assert "coins: 3 of 3 runs done" in said and "and 3 runs with seeds or settings" in said


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

"""`sibling-replay report` as a user meets it."""

from __future__ import annotations

import re
import subprocess
import sys

import polars as pl
import pytest
from report_runs import frame_of, stack

from sibling_replay.running import store
from support.command import run
from support.studies import study


def report(*arguments):
    return run("report", *arguments)


def collected(directory):
    frame = frame_of("exact", lambda c: c.env == "TwoChains" and c.method in ("PER", "SAMPLE"))
    directory.mkdir()
    frame.write_parquet(directory / "exact.parquet")
    return frame


def test_command_reads_results_by_default(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    collected(tmp_path / "results")
    assert report() == 0
    said = capsys.readouterr().out
    assert re.search(r"^\d of 8 published means within the combined 95 % interval$", said, re.M)
    assert "not run: Figure 4, SAMPLE minus PER in AUC return" in said
    text = (tmp_path / "report/index.html").read_text()
    assert "sibling-replay report --results results" in text and str(tmp_path) not in text


def test_command_reads_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = collected(tmp_path / "elsewhere")
    runs_of(tmp_path / "runs", frame)
    assert report("--out", "a") == 0  # no results/ here: runs/ is read
    assert report("--runs", tmp_path / "runs", "--out", "b") == 0
    assert report("--results", tmp_path / "elsewhere", "--out", "c") == 0
    texts = [(tmp_path / name / "index.html").read_text() for name in ("a", "b", "c")]
    assert texts[0] == texts[1]
    assert texts[0].replace("--runs runs", "--results elsewhere") == texts[2]


def runs_of(directory, frame):
    for row in frame.iter_slices(1):
        path = store.run_path(directory, row["run"][0])
        path.parent.mkdir(parents=True, exist_ok=True)
        row.write_parquet(path)


def test_what_was_run_here_comes_before_what_was_shipped(tmp_path, capsys, monkeypatch):
    """As in a clone: results/ has two studies, runs/ has a part of one of them."""
    monkeypatch.chdir(tmp_path)
    frame = collected(tmp_path / "results")
    sweep = frame_of("grid", lambda c: c.env == "TwoChains" and c.seed < 2)
    sweep.write_parquet(tmp_path / "results/grid.parquet")
    runs_of(tmp_path / "runs", frame.filter(frame["seed"] < 3))
    assert report() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "exact: 6 rows from runs, not the 20 in results (--results results)",
        "grid: 64 rows from results",
    ]
    page = (tmp_path / "report/index.html").read_text()
    assert "sibling-replay report # exact: runs, grid: results" in page
    assert report("--results", "results", "--out", "shipped") == 0
    assert capsys.readouterr().out.startswith("exact: 20 rows from results\ngrid: 64 rows from")
    assert report("--runs", "runs", "--out", "own") == 0
    assert capsys.readouterr().out.splitlines()[0] == "exact: 6 rows from runs"
    ours, shipped, own = (
        (tmp_path / out / "tables/tabular-metrics.md").read_text()
        for out in ("report", "shipped", "own")
    )
    assert ours == own != shipped


def test_other_seeds_than_the_papers_are_not_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    collected(tmp_path / "results")
    assert report("--results", "results", "--out", "a") == 0
    others = [run for run in study("exact", [77]) if run.config.env == "TwoChains"]
    frame = pl.read_parquet("results/exact.parquet")
    with_others = pl.concat([frame, stack(others)], how="diagonal")
    with_others.write_parquet("results/exact.parquet")
    assert with_others.height == 25
    assert report("--results", "results", "--out", "b") == 0
    assert "exact: 20 rows" in capsys.readouterr().out
    assert (tmp_path / "a/index.html").read_text() == (tmp_path / "b/index.html").read_text()


def test_command_refuses_what_it_cannot_read(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report() == 2
    assert "runs is not a directory" in capsys.readouterr().err
    assert report("--runs", tmp_path, "--results", tmp_path) == 2
    assert "not both" in capsys.readouterr().err
    (tmp_path / "exact.parquet").write_bytes(b"PAR1")
    assert report("--results", tmp_path) == 1
    assert "exact.parquet is not a readable Parquet file" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("library", ["plotly", "matplotlib"])
def test_report_is_an_extra(library, tmp_path):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from sibling_replay import cli; cli.main(['report'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "pip install 'sibling-replay[report]'" in done.stderr

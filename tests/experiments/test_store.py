"""Files that are whole or absent, the same bytes every time, and errors that name the file."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from study_jobs import fake_train, small_study

from sibling_replay.experiments import store
from sibling_replay.experiments.metrics import summarize
from sibling_replay.experiments.spec import study

RUNS = small_study()


def save(root, runs=RUNS):
    return [store.save_run(root, run, fake_train(run.config)) for run in runs]


def test_what_is_loaded_is_what_was_saved(tmp_path):
    run = RUNS[3]
    (path,) = save(tmp_path, [run])
    assert path == tmp_path / "grid/OutlierBandit/PER/alpha=0.1/beta=0/seed=3.parquet"
    result = fake_train(run.config)
    row = store.load_file(path).row(0, named=True)
    assert store.config_of(row) == run.config
    assert row["run"] == run.id and row["study"] == "grid"
    for name in store.CURVE:
        np.testing.assert_array_equal(row[name], getattr(result, name))
    np.testing.assert_array_equal(row["diagnostic/shift"], result.diagnostics["shift"])
    assert {name: row[name] for name in summarize(result)._fields} == summarize(result)._asdict()


def test_same_result_same_bytes(tmp_path):
    first = [path.read_bytes() for path in save(tmp_path / "a")]
    second = [path.read_bytes() for path in save(tmp_path / "b")]
    assert first == second


def test_bytes_do_not_depend_on_the_process(tmp_path):
    (path,) = save(tmp_path / "here", RUNS[:1])
    code = (
        "import sys, pathlib; from study_jobs import *;"
        "from sibling_replay.experiments import store;"
        "r = small_study()[0]; store.save_run(pathlib.Path(sys.argv[1]), r, fake_train(r.config))"
    )
    elsewhere = {**os.environ, "PYTHONPATH": os.path.dirname(__file__), "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=elsewhere)
    assert path.read_bytes() == store.run_path(tmp_path / "there", RUNS[0].id).read_bytes()


def test_load_runs_stacks_and_explodes(tmp_path):
    runs = [*RUNS[:3], *(run for run in study("exact") if run.config.method == "AVG")][:6]
    save(tmp_path, runs)
    frame = store.load_runs(tmp_path)
    assert set(frame["run"]) == {run.id for run in runs}
    assert store.load_runs(tmp_path, ["exact"]).height == 3
    curves = store.curves(frame)
    assert curves.height == sum(20 + run.config.seed for run in runs)
    assert curves["eval_return"].dtype == pl.Float64


def test_collected_study_is_the_same_rows(tmp_path):
    save(tmp_path / "runs")
    target = tmp_path / "results" / "grid.parquet"
    assert store.collect(tmp_path / "runs", "grid", target) == len(RUNS)
    assert store.load_runs(target).equals(store.load_runs(tmp_path / "runs", ["grid"]))
    first = target.read_bytes()
    store.collect(tmp_path / "runs", "grid", target)
    assert target.read_bytes() == first


def test_no_runs_is_an_error(tmp_path):
    with pytest.raises(store.StoreError, match="no finished runs below"):
        store.load_runs(tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_cut_file_is_named(tmp_path, keep):
    path = save(tmp_path)[2]
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(store.StoreError, match=r"seed=2\.parquet is not a readable Parquet file"):
        store.load_runs(tmp_path)


def test_any_altered_value_is_noticed(tmp_path):
    (path,) = save(tmp_path, RUNS[:1])
    frame = pl.read_parquet(path)
    for change in (
        pl.col("alpha") + 0.1,
        pl.col("auc_return") + 1e-12,
        pl.col("eval_return").list.reverse(),
        pl.lit(None, pl.List(pl.Float64)).alias("diagnostic/shift"),
    ):
        frame.with_columns(change).write_parquet(path)
        with pytest.raises(store.StoreError, match=r"seed=0\.parquet was altered"):
            store.load_runs(tmp_path)


def test_foreign_file_is_named(tmp_path):
    save(tmp_path)
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "holiday.parquet")
    with pytest.raises(store.StoreError, match=r"holiday\.parquet is not a results file"):
        store.load_runs(tmp_path)


def test_other_schema_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SCHEMA", 2)
    (path,) = save(tmp_path, RUNS[:1])
    monkeypatch.undo()
    with pytest.raises(store.StoreError, match="has schema 2"):
        store.load_file(path)


def test_file_of_another_config_is_not_reused(tmp_path):
    run = RUNS[0]
    short = dataclasses.replace(run, config=dataclasses.replace(run.config, steps=99_000))
    save(tmp_path, [short])
    with pytest.raises(store.StoreError, match="steps is 99000, asked for 50000"):
        store.check_finished(tmp_path, [run])


def test_result_of_another_config_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="another config"):
        store.save_run(tmp_path, RUNS[0], fake_train(RUNS[1].config))
    assert not list(tmp_path.rglob("*"))


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    (path,) = save(tmp_path, RUNS[:1])
    before = path.read_bytes()

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        save(tmp_path, RUNS[:1])
    assert path.read_bytes() == before
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_clean_spares_the_living(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    place = tmp_path / "grid" / "x"
    place.mkdir(parents=True)
    host = socket.gethostname()
    left = place / f".seed=0.parquet@{dead.pid}@{host}.tmp"
    ours = place / f".seed=1.parquet@{os.getpid()}@{host}.tmp"
    theirs = place / f".seed=2.parquet@{dead.pid}@another-{host}.tmp"
    for path in (left, ours, theirs):
        path.touch()
    assert store.clean(tmp_path) == 1
    assert set(place.iterdir()) == {ours, theirs}

"""Files that are whole or absent, the same bytes every time, and errors that name the file."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from study_jobs import fake_train, small_study

from sibling_replay.running import parquet, store
from sibling_replay.running.metrics import scores_of
from support.studies import study

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
    assert {name: row[name] for name in scores_of(result)._fields} == scores_of(result)._asdict()


def test_same_result_same_bytes(tmp_path):
    first = [path.read_bytes() for path in save(tmp_path / "a")]
    second = [path.read_bytes() for path in save(tmp_path / "b")]
    assert first == second


def test_bytes_do_not_depend_on_the_process(tmp_path):
    (path,) = save(tmp_path / "here", RUNS[:1])
    code = (
        "import sys, pathlib; from study_jobs import *;"
        "from sibling_replay.running import store;"
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
    curves = store.curves_of(frame)
    assert curves.height == sum(20 + run.config.seed for run in runs)
    assert curves["eval_return"].dtype == pl.Float64


def test_collected_study_is_the_same_rows(tmp_path):
    save(tmp_path / "runs")
    target = tmp_path / "results" / "grid.parquet"
    assert store.collect_runs(tmp_path / "runs", "grid", target) == len(RUNS)
    assert store.load_runs(target).equals(store.load_runs(tmp_path / "runs", ["grid"]))
    first = target.read_bytes()
    store.collect_runs(tmp_path / "runs", "grid", target)
    assert target.read_bytes() == first


def test_collecting_a_part_loses_nothing(tmp_path):
    """Runs come from several machines, and as they are done."""
    save(tmp_path / "here", RUNS[:2])
    save(tmp_path / "there", RUNS[1:])
    save(tmp_path / "all")
    target, whole = tmp_path / "results" / "grid.parquet", tmp_path / "whole.parquet"
    assert store.collect_runs(tmp_path / "here", "grid", target) == 2
    assert store.collect_runs(tmp_path / "there", "grid", target) == len(RUNS)
    store.collect_runs(tmp_path / "all", "grid", whole)
    assert target.read_bytes() == whole.read_bytes()


def test_collected_runs_are_laid_out_again(tmp_path):
    """So that a study goes on from them: all of them count as done, none is written over."""
    runs, target = tmp_path / "runs", tmp_path / "grid.parquet"
    kept, *_ = save(runs)
    store.collect_runs(runs, "grid", target)
    for path in runs.rglob("*.parquet"):
        if path != kept:
            path.unlink()
    before = kept.stat().st_mtime_ns
    assert store.lay_out_runs(target, "grid", runs) == len(RUNS) - 1
    assert store.check_finished(runs, RUNS) == {run.id for run in RUNS}
    assert store.load_runs(runs).equals(store.load_runs(target))
    assert kept.stat().st_mtime_ns == before and store.lay_out_runs(target, "grid", runs) == 0
    with pytest.raises(store.StoreError, match=r"no collected file .*other\.parquet"):
        store.lay_out_runs(tmp_path / "other.parquet", "grid", runs)


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
    monkeypatch.setattr(store, "SCHEMA", 3)
    (path,) = save(tmp_path, RUNS[:1])
    monkeypatch.undo()
    with pytest.raises(store.StoreError, match="has schema 3, this version reads 1 and 2"):
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


# ------------------------------------------------------------- one run, one file, in its place


def test_a_copy_of_a_run_is_not_another_seed(tmp_path):
    """Copies used to count: four seeds and a copy gave the mean of five."""
    paths = save(tmp_path, RUNS[:4])
    good = store.load_runs(tmp_path, ["grid"])
    assert good.height == 4
    for copy in (
        paths[0].with_name("seed=0 (copy).parquet"),
        paths[0].with_name("seed=9.parquet"),  # the place of another run
        tmp_path / "grid" / "backup" / "seed=0.parquet",
    ):
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(paths[0].read_bytes())
        with pytest.raises(store.StoreError) as caught:
            store.load_runs(tmp_path, ["grid"])
        assert str(copy) in str(caught.value)
        assert f"holds the run {RUNS[0].id}, whose place is {paths[0]}" in str(caught.value)
        copy.unlink()
    assert store.load_runs(tmp_path, ["grid"]).equals(good)


def test_a_copy_in_the_place_of_a_run_is_not_reused(tmp_path):
    (path,) = save(tmp_path, RUNS[:1])
    other = store.run_path(tmp_path, RUNS[1].id)
    other.write_bytes(path.read_bytes())
    with pytest.raises(store.StoreError, match=r"seed=1\.parquet holds the run .*seed=0, whose"):
        store.check_finished(tmp_path, RUNS[:2])


@pytest.mark.parametrize(
    "rows, message", [(2, "holds 2 runs, and a file below"), (0, "holds no run")]
)
def test_a_run_file_has_one_row(tmp_path, rows, message):
    paths = save(tmp_path, RUNS[:2])
    both = pl.concat([pl.read_parquet(path) for path in paths], how="diagonal")
    both.head(rows).write_parquet(paths[0])
    for read in (store.load_runs, lambda root: store.check_finished(root, RUNS[:2])):
        with pytest.raises(store.StoreError, match=rf"seed=0\.parquet {message}"):
            read(tmp_path)


def test_a_collected_file_has_each_run_once(tmp_path):
    paths = save(tmp_path / "runs", RUNS[:3])
    rows = [pl.read_parquet(path) for path in (*paths, paths[1])]
    target = tmp_path / "grid.parquet"
    pl.concat(rows, how="diagonal").write_parquet(target)
    with pytest.raises(store.StoreError, match=r"grid\.parquet holds the run .*seed=1 more than"):
        store.load_runs(target)
    pl.concat(rows[:3], how="diagonal").head(0).write_parquet(target)
    with pytest.raises(store.StoreError, match=r"grid\.parquet holds no run"):
        store.load_runs(target)


# ------------------------------------------------------------------------------ flipped bits


def aborting(data):
    """A single flipped bit of a Parquet file with which the decoder ends its process."""
    code = (
        "import sys, polars as pl\n"
        "data = sys.stdin.buffer.read()\n"
        "for at in range(8 * len(data)):\n"
        "    print(at, flush=True)\n"
        "    flipped = bytearray(data); flipped[at // 8] ^= 1 << at % 8\n"
        "    try: pl.read_parquet(bytes(flipped))\n"
        "    except BaseException: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    if done.returncode >= 0:
        pytest.skip("this decoder survives every flipped bit")
    at = int(done.stdout.split()[-1])
    flipped = bytearray(data)
    flipped[at // 8] ^= 1 << at % 8
    return bytes(flipped)


def test_a_flipped_bit_cannot_abort_the_command(tmp_path):
    """With a seal it is found before decoding; a file of an earlier version has none and is decoded
    by a process that may die."""
    first, second = save(tmp_path, RUNS[:2])
    bad = aborting(parquet.unseal(first.read_bytes()))
    for content, why in (
        (bad, r"ended the reader's process \(exit code -"),
        (aborting(first.read_bytes()), "the checksum differs"),
    ):
        first.write_bytes(content)
        with pytest.raises(store.StoreError, match=rf"seed=0\.parquet is not a readable.*{why}"):
            store.load_runs(tmp_path)
    assert store.load_file(second)["seed"][0] == 1


def test_every_flipped_bit_of_a_sealed_file_is_found_or_harmless(tmp_path):
    """Harmless are those of the seal's mark: the file then counts as one of an earlier version."""
    (path,) = save(tmp_path, RUNS[:1])
    data = path.read_bytes()
    mark = data.rfind(b"sibling-replay blake2b")
    rng = np.random.default_rng(0)
    for at in {*rng.integers(len(data), size=300).tolist(), 0, 4, len(data) - 1, len(data) - 6}:
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        if mark <= at < mark + 23:
            assert parquet.unseal(bytes(flipped)) is None
        else:
            with pytest.raises(parquet.Damaged, match="checksum differs"):
                parquet.unseal(bytes(flipped))


def test_files_with_and_without_a_seal_hold_the_same(tmp_path):
    """Any reader of Parquet reads a sealed file; ours reads those of earlier versions."""
    paths = save(tmp_path)
    frame = store.load_runs(tmp_path)
    for path in paths[::2]:
        data = path.read_bytes()
        bare = parquet.unseal(data)
        assert parquet.seal(bare) == data and parquet.unseal(bare) is None
        assert pl.read_parquet(data).equals(pl.read_parquet(bare))
        path.write_bytes(bare)
    assert store.load_runs(tmp_path).equals(frame)
    assert store.check_finished(tmp_path, RUNS) == {run.id for run in RUNS}


def test_the_committed_results_are_sealed():
    """They would load more slowly without: by a process of their own."""
    results = sorted((Path(__file__).parents[2] / "results").glob("*.parquet"))
    assert results
    for path in results:
        assert parquet.unseal(path.read_bytes()) is not None, path

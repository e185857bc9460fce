"""What was written under the first names of settings is found again: ids, checkpoints, results."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from study_jobs import fake_train

from sibling_replay.running import store
from sibling_replay.running.kept_states import name_without_length
from sibling_replay.studies import study_named
from sibling_replay.studies.minatar.job import checkpoint_name
from sibling_replay.studies.minatar.runs import minatar_config, minatar_run
from sibling_replay.studies.own import own_run
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import TabularConfig, paper_config
from sibling_replay.training.minatar.config import MinAtarConfig

RESULTS = Path(__file__).parent.parent.parent / "results"


@pytest.mark.parametrize("name", ["exact", "grid"])
def test_configs_of_schema_1_are_those_of_todays_runs(name: str) -> None:
    runs = {run.id: run.config for run in study_named(name).runs(Choice())}
    rows = store.load_file(RESULTS / f"{name}.parquet")
    assert rows.height == len(runs) and set(rows["schema"]) == {1}
    for row in rows.iter_rows(named=True):
        assert store.config_of(row) == runs[row["run"]]


def test_ids_of_schema_1_are_those_of_todays_games() -> None:
    rows = store.load_file(RESULTS / "minatar.parquet")
    for row in rows.iter_rows(named=True):
        assert minatar_run("minatar", store.config_of(row)).id == row["run"]


def test_ids_and_folders_keep_their_names() -> None:
    """Recorded before the settings got the names they have today."""
    config = minatar_config("Breakout", "PER", "mp-tail", 3, steps=1_000, eval_every_steps=50)
    assert minatar_run("minatar", config).id == (
        "minatar/Breakout/PER/mp-tail/steps=1000/eval_interval=50/seed=3"
    )
    assert checkpoint_name(config) == "Breakout-PER-mp-tail-seed3-3f80c19a41d7"
    assert name_without_length(config) == "Breakout-PER-mp-tail-seed3-bb361062fe18"
    own = paper_config("TwoChains", "PER", 1, eval_every_episodes=7, alpha=0.3)
    assert own_run(own).id == "train/TwoChains/PER/eval_interval=7/alpha=0.3/seed=1"


@pytest.mark.parametrize(
    "config",
    [
        paper_config("TwoChains", "AVG-g2", 1, eval_every_episodes=7),
        minatar_config("Breakout", "SAMPLE", "clean", 0, encoder="ab" * 8),
    ],
)
def test_what_is_written_is_read(config) -> None:
    written = config.written()
    assert tuple(written) == type(config).first_names and "eval_interval" in written
    assert type(config).of_written(written) == config


def test_rows_of_both_schemas_stand_in_one_frame(tmp_path: Path) -> None:
    """A collected file keeps rows as they were written, so that their digests still fit."""
    old = store.load_file(RESULTS / "exact.parquet")
    (run,) = [one for one in study_named("exact").runs(Choice(seeds=(77,))) if "SAMPLE" in one.id][
        :1
    ]
    store.save_run(tmp_path, run, fake_train(run.config))
    raw = pl.read_parquet(RESULTS / "exact.parquet")
    first = raw.row(0, named=True)["run"]
    place = store.run_path(tmp_path, first)
    place.parent.mkdir(parents=True, exist_ok=True)
    store._write(place, raw[:1])
    frame = store.load_runs(tmp_path, ["exact"])
    assert sorted(frame["schema"]) == [1, 2] and set(frame["kind"]) == {"tabular"}
    assert frame["eval_every_episodes"].null_count() == 0 and "eval_interval" not in frame.columns
    assert store.collect_runs(tmp_path, "exact", tmp_path / "exact.parquet") == 2
    assert store.load_file(tmp_path / "exact.parquet").sort("run").equals(frame.sort("run"))
    assert isinstance(store.config_of(frame.row(0, named=True)), TabularConfig)
    assert old.height == 220


def test_settings_younger_than_a_row_are_as_they_were_unsaid() -> None:
    first = pl.read_parquet(RESULTS / "minatar.parquet").filter(pl.col("schema") == 1)
    assert first.height and first["key"].null_count() == first.height
    rows = store.load_file(RESULTS / "minatar.parquet")
    assert set(rows.filter(pl.col("run").is_in(first["run"].to_list()))["key"]) == {""}


def test_evaluations_are_counted_in_two_units() -> None:
    assert not hasattr(paper_config("TwoChains", "PER", 0), "eval_every_steps")
    assert not hasattr(MinAtarConfig, "eval_every_episodes")

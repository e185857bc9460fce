"""The MinAtar study as data, through the runner, killed and resumed, into the store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sibling_replay import cli
from sibling_replay.envs import GAMES
from sibling_replay.grouping.vqvae.files import (
    EncoderConfig,
    encoder_files,
)
from sibling_replay.running import store
from sibling_replay.running.runs import Run, select
from sibling_replay.studies import study_named
from sibling_replay.studies.minatar.coverage import load, status_lines
from sibling_replay.studies.minatar.job import MinAtarJob
from sibling_replay.studies.minatar.runs import (
    minatar_config,
    minatar_run,
    minatar_runs,
    rate_grid,
    rate_runs,
    selected_rates,
)
from sibling_replay.studies.study import Choice
from sibling_replay.training.minatar.config import MinAtarConfig
from sibling_replay.training.results import RunResult
from support.studies import study

DIGESTS = {**dict.fromkeys(GAMES, "b" * 32), "SpaceInvaders": "c" * 32}


def test_the_study_is_the_papers() -> None:
    runs = minatar_runs(DIGESTS)
    assert len(runs) == 150 == len({run.id for run in runs})
    assert {run.config.steps for run in runs} == {5_000_000}
    assert runs[0].id == "minatar/Asterix/DDQN/clean/seed=0"
    chosen = select(runs, ["SpaceInvaders"], ["SAMPLE"], [1], ["mp-tail"])
    assert [run.id for run in chosen] == [
        "minatar/SpaceInvaders/SAMPLE/mp-tail/encoder=cccccccc/seed=1"
    ]
    assert chosen[0].config.learning_rate == 3e-5  # type: ignore[union-attr]


def test_a_shorter_study_says_so_and_keeps_everything_else() -> None:
    for long, short in zip(minatar_runs(DIGESTS), minatar_runs(DIGESTS, steps=1000), strict=True):
        assert replace(short.config, steps=5_000_000) == long.config
        assert "/steps=1000/" in short.id


def test_rates_are_tried_on_clean_games_by_powers_of_two() -> None:
    runs = rate_runs(DIGESTS)
    assert len(runs) == 5 * 5 * (5 + 7 + 5) == len({run.id for run in runs})
    assert {run.config.condition for run in runs} == {"clean"}  # type: ignore[union-attr]
    rates = {run.config.learning_rate for run in runs if run.config.method == "PER"}
    np.testing.assert_allclose(sorted(rates), 1.875e-6 * 2.0 ** np.arange(7), rtol=1e-12)


def test_the_rate_of_largest_mean_auc_is_selected() -> None:
    rows = [("Breakout", "PER", 3e-5, 5.0), ("Breakout", "PER", 3e-5, 7.0),
            ("Breakout", "PER", 6e-5, 9.0), ("Breakout", "PER", 6e-5, 2.0),
            ("Asterix", "PER", 3e-5, 1.0), ("Asterix", "PER", 6e-5, 1.0)]  # fmt: skip
    frame = pl.DataFrame(rows, ["env", "method", "learning_rate", "auc_return"], orient="row")
    assert selected_rates(frame) == {("Breakout", "PER"): 3e-5, ("Asterix", "PER"): 6e-5}
    runs = minatar_runs(DIGESTS, selected_rates(frame))
    (run,) = select(runs, ["Asterix"], ["PER"], [0], ["mp-tail"])
    assert run.config.learning_rate == 6e-5


def curve_of(config: MinAtarConfig, end: float) -> RunResult:
    """A run whose return rises from one, half-way, to `end`."""
    return RunResult(
        config=config,
        eval_step=np.array([config.steps // 2, config.steps]),
        eval_episode=np.array([3, 9]),
        eval_return=np.array([1.0, end]),
        eval_success=np.full(2, np.nan),
        episodes=9,
        updates=900,
        diagnostics={"ess": np.array([30.0, np.nan])},
    )


def test_both_kinds_of_run_live_in_one_store(tmp_path: Path) -> None:
    config = minatar_config("Breakout", "SAMPLE", "mp-tail", 1, encoder="b" * 32, steps=1000)
    run = minatar_run("minatar", config)
    result = curve_of(config, 3.0)
    store.save_run(tmp_path, run, result)
    tabular = study("testing")[0]
    other = replace(result, config=tabular.config, eval_success=np.zeros(2), diagnostics={})
    store.save_run(tmp_path, tabular, other)
    frame = store.load_runs(tmp_path)
    by_run = {row["run"]: row for row in frame.iter_rows(named=True)}
    assert store.config_of(by_run[run.id]) == config
    assert store.config_of(by_run[tabular.id]) == tabular.config
    assert by_run[run.id]["auc_return"] == 1.0  # (1 + 3) / 2 over half of the horizon
    assert math.isnan(by_run[run.id]["auc_success"])
    assert store.check_finished(tmp_path, [run, tabular]) == {run.id, tabular.id}
    with pytest.raises(store.StoreError, match="gamma"):
        changed = replace(run, config=replace(config, gamma=0.5))
        store.check_finished(tmp_path, [changed])
    assert store.curves_of(frame).height == 4


@pytest.mark.long
def test_a_job_takes_over_where_another_was_killed(tmp_path: Path) -> None:
    """Through the local backend, whose worker is killed once in mid-run."""
    torch = pytest.importorskip("torch")
    from killed_job import KilledOnce, small_run

    from sibling_replay.running.local import LocalBackend
    from sibling_replay.running.runner import run_study

    torch.set_num_threads(1)
    run = small_run()
    whole = MinAtarJob(tmp_path / "whole", tmp_path)(run.config)
    job = KilledOnce(MinAtarJob(tmp_path / "states", tmp_path), tmp_path, by_itself=True)
    report = run_study([run], tmp_path / "runs", LocalBackend(job, workers=1))
    assert (report.done, report.failures) == (1, [])
    assert (tmp_path / "killed").exists() and (tmp_path / "resumed_at").read_text() != "0"
    expected = store.save_run(tmp_path / "expected", run, whole)
    assert store.run_path(tmp_path / "runs", run.id).read_bytes() == expected.read_bytes()


def chosen(tmp_path: Path, *methods: str, steps: int = 100, seeds=(), **options) -> Choice:
    return Choice(tmp_path, ("Breakout",), methods, seeds, {"steps": steps}, options)


def carried_out(choice: Choice, run: Callable[[tuple[Run, ...], str], None]) -> list[str]:
    """What `reproduce minatar` says, its stages done by `run`."""
    said = []
    for stage in study_named("minatar").stages(choice):
        if isinstance(stage, str):
            said.append(stage)
        else:
            run(stage.runs, stage.title)
    return said


def test_selected_rates_are_frozen_for_both_conditions(tmp_path: Path) -> None:
    """The whole protocol, with curves made up so that the second rate of each grid is the best."""
    done: list[str] = []

    def run(runs: tuple[Run, ...], title: str) -> None:
        done.append(title)
        for one in runs:
            rates = rate_grid(one.config.method)
            height = 5.0 - abs(rates.index(one.config.learning_rate) - 1)
            store.save_run(tmp_path, one, curve_of(one.config, height + one.config.seed))

    choice = chosen(tmp_path, "DDQN", "PER", steps=20_000, seeds=(0, 1), select_lr=True)
    said = carried_out(choice, run)
    assert said[:6] == [
        "Breakout, DDQN: mean AUC return by learning rate, 2 seed(s)",
        "  0.00012       1.375",  # returns rise from 1 to 4 and 5; half of the horizon counts
        "  6e-05         1.625  chosen, paper",
        "  3e-05         1.375",
        "  1.5e-05       1.125",
        "  7.5e-06       0.875",
    ]
    assert said[8:10] == ["  6e-05         1.625  chosen", "  3e-05         1.375  paper"]  # PER's
    assert len(said) == 1 + 5 + 1 + 7
    assert done == ["minatar, learning rates", "minatar"]
    frame = store.load_runs(tmp_path, ["minatar"])
    assert frame.height == 2 * 2 * 2  # methods, conditions, seeds
    used = {
        (method, condition): rate
        for method, condition, rate in frame.select("method", "condition", "learning_rate").rows()
    }
    assert used == {
        (method, condition): rate_grid(method)[1]
        for method in ("DDQN", "PER")
        for condition in ("clean", "mp-tail")
    }


def test_a_run_of_both_studies_is_done_once(tmp_path: Path) -> None:
    """The clean run at the selected rate was a trial; and what was run before is no trial again."""
    todo: dict[str, list[str]] = {}

    def run(runs: tuple[Run, ...], title: str) -> None:
        finished = store.check_finished(tmp_path, runs)
        todo[title] = [one.id for one in runs if one.id not in finished]
        for one in runs:
            if one.id in todo[title]:
                store.save_run(tmp_path, one, curve_of(one.config, one.config.learning_rate))

    choice = chosen(
        tmp_path, "DDQN", steps=20_000, seeds=(0,), condition=("clean",), select_lr=True
    )
    minatar = study_named("minatar")
    (before,) = minatar_runs(DIGESTS, {("Breakout", "DDQN"): 6e-5}, steps=20_000)[15:16]
    assert (before.config.env, before.config.condition) == ("Breakout", "clean")
    store.save_run(tmp_path, before, curve_of(before.config, before.config.learning_rate))
    state = minatar.job(choice).checkpoint(before.config)  # left by somebody who was killed
    state.save({}, {})

    carried_out(choice, run)
    assert len(todo["minatar, learning rates"]) == 4  # of five rates
    assert todo["minatar"] == []  # the largest rate wins, and has been run
    assert not state.directory.exists()
    (winner,) = minatar.runs(choice, {("Breakout", "DDQN"): 1.2e-4})
    path = store.run_path(tmp_path, winner.id)
    result = curve_of(winner.config, winner.config.learning_rate)
    assert path.read_bytes() == store.save_run(tmp_path / "own", winner, result).read_bytes()
    with pytest.raises(ValueError, match="different configs"):
        store.adopt_run(tmp_path, winner, before)


def test_runs_too_short_to_compare_select_no_rate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two evaluations"):
        carried_out(chosen(tmp_path, "DDQN", select_lr=True), lambda *_: None)


@pytest.mark.long
def test_real_command_selects_rates_and_trains_with_them(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit) as end:
        cli.main(["reproduce", "minatar", "--select-lr", "--game", "Breakout", "--method", "DDQN",
                  "--condition", "mp-tail", "--seeds", "0", "--steps", "10400", "--workers", "2",
                  "--runs", str(tmp_path)])  # fmt: skip
    assert end.value.code == 0
    trials = store.load_runs(tmp_path, ["minatar-rates"])
    assert sorted(trials["learning_rate"]) == sorted(rate_grid("DDQN"))
    assert set(trials["condition"]) == {"clean"}
    assert not any((tmp_path / "checkpoints").rglob("*.npz"))  # deleted once stored
    frame = store.load_runs(tmp_path, ["minatar"])
    assert frame.select("condition", "learning_rate").rows() == [
        ("mp-tail", selected_rates(trials)["Breakout", "DDQN"])
    ]


def test_the_package_has_an_encoder_of_the_papers_size_for_every_game() -> None:
    found = encoder_files()
    assert found.keys() == GAMES.keys()
    for game, file in found.items():
        codes = 32 if game == "SpaceInvaders" else 16
        assert file.config == EncoderConfig(game, (2, 1), codes, "bce", 0, 1_500_000, 100_000)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce", "minatar", "--game", "Pong"), "choose from Asterix, Breakout"),
        (("reproduce", "minatar", "--seeds", "-1"), "seed must be an int >= 0"),
        (("reproduce", "minatar", "--checkpoint-minutes", "0"), "positive and finite, got 0"),
        (("reproduce", "minatar", "--checkpoint-minutes", "-1"), "positive and finite, got -1"),
        (("reproduce", "minatar", "--checkpoint-minutes", "nan"), "positive and finite, got nan"),
        (("reproduce", "minatar", "--steps", "0"), "steps must be"),
        (("reproduce", "minatar", "--device", "banana"), "must be cpu or cuda, got 'banana'"),
        (("reproduce", "minatar", "--device", "cuda:99"), "device 'cuda:99': "),
        (("reproduce", "minatar", "--gpu-share", "0"), "--gpu-share must be in (0, 1]"),
        (("reproduce", "minatar", "--encoders", "nowhere"), "no encoder file or directory"),
        (
            ("reproduce", "exact", "--condition", "clean"),
            "--condition is for the study keys, minatar, pendulum or rivals-networks",
        ),
        (("reproduce", "grid", "--select-lr"), "--select-lr is for the study minatar"),
        (("reproduce", "testing", "--encoders", "."), "--encoders is for the study minatar"),
        (("reproduce", "testing", "--device", "cuda"), "--device is for the study minatar"),
        (("reproduce", "testing", "--gpu-share", "1"), "--gpu-share is for the study minatar"),
        (("reproduce", "exact", "--checkpoint-minutes", "0"), "--checkpoint-minutes is for the"),
        (("reproduce", "exact", "--no-keep-states"), "--no-keep-states is for the study minatar"),
        (("vqvae", "train", "--game", "Pong"), "choose from Asterix"),
        (("vqvae", "train", "--game", "Breakout", "--grid", "two"), "rows x columns"),
        (("vqvae", "train", "--game", "Breakout", "--codes", "0"), "codes must be from 2"),
        (("vqvae", "train", "--game", "Breakout", "--grid", "3x3", "--codes", "256"), "64 bits"),
        (("vqvae", "sweep", "--game", "Breakout", "--codes", "8", "0"), "codes must be from 2"),
        (("vqvae", "sweep", "--game", "Breakout", "--transitions", "0"), "at least 1, got 0"),
        (("vqvae", "inspect", "--transitions", "0"), "--transitions must be at least 1, got 0"),
        (("vqvae", "inspect", "nothing.npz"), "nothing.npz"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments, says, capsys, tmp_path, monkeypatch) -> None:
    """At once: nothing is collected, trained or written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    assert says in re.sub(r"[\s│]+", " ", said.out + said.err)
    assert not any(tmp_path.iterdir())


def test_other_seeds_than_the_papers_can_be_run(tmp_path: Path) -> None:
    choice = chosen(tmp_path, "PER", seeds=(7, 2, 7), condition=("clean",))
    assert [run.config.seed for run in study_named("minatar").runs(choice)] == [7, 2]
    assert {run.config.seed for run in study_named("minatar-rates").runs(choice)} == {7, 2}
    for run in study_named("minatar").runs(choice):
        store.save_run(tmp_path, run, curve_of(run.config, 3.0))
    lines = status_lines(tmp_path)
    assert lines[0] == "minatar, 100 steps: 1 of 150 runs done"
    assert "  and 1 runs with seeds that are not the paper's" in lines
    assert load(tmp_path)["seed"].to_list() == [2]  # the other is no part of the comparison

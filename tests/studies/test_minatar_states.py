"""Longer runs go on from the last states of finished ones; two runners do not collide."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from killed_job import small_run

import sibling_replay.checkpoint
from sibling_replay import cli
from sibling_replay.checkpoint import RollingCheckpoint, StateError
from sibling_replay.grouping.vqvae.files import encoder_files
from sibling_replay.running import store
from sibling_replay.running.jobs import Outcome, attempt
from sibling_replay.running.kept_states import KeptStates
from sibling_replay.running.runner import run_study
from sibling_replay.running.runs import Run
from sibling_replay.studies.minatar.choice import beginning_lines
from sibling_replay.studies.minatar.coverage import status_lines
from sibling_replay.studies.minatar.job import MinAtarJob, checkpoint_name
from sibling_replay.studies.minatar.runs import minatar_config, minatar_run

pytest.importorskip("torch")


def run_of(steps: int) -> Run:
    return minatar_run("minatar", replace(small_run().config, steps=steps))


class InThisProcess:
    """A backend without workers."""

    def __init__(self, job: MinAtarJob) -> None:
        self.job = job

    def execute(self, runs):
        for run in runs:
            yield Outcome(run, self.job(run.config))


def done(out: Path, steps: int, keep: bool = True) -> Path:
    """The file of a run, with what `reproduce` leaves behind."""
    states = out / "states" if keep else None
    job = MinAtarJob(out / "checkpoints", states=states)
    report = run_study([run_of(steps)], out, InThisProcess(job), jobs=job)
    assert report.failures == []
    return store.run_path(out, run_of(steps).id)


def test_longer_runs_go_on_from_finished_ones_to_the_same_bytes(tmp_path: Path) -> None:
    whole = done(tmp_path / "whole", 400, keep=False)
    assert not (tmp_path / "whole" / "states").exists()
    assert not any((tmp_path / "whole" / "checkpoints").iterdir())

    out = tmp_path / "runs"
    job = MinAtarJob(out / "checkpoints", states=out / "states")
    done(out, 150)
    done(out, 230)
    kept = KeptStates(out / "states")
    config = run_of(400).config
    assert [kept.furthest(replace(config, steps=steps)) for steps in (149, 150, 229, 400)] == [
        0, 150, 150, 230
    ]  # fmt: skip
    assert job.steps_done(run_of(400)) == 230  # pace and time left count from there
    assert beginning_lines(out, [config], job) == [
        f"1 run(s) go on from the ends of shorter runs, at step 230, in {out / 'states'}"
    ]
    said = "\n".join(status_lines(out))
    assert "unfinished" not in said
    assert "last states of 2 finished runs" in said

    for step in (150, 230):  # the one at 150 is not needed: it could be anything
        path = kept.path(replace(config, steps=step))
        assert path.exists()
    kept.path(replace(config, steps=150)).write_bytes(b"")
    assert done(out, 400).read_bytes() == whole.read_bytes()
    assert kept.furthest(config) == 400
    assert not any((out / "checkpoints").iterdir())


def test_without_their_states_longer_runs_start_from_zero_and_it_is_said(tmp_path: Path) -> None:
    done(tmp_path, 150)
    shutil.rmtree(tmp_path / "states")
    job = MinAtarJob(tmp_path / "checkpoints", states=tmp_path / "states")
    config = run_of(400).config
    start = "1 run(s) start from zero though shorter ones are finished: their last states are "
    assert beginning_lines(tmp_path, [config], job) == [f"{start}not in {tmp_path / 'states'}"]
    assert beginning_lines(tmp_path, [config], replace(job, states=None)) == [f"{start}not kept"]
    other = replace(config, gamma=0.5)  # has no shorter one
    assert beginning_lines(tmp_path, [other], job) == []
    assert job.begins_at(config) == 0


def test_a_damaged_state_is_named_and_does_not_start_again_silently(tmp_path: Path) -> None:
    done(tmp_path, 150)
    path = KeptStates(tmp_path / "states").path(run_of(150).config)
    path.write_bytes(path.read_bytes()[:5000])
    job = MinAtarJob(tmp_path / "checkpoints", states=tmp_path / "states")
    with pytest.raises(StateError, match=r"150\.npz"):
        job(run_of(400).config)


def test_whoever_was_killed_before_storing_has_the_result_at_once(tmp_path: Path) -> None:
    whole = done(tmp_path / "whole", 230)
    out = tmp_path / "runs"
    job = MinAtarJob(out / "checkpoints", states=out / "states")
    config = run_of(230).config
    job(config)  # and then nothing is stored
    state = KeptStates(out / "states").path(config)
    before = state.stat().st_mtime_ns
    assert done(out, 230).read_bytes() == whole.read_bytes()
    assert state.stat().st_mtime_ns == before


def test_states_of_another_device_are_not_taken(tmp_path: Path) -> None:
    config = small_run().config
    places = {KeptStates(tmp_path, device).path(config) for device in ("cpu", "cuda", "cuda:1")}
    assert len(places) == 2


def reproduce(out: Path, *more: str) -> int:
    command = ["reproduce", "minatar", "--game", "Breakout", "--method", "SAMPLE", "--condition",
               "clean", "--seeds", "0", "--steps", "120", "--workers", "1", "--runs",
               str(out)]  # fmt: skip
    with pytest.raises(SystemExit) as end:
        cli.main([*command, *more])
    return int(end.value.code or 0)


def test_a_second_runner_is_refused_by_name_and_the_first_keeps_its_run(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(sibling_replay.checkpoint, "PATIENCE", 0.1)
    digest = encoder_files()["Breakout"].encoder.digest
    config = minatar_config("Breakout", "SAMPLE", "clean", 0, encoder=digest, steps=120)
    checkpoint = RollingCheckpoint(tmp_path / "checkpoints" / checkpoint_name(config))
    with checkpoint.owned():
        checkpoint.save({"number": 1}, {})
        assert reproduce(tmp_path) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{checkpoint.directory.name} is in use by process" in said
        assert "wait until that ends" in said
        assert checkpoint.load() == ({"number": 1}, {})
        # and whoever was there before the other had begun: a sentence, not a traceback
        result, error, _ = attempt(MinAtarJob(tmp_path / "checkpoints"), config)
        assert result is None and error.count("\n") == 1
        assert error.startswith(f"{checkpoint.directory} is in use by process")
    assert not (tmp_path / "minatar").exists()


def test_the_command_says_where_it_begins_and_keeps_states(tmp_path: Path, capsys) -> None:
    assert reproduce(tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "encoder Breakout-2x1-16-bce-seed0: 2x1 codes of 16, bce, digest" in said
    (state,) = (tmp_path / "states").glob("*/120.npz")
    assert reproduce(tmp_path, "--steps", "160", "--no-keep-states") == 0
    said = capsys.readouterr().out
    assert (
        "start from zero though shorter ones are finished: their last states are not kept" in said
    )
    assert reproduce(tmp_path, "--steps", "180") == 0
    assert "1 run(s) go on from the ends of shorter runs, at step 120" in capsys.readouterr().out
    assert len(list(state.parent.iterdir())) == 2

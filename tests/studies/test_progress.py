"""What is seen of runs that take hours: how far they are, how fast, how long still."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
import study_jobs
from rich.console import Console
from study_jobs import RELEASED, fake_train, small_study

from sibling_replay.running import display, runner
from sibling_replay.running import local as local_backend
from sibling_replay.running.display import StudyDisplay
from sibling_replay.running.jobs import Outcome, Preparing
from sibling_replay.running.local import LocalBackend
from sibling_replay.running.progress_notes import NOTE, ProgressNotes, last_note
from sibling_replay.running.runner import run_study
from sibling_replay.studies.minatar.coverage import status_lines
from sibling_replay.studies.minatar.job import MinAtarJob
from sibling_replay.studies.tabular import TabularJob
from sibling_replay.training.config import METHODS, paper_config

RUNS = small_study(4)
STEPS = RUNS[0].config.steps


class StepsDone:
    """Runs stand where the test puts them."""

    def __init__(self, **steps: int) -> None:
        self.steps = {run.id: steps.get(f"run{i}", 0) for i, run in enumerate(RUNS)}
        self.forgotten: list[str] = []

    def steps_done(self, run):
        return self.steps[run.id]

    def forget(self, run):
        self.forgotten.append(run.id)


class Scripted:
    """A backend that says what it was told to, after the test has done something."""

    def __init__(self, *script):
        self.script = script

    def execute(self, runs):
        for act, outcome in self.script:
            act()
            yield outcome


def test_steps_under_way_give_pace_and_time_left(tmp_path, monkeypatch) -> None:
    """Two runs, the first resumed at 0.4 of its steps; times by hand."""
    now = [100.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    runs = RUNS[:2]
    jobs = StepsDone(run0=2 * STEPS // 5)

    def at(second, **steps):
        def act():
            now[0] = 100.0 + second
            jobs.steps |= StepsDone(**steps).steps

        return act

    def done(run, seconds):
        return Outcome(run, fake_train(run.config), "", seconds)

    seen = []
    script = (
        (at(10, run0=3 * STEPS // 5), None),
        (at(20, run0=STEPS // 2, run1=STEPS // 10), None),
        (at(30, run0=STEPS, run1=STEPS // 2), done(runs[0], 30)),
        (at(60, run1=STEPS), done(runs[1], 60)),
    )
    run_study(runs, tmp_path, Scripted(*script), seen.append, jobs)
    start, first, killed, ended, last = seen
    assert (start.steps, start.seconds_left, start.underway) == (0, None, 0.4)
    assert (first.steps, first.steps_left) == (STEPS // 5, 2 * STEPS // 5 + STEPS)
    assert first.seconds_left == pytest.approx(10 * 7)  # a fifth in ten seconds, seven to go
    assert first.underway == pytest.approx(0.6)
    assert killed.steps == STEPS // 5  # back at its checkpoint: 0.1 + 0.1 are of this call
    assert ended.steps == 3 * STEPS // 5 + STEPS // 2
    assert ended.seconds_left == pytest.approx(0.5 * 30 / 1.1)  # two at a time, not one
    assert (ended.done, ended.underway) == (1, 0.5)
    assert (last.done, last.underway, last.steps_left) == (2, 0.0, 0)
    assert last.seconds_left == 0
    assert jobs.forgotten == [run.id for run in runs]


def test_a_real_backend_lets_one_look_while_a_run_is_under_way(
    tmp_path, marks, monkeypatch
) -> None:
    monkeypatch.setattr(local_backend, "TICK", 0.05)
    jobs = StepsDone(run2=STEPS // 2)  # seeds from 2 on are held
    looks = []

    def observe(progress):
        looks.append(progress)
        if progress.done == 2 and progress.last is None:
            (marks / RELEASED).touch()

    report = run_study(
        RUNS, tmp_path / "runs", LocalBackend(study_jobs.held_train, 1), observe, jobs
    )
    assert (report.done, report.failures) == (4, [])
    assert any(look.done == 2 and look.last is None and look.underway == 0.5 for look in looks)
    assert len(jobs.forgotten) == 4


def test_compiling_is_no_part_of_the_pace(tmp_path, monkeypatch) -> None:
    """The first run begins 30 seconds after the call, and takes 5."""
    now = [100.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    seen = []
    script = (
        (lambda: now.__setitem__(0, 102.0), Preparing()),
        (
            lambda: now.__setitem__(0, 135.0),
            Outcome(RUNS[0], fake_train(RUNS[0].config), "", 5.0),
        ),
    )
    run_study(RUNS[:2], tmp_path, Scripted(*script), seen.append)
    start, preparing, ended = seen
    assert (start.preparing, preparing.preparing, ended.preparing) == (False, True, False)
    assert ended.steps_per_second == STEPS / 5.0
    assert ended.seconds_left == pytest.approx(5.0)  # for the second run


def test_a_worker_is_prepared_before_its_first_run_is_timed(tmp_path, marks, monkeypatch) -> None:
    """And alone: others start once its compiled kernels are on disk."""
    monkeypatch.setattr(local_backend, "TICK", 0.05)
    seen = []
    backend = LocalBackend(study_jobs.PreparedTrain(), 2)
    assert run_study(RUNS, tmp_path / "runs", backend, seen.append).done == 4
    assert any(look.preparing for look in seen) and not seen[-1].preparing
    assert all(look.last.seconds < 0.9 for look in seen if look.last)
    before = sorted(path.stat().st_mtime_ns for path in marks.glob("*.before"))
    after = sorted(path.stat().st_mtime_ns for path in marks.glob("*.after"))
    assert len(before) == 1 or after[0] <= before[1]


def test_preparing_the_trainer_compiles_all_of_it() -> None:
    from sibling_replay.training.tabular import loop

    TabularJob().prepare()
    compiled = list(loop.advance.signatures)
    for method in METHODS:
        config = paper_config(
            "TwoChains", method, 0, steps=200, learning_starts=50, diagnostics_every=100
        )
        assert TabularJob()(config).updates == 151
    assert loop.advance.signatures == compiled


def progress(**changes) -> runner.Progress:
    settled = runner.Progress(
        total=4, already=1, done=0, failed=0, underway=0.0, steps=0, steps_left=100, seconds=0.0,
        seconds_left=None,
    )  # fmt: skip
    return replace(settled, **changes)


def test_the_bar_moves_within_a_run() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with StudyDisplay(console, "minatar") as shown:
        shown.observe(progress())
        shown.observe(
            progress(underway=0.5, steps=200, steps_left=50, seconds=2.0, seconds_left=61.0)
        )
        assert shown.bar.tasks[0].completed == 1.5
        assert shown.bar.tasks[0].fields["rate"] == "100 steps/s"
        assert shown.bar.tasks[0].fields["left"] == "1 min 01 s left"


def test_that_kernels_are_compiled_is_said_once() -> None:
    console = Console(file=io.StringIO(), width=100)
    with StudyDisplay(console, "train") as shown:
        shown.observe(progress())
        shown.observe(progress(preparing=True))
        shown.observe(progress(preparing=True))
    assert console.file.getvalue().splitlines()[1:] == [  # type: ignore[attr-defined]
        "starting (the first time, kernels are compiled: a minute or two)"
    ]


def test_a_log_has_news_now_and_then(monkeypatch) -> None:
    console = Console(file=io.StringIO(), width=100)
    with StudyDisplay(console, "minatar") as shown:
        shown.observe(progress())
        shown.observe(progress(underway=0.5))  # too soon for news
        monkeypatch.setattr(display, "NEWS_EVERY", -1.0)
        shown.observe(progress(underway=0.5, steps=200, seconds=2.0, seconds_left=61.0))
        shown.observe(progress())  # nothing known: nothing said
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert said == [
        "minatar: 4 runs, 1 already done, 3 to do",
        "[1/4] 37.5% of all  100 steps/s  1 min 01 s left",
    ]


def test_a_minatar_run_notes_how_far_it_is(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from killed_job import small_run

    from sibling_replay.training.minatar.session import Session

    job = MinAtarJob(tmp_path / "checkpoints")
    run = small_run()
    assert job.steps_done(run) == 0
    job(run.config)
    directory = job.checkpoint(run.config).directory
    noted = last_note(directory)
    assert noted is not None and 0 < noted.step <= noted.steps == run.config.steps
    assert job.steps_done(run) == noted.step and 0 <= noted.seconds_ago < 60

    said = "\n".join(status_lines(tmp_path))
    assert f"unfinished, has a checkpoint: {directory.name}\n" in said
    assert re.search(rf"    step {noted.step:,} of {run.config.steps:,}.*, \d+ s ago", said)

    (tmp_path / "file").touch()  # no directory can be made here: no note, and no failure
    ProgressNotes(tmp_path / "file" / "below")(Session(run.config))

    for damage in ("", "{", '{"step": 1}', "[1]"):
        (directory / NOTE).write_text(damage)
        assert last_note(directory) is None and job.steps_done(run) == 0
    job.forget(run)
    assert not directory.exists()
    job.forget(run)

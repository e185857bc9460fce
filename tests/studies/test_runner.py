"""Whatever dies, finished runs stay, the rest is done, and the bytes are the same."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import study_jobs
from study_jobs import RELEASED, attempts, held, small_study

from sibling_replay.running.jobs import attempt
from sibling_replay.running.local import LocalBackend, WorkersCannotStart
from sibling_replay.running.runner import run_study

RUNS = small_study()


def contents(root):
    """Every file below root, hidden ones too, with its bytes."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    root = tmp_path_factory.mktemp("uninterrupted")
    report = run_study(RUNS, root, LocalBackend(study_jobs.fake_train, 1))
    assert (report.done, report.failures) == (len(RUNS), [])
    assert len(contents(root)) == len(RUNS)
    return contents(root)


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def gone(pid):
    """No such process, or only its entry waiting to be read by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def start_runner(root, workers, train="slow_train"):
    script = str(Path(study_jobs.__file__))
    return subprocess.Popen(
        [sys.executable, script, str(root), str(workers), train],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_worker_count_does_not_change_a_byte(tmp_path, uninterrupted):
    run_study(RUNS, tmp_path, LocalBackend(study_jobs.fake_train, 3))
    assert contents(tmp_path) == uninterrupted


def test_rerun_does_only_what_is_missing(tmp_path, uninterrupted):
    run_study(RUNS[:5], tmp_path, LocalBackend(study_jobs.fake_train, 1))
    (tmp_path / f"{RUNS[2].id}.parquet").unlink()
    seen = []
    report = run_study(RUNS, tmp_path, LocalBackend(study_jobs.fake_train, 1), seen.append)
    assert (report.already, report.done) == (4, 4)
    assert [p.last.run.id for p in seen if p.last] == [RUNS[i].id for i in (2, 5, 6, 7)]
    assert contents(tmp_path) == uninterrupted
    again = run_study(RUNS, tmp_path, LocalBackend(study_jobs.fake_train, 1))
    assert (again.already, again.done) == (8, 0)


def test_killed_runner_loses_only_what_was_in_flight(tmp_path, marks, uninterrupted):
    """`kill -9` of the runner, twice, at different moments, then a run to the end."""
    root = tmp_path / "runs"
    for enough in (1, 4):
        runner = start_runner(root, 2)
        wait_for(lambda enough=enough: len(contents(root)) >= enough)
        before = contents(root)
        runner.kill()
        runner.communicate()
        workers = [int(path.stem) for path in marks.iterdir()]
        wait_for(lambda: all(gone(pid) for pid in workers))  # noqa: B023
        kept = {name: data for name, data in contents(root).items() if not name.endswith(".tmp")}
        assert before.items() <= contents(root).items()  # nothing finished was lost
        assert kept.items() <= uninterrupted.items()  # and nothing is half there
    assert len(kept) < len(RUNS)
    runner = start_runner(root, 2)
    out, err = runner.communicate(timeout=60)
    assert runner.returncode == 0, err
    assert contents(root) == uninterrupted
    assert f"done {len(RUNS) - len(kept)}" in out  # it did the rest and no more


def test_leftover_temporary_file_is_removed(tmp_path, uninterrupted):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    place = (tmp_path / f"{RUNS[0].id}.parquet").parent
    place.mkdir(parents=True)
    (place / f".seed=0.parquet@{dead.pid}@{os.uname().nodename}.tmp").write_bytes(b"half a file")
    run_study(RUNS, tmp_path, LocalBackend(study_jobs.fake_train, 1))
    assert contents(tmp_path) == uninterrupted


def test_killed_workers_are_replaced(tmp_path, marks, uninterrupted):
    """`kill -9` of two workers in mid-run, from outside."""
    root = tmp_path / "runs"
    runner = start_runner(root, 2, "held_train")
    killed = set()
    for _ in range(2):
        wait_for(lambda: held(marks) - killed)
        victim = min(held(marks) - killed)
        os.kill(victim, signal.SIGKILL)
        killed.add(victim)
    (marks / RELEASED).touch()
    _, err = runner.communicate(timeout=60)
    assert runner.returncode == 0, err
    assert contents(root) == uninterrupted
    assert len(list(marks.glob("*.pid"))) >= 3  # somebody took the place of the dead
    assert len(attempts(marks)) == len(RUNS) + 2  # and did what they were doing


def test_a_job_whose_worker_died_is_tried_again(tmp_path, marks, uninterrupted):
    report = run_study(RUNS, tmp_path / "runs", LocalBackend(study_jobs.dies_once_train, 2))
    assert (marks / "died").exists()
    assert report.failures == []
    assert contents(tmp_path / "runs") == uninterrupted


def test_a_job_that_kills_every_worker_is_given_up(tmp_path):
    report = run_study(RUNS, tmp_path, LocalBackend(study_jobs.deadly_train, 2, retries=1))
    assert report.done == len(RUNS) - 1
    (failure,) = report.failures
    assert failure.run == RUNS[1]
    assert "died 2 times, the last killed by SIGKILL" in failure.error


def test_a_failing_run_stops_nothing_and_is_reported(tmp_path, uninterrupted):
    report = run_study(RUNS, tmp_path, LocalBackend(study_jobs.raising_train, 2))
    (failure,) = report.failures
    assert failure.run.id == "grid/OutlierBandit/PER/alpha=0.1/beta=0/seed=1"
    assert "Traceback" in failure.error and "seed 1 does not like you" in failure.error
    missing = uninterrupted.keys() - contents(tmp_path).keys()
    assert missing == {f"{failure.run.id}.parquet"}


def test_workers_that_cannot_start_are_an_error(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(study_jobs.fake_train, "__module__", "study_jobs_elsewhere")
    monkeypatch.setitem(sys.modules, "study_jobs_elsewhere", study_jobs)
    with pytest.raises(WorkersCannotStart, match="2 workers in a row died while starting"):
        run_study(RUNS, tmp_path, LocalBackend(study_jobs.fake_train, 1, retries=1))
    assert "study_jobs_elsewhere" in capfd.readouterr().err


def test_interrupt_ends_cleanly(tmp_path, marks):
    """Ctrl-C reaches the whole foreground group, but only the runner answers; no worker is left."""
    root = tmp_path / "runs"
    runner = start_runner(root, 2)
    wait_for(lambda: len(contents(root)) >= 1)
    os.killpg(runner.pid, signal.SIGINT)
    _, err = runner.communicate(timeout=30)
    assert runner.returncode != 0
    assert err.endswith("KeyboardInterrupt\n\n") or err.endswith("KeyboardInterrupt\n")
    assert "SpawnProcess" not in err
    wait_for(lambda: all(gone(int(path.stem)) for path in marks.iterdir()))
    assert not [name for name in contents(root) if name.endswith(".tmp")]


def test_progress_counts(tmp_path):
    run_study(RUNS[:2], tmp_path, LocalBackend(study_jobs.fake_train, 1))
    seen = []
    run_study(RUNS, tmp_path, LocalBackend(study_jobs.raising_train, 1), seen.append)
    assert (seen[0].total, seen[0].already, seen[0].seconds_left) == (8, 2, None)
    assert seen[0].steps_left == 6 * 50_000
    assert (seen[-1].done, seen[-1].failed, seen[-1].steps_left) == (6, 0, 0)
    assert seen[-1].steps == 6 * 50_000 and seen[-1].steps_per_second > 0


def test_at_least_one_worker():
    with pytest.raises(ValueError, match="at least 1"):
        LocalBackend(study_jobs.fake_train, 0)


def test_a_disk_error_of_a_job_is_said_in_a_line(tmp_path):
    """A user can do nothing with the traceback of a full disk."""

    def on_a_full_disk(config):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "checkpoint.npz"))

    result, why, _ = attempt(on_a_full_disk, None)
    assert result is None
    assert why == f"OSError: [Errno 28] No space left on device: '{tmp_path / 'checkpoint.npz'}'"

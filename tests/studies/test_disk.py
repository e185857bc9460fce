"""A disk that fails: one line that names the place, a code other than 0, and nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import study_jobs

SOME = ("--env", "TwoChains", "--method", "PER", "--workers", "1")
COMMAND = """
import os, resource
import study_jobs
from sibling_replay import cli
from sibling_replay.studies.tabular import TabularStudy

TabularStudy.job = lambda *_: study_jobs.fake_train
{before}
if __name__ == "__main__":
    cli.main()
"""
AS_NOBODY = """
from sibling_replay.running import runner
probe = runner.make_writable
def as_nobody(place):  # no permission stops root; and nobody may not read this environment's files
    root = os.geteuid() == 0
    if root: os.seteuid(65534)
    try:
        probe(place)
    finally:
        if root: os.seteuid(0)
runner.make_writable = as_nobody
"""


def command(*arguments, before="", stdout=subprocess.PIPE):
    """The command in a process of its own, with an instant trainer."""
    path = [str(Path(study_jobs.__file__).parent), *sys.path]
    return subprocess.run(
        [sys.executable, "-c", COMMAND.format(before=before), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


def contents(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def only_line(done):
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_out_that_is_a_file_is_found_before_any_run(tmp_path, marks):
    out = tmp_path / "file"
    out.write_text("in the way")
    slow = "TabularStudy.job = lambda *_: study_jobs.slow_train"
    for place in (out, out / "below"):
        done = command("reproduce", "testing", *SOME, "--runs", place, before=slow)
        assert only_line(done).startswith(f"sibling-replay: {place}: Not a directory")
    assert list(marks.iterdir()) == [] and out.read_text() == "in the way"


def test_out_that_may_not_be_written_is_found_before_any_run():
    place = Path(tempfile.mkdtemp())  # pytest's own are closed to other users
    try:
        place.chmod(0o555)
        done = command("reproduce", "testing", *SOME, "--runs", place, before=AS_NOBODY)
        assert only_line(done).startswith(f"sibling-replay: {place}: Permission denied")
        assert "FAILED" not in done.stdout and list(place.iterdir()) == []
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("limit, named", [(3_000, "runs"), (6_000, "seed=1.parquet")])
def test_a_full_disk_keeps_what_was_stored(tmp_path, limit, named):
    """Full before the first run, or when the run is to be stored."""
    out = tmp_path / "runs"
    assert command("reproduce", "testing", *SOME, "--seeds", 0, "--runs", out).returncode == 0
    before = contents(out)
    assert len(before) == 1 and min(map(len, before.values())) > 6_000
    full = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    done = command("reproduce", "testing", *SOME, "--runs", out, before=full)
    assert f"{named}: File too large; what was finished before is kept" in only_line(done)
    assert contents(out) == before
    assert command("reproduce", "testing", *SOME, "--runs", out).returncode == 0
    assert before.items() < contents(out).items()


FULL = "sibling-replay: standard output cannot be written: No space left"


def test_a_full_standard_output_is_said_on_the_other(tmp_path):
    out = tmp_path / "runs"
    with open("/dev/full", "w") as full:
        done = command("status", "--runs", out, stdout=full)
        assert only_line(done).startswith(FULL)
        done = command("reproduce", "testing", *SOME, "--runs", out, stdout=full)
        assert only_line(done).startswith(FULL)
    assert command("reproduce", "testing", *SOME, "--runs", out).returncode == 0


def test_foreign_temporary_files_do_not_stop_a_study(tmp_path):
    host = os.uname().nodename
    foreign = tmp_path / "testing" / f".x@abc@{host}.tmp"
    foreign.parent.mkdir()
    foreign.touch()
    done = command("reproduce", "testing", *SOME, "--seeds", 0, "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert foreign.exists() and "1 done" in done.stdout

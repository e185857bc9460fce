"""The real command at a real terminal, pipe or full disk: whoever reads it, it does its work."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tomllib
from diagnose_kit import small_columns

from sibling_replay import terminal
from support.marks import long_but_for
from support.studies import study

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULE, _, FUNCTION = PROJECT["scripts"]["sibling-replay"].partition(":")
ENTRY = f"import {MODULE}; {MODULE}.{FUNCTION}()"  # what the installed script does
COMMAND = [sys.executable, "-c", ENTRY]

# the same with instant runs
FAKED = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    "import study_jobs\n"
    "from sibling_replay import cli\nfrom sibling_replay.studies.tabular import TabularStudy\n"
    "TabularStudy.job = lambda *_: study_jobs.{job}\n"
)
EXACT = ("table", "exact", "--runs", str(ROOT / "results" / "exact.parquet"))


def command(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, **options)


def faked(job: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", FAKED.format(job=job) + ENTRY, *arguments]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ± α", "plain ± α"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\tc\r\x7f\x9b", r"a\nb\tc\r\x7f\x9b"),
        ("\u202egnp.exe\u200b\u2028", r"\u202egnp.exe\u200b\u2028"),
        (b"\xff.npz".decode(errors="surrogateescape"), r"\udcff.npz"),
    ],
)
def test_nothing_of_a_file_is_obeyed(text, shown):
    assert terminal.printable(text) == shown
    assert terminal.printable_lines(f"{text}\nb").endswith("\nb")


def test_encodings_without_a_character_get_a_stand_in():
    assert terminal.encodable("1 ± 2 − 3 Σ █ 鳥", "ascii") == r"1 +- 2 - 3 sum # \u9ce5"
    assert terminal.encodable("1 ± 2 █", "latin-1") == "1 ± 2 #"
    assert terminal.encodable("1 ± 2 █", "utf-8") == "1 ± 2 █"


@pytest.mark.parametrize("encoding", long_but_for(("ascii", "latin-1"), {"ascii"}))
def test_every_encoding_shows_tables_help_and_diagnosis(encoding, tmp_path):
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    table = command(*EXACT, env=env)
    assert (table.returncode, table.stderr) == (0, b"")
    text = table.stdout.decode(encoding)
    assert ("1.590 +- 0.040" if encoding == "ascii" else "1.590 ± 0.040") in text
    assert len({len(line) for line in text.splitlines() if line[0] in "|+"}) == 1  # aligned
    help_ = command("train", "--help", env=env)
    assert (help_.returncode, help_.stderr) == (0, b"")
    assert b"--alpha" in help_.stdout
    np.savez(tmp_path / "some.npz", **small_columns())
    diagnosis = command("diagnose", str(tmp_path / "some.npz"), env=env)
    assert (diagnosis.returncode, diagnosis.stderr) == (0, b"")
    text = diagnosis.stdout.decode(encoding)
    assert "####" in text and ("(sum w)^2" if encoding == "ascii" else "(sum w)²") in text


def test_file_names_that_are_no_text_are_said(tmp_path):
    name = os.fsencode(tmp_path) + b"/\x1b[2J\xff.npz"
    done = command("diagnose", os.fsdecode(name))
    assert done.returncode == 2
    assert rb"/\x1b[2J\udcff.npz" in done.stderr and b"\x1b" not in done.stderr


def test_a_study_goes_on_when_its_reader_has_seen_enough(tmp_path):
    """`reproduce testing | head -1`"""
    arguments = faked("fake_train", "reproduce", "testing", "--workers", "1", "--runs", tmp_path)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == b"testing: 12 runs, 0 already done, 12 to do\n"
        run.stdout.close()
        said = run.stderr.read()
    assert (run.returncode, said) == (0, b"")
    assert len(list(tmp_path.rglob("*.parquet"))) == len(study("testing")) == 12


@pytest.mark.parametrize("arguments", [("--help",), EXACT])
def test_a_closed_pipe_is_no_failure(arguments):
    """`| head -0`: both streams closed before the first word."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_standard_output_is_said():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, *EXACT], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    why = b"sibling-replay: standard output cannot be written: No space left on device\n"
    assert done.stderr == why


# Stops where a module is imported, and says so: the test interrupts it there.
HELD = """
import sys, time
class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print(name, flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Hold())
"""


@pytest.mark.parametrize("module", ["sibling_replay", "numba", "polars", "sibling_replay.cli"])
def test_ctrl_c_while_it_is_still_importing(module):
    held = [sys.executable, "-c", HELD.format(module=module) + ENTRY, "status"]
    with subprocess.Popen(held, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == f"{module}\n".encode()
        run.send_signal(signal.SIGINT)
        said = run.stderr.read()
    assert (run.returncode, said) == (130, b"\ninterrupted\n")


def test_the_entry_point_imports_nothing_slow():
    code = f"import sys, {MODULE}; print(len(sys.modules), 'sibling_replay' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, package = done.stdout.split()
    assert package == "False" and int(modules) < 120


def at_terminal(arguments, ready=lambda seen: True, key: bytes = b"") -> tuple[int, bytes]:
    """Exit code and output at a terminal of its own; `key` is typed once it is `ready`."""
    process, screen = pty.fork()
    if process == 0:  # pragma: no cover
        os.execv(arguments[0], arguments)
    seen, typed = b"", False
    while True:
        try:
            seen += os.read(screen, 4096)
        except OSError:  # the terminal's other side is closed: the command has ended
            break
        if key and not typed and ready(seen):
            os.write(screen, key)
            typed = True
    _, status = os.waitpid(process, 0)
    os.close(screen)
    return os.waitstatus_to_exitcode(status), seen


def test_ctrl_c_at_a_terminal_ends_a_study_in_order(tmp_path, marks):
    arguments = faked("held_train", "reproduce", "grid", "--workers", "2", "--runs", str(tmp_path))

    def both_hold_a_job(seen: bytes) -> bool:  # jobs are held from seed 2 on
        return b"2/960 runs" in seen and len(list(marks.glob("*.pid"))) == 2

    code, seen = at_terminal(arguments, both_hold_a_job, b"\x03")
    assert code == 130
    assert b"interrupted: finished runs are kept, the same command goes on" in seen
    assert b"Traceback" not in seen
    end = time.monotonic() + 30
    workers = [int(path.stem) for path in marks.glob("*.pid")]
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(workers) == 2


def test_a_file_cannot_steer_the_terminal(tmp_path):
    """Strings of a file, its column names and its own name: shown, never obeyed."""
    columns = small_columns()
    columns["na\x1b[5mme"] = np.array(["\x1b]0;title\x07[bold]x[/]", "b\nc"] * 30)
    path = tmp_path / "evil\x1b[2J.npz"
    np.savez(path, **columns)
    arguments = [*COMMAND, "diagnose", str(path), "--group-by", "na\x1b[5mme"]
    code, seen = at_terminal(arguments)
    assert code == 0
    ours = re.sub(rb"\x1b\[[0-9;]*m", b"", seen)  # rich's colours
    assert b"\x1b" not in ours and b"\x07" not in ours
    flat = re.sub(rb"\s+", b" ", ours)
    assert rb"na\x1b[5mme \x1b]0;title\x07[bold]x[/]" in flat and rb"b\nc" in flat
    assert rb"evil\x1b[2J.npz" in flat

"""The README's Python is run, block by block, in order and in one namespace, as a reader would.

A block that is only an illustration opens with ```python no-run; every other ```python is run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
FENCE = re.compile(r"^```python[ \t]*(?P<mark>[^\n]*)\n(?P<code>.*?)^```", re.M | re.S)

CONSOLE = re.compile(r"^```console\n\$ (?P<lines>.*?)^```", re.M | re.S)


def runnable(text: str) -> list[tuple[int, str]]:
    """Line and code of every block to run."""
    return [
        (text.count("\n", 0, found.start("code")) + 1, found["code"])
        for found in FENCE.finditer(text)
        if "no-run" not in found["mark"]
    ]


def test_blocks_are_found() -> None:
    text = "a\n```python\nx = 1\n```\n```python no-run\ny\n```\n```bash\nz\n```\n"
    text += "```python\nw = 2\n```\n"
    assert runnable(text) == [(3, "x = 1\n"), (12, "w = 2\n")]


def test_the_readme_shows_the_buffer() -> None:
    """The main snippet: make, add, sample, update."""
    code = "".join(block for _, block in runnable(README.read_text()))
    for call in ("ReplayBuffer.for_env(", ".add(", ".sample(", ".update_priorities("):
        assert call in code, f"no runnable block calls {call}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the README was run: in a process of its own, warnings being errors, away from the
    repository's files."""
    directory = tmp_path_factory.mktemp("readme")
    blocks = runnable(README.read_text())
    script = "".join(
        f"\nexec(compile({chr(10) * (line - 1) + code!r}, 'README.md', 'exec'), globals())\n"
        for line, code in blocks
    )
    (directory / "readme.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "readme.py"],
        cwd=directory, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return directory


def test_the_readme_runs(ran: Path) -> None:
    assert (ran / "bandit.npz").exists()


def test_the_readme_shows_what_the_command_prints(ran: Path) -> None:
    """Line by line and in order; `...` stands for lines left out."""
    command, *shown = CONSOLE.search(README.read_text())["lines"].splitlines()
    name, *arguments = command.split()
    assert name == "sibling-replay"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sibling_replay", *arguments],
        cwd=ran, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert len(shown) > 15
    position = 0
    for line in shown:
        if line == "...":
            continue
        assert line in printed[position:], f"not printed, or not there: {line!r}"
        position += printed[position:].index(line) + 1
    assert (ran / "bandit.html").read_text().startswith("<!DOCTYPE html>")
    assert (ran / "bandit.json").exists()

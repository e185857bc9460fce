"""The README's Python is run, block by block, in order and in one namespace, as a reader would.

A block that is only an illustration opens with ```python no-run; every other ```python is run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
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


def test_the_first_loop_averages() -> None:
    """The TD error of an entry is that of its group's mean target, computed here by hand."""
    _, code = runnable(README.read_text())[0]
    code = code.replace("SiblingSample", "SiblingAverage").replace("range(2_000)", "range(300)")
    scope: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), scope)
    batch, q, buffer = scope["batch"], scope["q"], scope["buffer"]
    stored = buffer.transitions()
    # A table of values in place of the learnt one, with targets that differ within a group.
    q[:] = np.random.default_rng(0).random(q.shape)
    inner = textwrap.dedent(code[code.index("    batch = buffer.sample") :])
    exec(compile(inner.replace("np.add.at(q", "np.add.at(q.copy()"), "README.md", "exec"), scope)
    batch, td = scope["batch"], scope["td"]
    targets = stored["reward"] + 0.99 * ~stored["terminated"] * q[stored["next_obs"]].max(axis=1)
    groups = buffer.groups
    spread = 0.0
    for b, group in enumerate(batch.groups):
        mean = targets[groups == group].mean()
        assert np.isclose(td[b], mean - q[batch.obs[b], batch.action[b]])
        spread = max(spread, float(np.ptp(targets[groups == group])))
    assert spread > 0.1


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

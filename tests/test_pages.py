"""Every code block of the README and of the site is run, or read by what it is for.

Python in a process of its own, warnings being errors; console output against what is printed;
commands against the parsers of those they call.
"""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sibling_replay import cli
from support.pages import (
    PAGES,
    README,
    ROOT,
    Block,
    blocks_of,
    environment_of,
    name_of,
    python_of,
    script_of,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

TEXTS = {name_of(path): path.read_text() for path in PAGES}
LANGUAGES = {"python", "sh", "console", "toml", "text"}
RUN = [path for path in PAGES if environment_of(path.read_text()) == "core" and python_of(path)]
COMMANDS = [
    (name, command.strip())
    for name, text in TEXTS.items()
    for block in blocks_of(text)
    if block.language == "sh"
    for line in block.code.splitlines()
    for command in line.split("#")[0].split("&&")
    if command.strip()
]
MICROSCOPE = "docs/use/microscope.md"


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=directory, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_blocks_are_found() -> None:
    text = "a\n```python\nx = 1\n```\n```python no-run\ny\n```\n```sh\nz\n```\n"
    text += "    ```python\n    w = 2\n    ```\n"
    assert blocks_of(text) == [
        Block(3, "python", "", "x = 1\n"),
        Block(6, "python", "no-run", "y\n"),
        Block(9, "sh", "", "z\n"),
        Block(12, "python", "", "    w = 2\n"),
    ]
    assert [block.runs for block in blocks_of(text)] == [True, False, False, True]
    assert environment_of(text) == "core"
    assert environment_of("---\nenvironment: sb3\n---\n# SB3\n") == "sb3"


def test_the_readme_is_one_page() -> None:
    assert len(README.read_text().splitlines()) <= 160


def test_the_readme_shows_the_buffer() -> None:
    """The main snippet: make, add, sample, update."""
    code = "".join(block.code for block in python_of(README))
    for call in ("ReplayBuffer.for_env(", ".add(", ".sample(", ".update_priorities("):
        assert call in code, f"no runnable block calls {call}"


def test_the_first_loop_averages() -> None:
    """The TD error of an entry is that of its group's mean target, computed here by hand."""
    code = python_of(README)[0].code
    assert code == python_of("start/five-minutes.md")[0].code
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


def test_there_are_pages_to_run() -> None:
    """Those whose code a reader types; a page that loses all of its blocks is noticed."""
    assert {name_of(path) for path in RUN} >= {
        "README.md",
        MICROSCOPE,
        *(f"docs/start/{page}.md" for page in ("five-minutes",)),
        *(f"docs/understand/{page}.md" for page in ("strategies",)),
        *(f"docs/use/{page}.md" for page in ("buffer", "keys", "dqn", "saving")),
        *(f"docs/extend/{page}.md" for page in ("strategy", "grouping", "environment", "study")),
        "docs/extend/host.md",
        "docs/reproduce/own.md",
    }


@pytest.mark.parametrize("path", [p for p in RUN if name_of(p) != MICROSCOPE], ids=name_of)
def test_the_page_runs(path: Path, tmp_path: Path) -> None:
    """Away from the repository's files."""
    (tmp_path / "page.py").write_text(script_of(path))
    run(["page.py"], tmp_path)


def test_the_microscope_prints_what_is_shown(tmp_path: Path) -> None:
    """Line by line and in order; `...` stands for lines left out."""
    (tmp_path / "page.py").write_text(script_of(ROOT / MICROSCOPE))
    run(["page.py"], tmp_path)
    consoles = [block for block in blocks_of(TEXTS[MICROSCOPE]) if block.language == "console"]
    assert len(consoles) == 1
    command, *shown = consoles[0].code.removeprefix("$ ").splitlines()
    name, *arguments = command.split()
    assert name == "sibling-replay"
    done = run(["-m", "sibling_replay", *arguments], tmp_path)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert len(shown) > 15
    position = 0
    for line in shown:
        if line == "...":
            continue
        assert line in printed[position:], f"not printed, or not there: {line!r}"
        position += printed[position:].index(line) + 1
    assert (tmp_path / "bandit.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "bandit.json").exists()


def test_output_is_shown_only_where_it_is_compared() -> None:
    shown = {n for n, text in TEXTS.items() for b in blocks_of(text) if b.language == "console"}
    assert shown == {MICROSCOPE}


@pytest.mark.parametrize("name", TEXTS)
def test_every_block_says_what_it_is(name: str) -> None:
    for block in blocks_of(TEXTS[name]):
        assert block.language in LANGUAGES, f"{name}:{block.line}: {block.language!r}"
        assert block.mark in ("", "no-run"), f"{name}:{block.line}: {block.mark!r}"


def test_what_is_only_shown_is_run_elsewhere() -> None:
    """SB3's lines in the README: by the tests of SB3."""
    shown = {
        (name, block.code.strip().splitlines()[0].strip())
        for name, text in TEXTS.items()
        for block in blocks_of(text)
        if block.mark == "no-run"
    }
    assert shown == {
        ("README.md", "from sibling_replay import SiblingSample"),
    }


def test_pages_of_hosts_are_run_by_their_tests() -> None:
    hosts = {environment_of(text): name for name, text in TEXTS.items()}
    assert set(hosts) == {"core", "sb3", "tianshou", "torchrl", "rllib"}
    for host, name in hosts.items():
        tests = (ROOT / "tests" / "integrations" / host).glob("test_*.py")
        page = name.removeprefix("docs/")
        assert host == "core" or any(f'"{page}"' in test.read_text() for test in tests), name


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_commands_are_understood(name: str, command: str, monkeypatch) -> None:
    """Read by the command's own parser, found in the Makefile, or files and extras that exist."""
    program, *words = shlex.split(command)
    if program == "make":
        rules = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{re.escape(word)}\b.*:", rules, re.M) for word in words)
    elif program == "pip":
        assert words[0] == "install" and len(words) == 2
        extras = re.findall(r"\[([\w,]+)\]", words[1])
        known = (ROOT / "pyproject.toml").read_text()
        for extra in extras[0].split(",") if extras else ():
            assert re.search(rf"^{extra} = \[", known, re.M), extra
    elif program == "python":
        assert (ROOT / words[0]).is_file()
    else:
        assert program == "sibling-replay", f"{name}: {command}"
        assert _arguments_of(words, monkeypatch), f"{name}: {command}"


def _arguments_of(words: list[str], monkeypatch) -> dict[str, Any]:
    """What a command would be called with, by its own parser; it is not carried out."""
    called: dict[str, Any] = {}

    def only_noted(function):
        @functools.wraps(function)
        def note(*positional, **named):
            called.update(named, _given=positional, _name=function.__name__)
            return 0

        return note

    name = words[0].replace("-", "_")
    monkeypatch.setattr(cli, name, only_noted(getattr(cli, name)))
    assert cli._command(words) == 0
    return called


def test_a_wrong_command_is_noticed(monkeypatch, capsys) -> None:
    assert _arguments_of(["table", "exact"], monkeypatch)["_name"] == "table"
    with pytest.raises(SystemExit):
        _arguments_of(["table", "--no-such-option"], monkeypatch)
    capsys.readouterr()


@pytest.mark.skipif(tomllib is None, reason="tomllib came with Python 3.11")
def test_toml_is_toml() -> None:
    found = [b.code for text in TEXTS.values() for b in blocks_of(text) if b.language == "toml"]
    assert len(found) >= 2
    for code in found:
        assert list(tomllib.loads(code)["project"]["entry-points"])

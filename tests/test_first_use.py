"""What a first user waits for, and what he is told meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sibling_replay.first_use import LINE, QUIET, Notice

SOURCES = Path(__file__).parent.parent / "src"

# A plain user of a strategy, from an empty cache: which functions are compiled, and for how long.
USER = """
import sys, time
import numpy as np
import sibling_replay as sr
from numba.core import event

class Names(event.Listener):
    names = []
    def on_start(self, e):
        function = e.data["dispatcher"].py_func
        self.names.append(f"{function.__module__}.{function.__name__}")
    def on_end(self, e):
        pass

event.register("numba:compile", Names())
start = time.process_time()
whole, truth = sr.Field(np.dtype(np.int64)), sr.Field(np.dtype(np.bool_))
fields = dict(obs=whole, action=whole, reward=sr.Field(np.dtype(np.float32)), next_obs=whole,
              terminated=truth, truncated=truth)
buffer = sr.ReplayBuffer(fields, 100, getattr(sr, sys.argv[1])(), seed=0)
for step in range(110):
    buffer.add(step % 5, 0, 0.0, 1, False, False)
batch = buffer.sample(32, 0.4)
batch.average(batch.outcomes.reward)
buffer.update_priorities(batch, np.ones(32))
print(time.process_time() - start)
print(*(name for name in Names.names if name.startswith("sibling_replay")))
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def of(module: str) -> Any:
    """An event of Numba's about a function of a module."""
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


OURS, INNER, THEIRS = of("sibling_replay.replay.memory"), of("numba.np.arrayobj"), of("mine")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> tuple[Notice, Clock]:
    monkeypatch.delenv(QUIET, raising=False)
    clock = Clock()
    return Notice(clock), clock


def test_two_seconds_pass_in_silence_then_one_line_comes_while_it_compiles(
    heard: tuple[Notice, Clock], capsys: pytest.CaptureFixture[str]
) -> None:
    notice, clock = heard
    notice.on_start(OURS)
    clock.now += 1.9
    notice.on_start(INNER)
    assert capsys.readouterr() == ("", "")
    clock.now += 0.2
    notice.on_end(INNER)
    notice.on_start(INNER)
    assert capsys.readouterr() == ("", LINE)
    assert LINE.count("\n") == 1 and "warm-up" in LINE
    clock.now += 60.0
    notice.on_start(OURS)
    notice.on_end(OURS)
    notice.on_end(INNER)
    notice.on_end(OURS)
    assert notice.kernels == 1
    notice.on_start(OURS)
    assert capsys.readouterr() == ("", "")


def test_kernels_add_up_but_what_lies_between_them_does_not(
    heard: tuple[Notice, Clock], capsys: pytest.CaptureFixture[str]
) -> None:
    notice, clock = heard
    for _ in range(2):
        notice.on_start(OURS)
        clock.now += 0.9
        notice.on_end(OURS)
        clock.now += 1000.0  # training
    notice.on_start(OURS)
    clock.now += 0.1
    notice.on_start(INNER)
    assert capsys.readouterr().err == ""
    clock.now += 0.2
    notice.on_start(INNER)
    assert capsys.readouterr().err == LINE


def test_functions_of_others_are_none_of_our_business(
    heard: tuple[Notice, Clock], capsys: pytest.CaptureFixture[str]
) -> None:
    notice, clock = heard
    notice.on_start(THEIRS)
    clock.now += 60.0
    notice.on_start(INNER)
    notice.on_end(INNER)
    notice.on_end(THEIRS)
    notice.on_start(OURS)
    assert capsys.readouterr().err == "" and notice.kernels == 0


def test_it_can_be_silenced(
    heard: tuple[Notice, Clock],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notice, clock = heard
    monkeypatch.setenv(QUIET, "1")
    notice.on_start(OURS)
    clock.now += 60.0
    notice.on_start(INNER)
    assert capsys.readouterr() == ("", "")


def test_a_process_without_stderr_compiles_as_well(
    heard: tuple[Notice, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    notice, clock = heard
    monkeypatch.setattr(sys, "stderr", None)
    notice.on_start(OURS)
    clock.now += 60.0
    notice.on_start(INNER)
    assert notice.silent


def use(strategy: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != QUIET}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        [sys.executable, "-c", USER, strategy],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["Prioritized", "SiblingSample"])
def test_the_first_batch_of_all(strategy: str, tmp_path: Path) -> None:
    first = use(strategy, tmp_path)
    assert first.stderr == LINE
    seconds, names = first.stdout.splitlines()
    assert float(seconds) < 20.0  # of CPU; 10 where nothing else runs
    compiled = {name.removeprefix("sibling_replay.") for name in names.split()}
    kernels = {"replay.memory.append", "strategies.over_memory.draw_batch"}
    assert kernels | {"strategies.over_memory.refresh_batch"} <= compiled
    assert not any("outcome" in name for name in compiled)
    if strategy == "Prioritized":  # no key is hashed, no group joined or left
        assert not any(name.startswith("replay.intern.") for name in compiled)
        assert not compiled & {f"replay.partition.{name}" for name in ("join", "leave", "_grow")}
    again = use(strategy, tmp_path)
    assert again.stderr == "" and again.stdout.splitlines()[1] == ""


def without_caches(tmp_path: Path) -> Path:
    """A copy of the package that has no room for compiled code."""
    shutil.copytree(SOURCES, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [tmp_path / "src", *(tmp_path / "src").rglob("*/")]:
        (folder / "__pycache__").write_text("a file where a folder should be")
    return tmp_path / "src"


def run_without_caches(tmp_path: Path, home: Path, *command: str) -> Any:
    sources = without_caches(tmp_path)
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONPATH": str(sources)}
    return subprocess.run(
        [sys.executable, "-B", *command], env=environment, capture_output=True, text=True
    )


def test_where_kernels_are_kept_if_not_beside_the_package(tmp_path: Path) -> None:
    look = "from sibling_replay.cli.warm_up import kept_in; print(kept_in())"
    home = tmp_path / "home"
    done = run_without_caches(tmp_path, home, "-c", look)
    assert home in Path(done.stdout.strip()).parents, done.stderr


def test_no_room_for_kernels_anywhere_is_a_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("no folder")
    done = run_without_caches(tmp_path, home, "-m", "sibling_replay_command", "warm-up")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr and "cannot be written" in done.stderr


@pytest.mark.long
def test_warm_up_compiles_what_others_then_find(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCES)}

    def warm_up() -> str:
        return subprocess.run(
            [sys.executable, "-m", "sibling_replay", "warm-up"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = warm_up()
    assert "the next time this takes nothing" in first
    assert str(tmp_path) in first.replace("\n", "")
    assert "nothing to compile" in warm_up()
    for strategy in ("Prioritized", "RankBased", "SiblingSample", "SiblingModel", "SiblingAverage"):
        assert use(strategy, tmp_path).stdout.splitlines()[1] == ""


@pytest.mark.long
def test_with_a_numba_it_was_not_tried_with(tmp_path: Path) -> None:
    """Inner functions are then compiled as any other: the same draws, a longer wait."""
    code = (
        "import numba, sys; numba.__version__ = sys.argv[1]\n"
        "import numpy as np\n"
        "from sibling_replay import ReplayBuffer, SiblingSample, Field\n"
        "i, b = Field(np.dtype('i8')), Field(np.dtype('?'))\n"
        "f = dict(obs=i, action=i, reward=Field(np.dtype('f4')), next_obs=i, terminated=b,"
        " truncated=b)\n"
        "r = ReplayBuffer(f, 9, SiblingSample(), seed=1)\n"
        "for k in range(20): r.add(k % 3, 0, k, k, False, False)\n"
        "x = r.sample(8); r.update_priorities(x, np.arange(8.0)); print(r.sample(8).slots)\n"
    )
    printed = []
    for number, version in enumerate(("0.68.1", "0.99.0")):
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / str(number)), "SIBLING_REPLAY_QUIET": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code, version],
            capture_output=True, text=True, check=True, env={**os.environ, **cache},
        )  # fmt: skip
        printed.append(done.stdout)
    assert printed[0] == printed[1] and "[" in printed[0]

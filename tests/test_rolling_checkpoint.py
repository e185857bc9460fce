"""Two states in a directory: the newest, and the one to fall back to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sibling_replay import checkpoint as module
from sibling_replay.checkpoint import RollingCheckpoint, StateError, StateInUse, read_state


def saved(directory: Path, *numbers: int) -> RollingCheckpoint:
    checkpoint = RollingCheckpoint(directory / "deep" / "er")
    for number in numbers:
        checkpoint.save({"number": number}, {"data": np.full(1000, number)})
    return checkpoint


def number(checkpoint: RollingCheckpoint) -> int:
    state = checkpoint.load()
    assert state is not None
    header, arrays = state
    assert (arrays["data"] == header["number"]).all()
    return int(header["number"])


def test_nothing_yet(tmp_path: Path) -> None:
    assert saved(tmp_path).load() is None


def test_the_newest_is_loaded_and_the_previous_kept(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 1, 2, 3)
    assert number(checkpoint) == 3
    checkpoint.newest.unlink()  # as if killed between the two renames
    assert number(checkpoint) == 2
    assert sorted(path.name for path in checkpoint.directory.iterdir()) == [
        "checkpoint.previous.npz"
    ]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "garbage"])
def test_a_damaged_newest_falls_back_with_a_warning(tmp_path: Path, damage: str) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    spoil(checkpoint.newest, damage)
    with pytest.warns(
        UserWarning, match=r"checkpoint\.npz is not a complete .*checkpoint\.previous"
    ):
        assert number(checkpoint) == 1


def test_after_falling_back_the_whole_state_outlives_the_next_save(tmp_path: Path) -> None:
    """Killed at any moment of it: the damaged one must not take the place of the whole one."""
    checkpoint = saved(tmp_path, 1, 2)
    spoil(checkpoint.newest, "cut")
    with pytest.warns(UserWarning, match="going on from"):
        assert number(checkpoint) == 1
    assert number(checkpoint) == 1  # known to be damaged: no further warning
    checkpoint.save({"number": 3}, {"data": np.full(10, 3)})
    assert number(checkpoint) == 3
    checkpoint.newest.unlink()  # as if killed between the renames of that save
    assert number(checkpoint) == 1


def test_damage_to_all_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    spoil(checkpoint.newest, "cut")
    spoil(checkpoint.previous, "flip")
    with pytest.raises(StateError):
        checkpoint.load()


def test_a_half_written_state_is_no_state(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    half = checkpoint.newest.read_bytes()[:500]
    (checkpoint.directory / "checkpoint.coming.npz").write_bytes(half)
    assert number(checkpoint) == 2
    checkpoint.save({"number": 3}, {"data": np.full(10, 3)})
    assert number(checkpoint) == 3


def test_removed(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    checkpoint.remove()
    assert checkpoint.load() is None
    checkpoint.remove()


HOLD = """
import sys, time
from sibling_replay.checkpoint import RollingCheckpoint
with RollingCheckpoint(sys.argv[1]).owned():
    print("there", flush=True)
    time.sleep(300)
"""


@contextmanager
def another_owner(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "there\n"
        try:
            yield owner
        finally:
            owner.kill()


def test_a_directory_has_one_owner_and_says_who(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    checkpoint.check_free()
    with another_owner(checkpoint.directory) as owner:
        monkeypatch.setattr(module, "PATIENCE", 0.2)
        for refused in (checkpoint.check_free, checkpoint.owned().__enter__):
            with pytest.raises(StateInUse, match=f"in use by process {owner.pid} on .*: wait"):
                refused()
        checkpoint.remove()  # not under the feet of its owner
        assert number(checkpoint) == 2
        owner.kill()
        owner.wait()
        monkeypatch.setattr(module, "PATIENCE", 10.0)
        with checkpoint.owned():  # a lock ends with its process
            pass
    checkpoint.remove()
    assert not checkpoint.directory.exists()


def test_an_owner_may_ask_again_and_others_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    checkpoint, other = saved(tmp_path, 1), RollingCheckpoint(tmp_path / "deep" / "er")
    with checkpoint.owned(), checkpoint.owned():
        with pytest.raises(StateInUse):
            other.check_free()
    with other.owned(), pytest.raises(StateInUse):
        checkpoint.check_free()
    checkpoint.check_free()


def test_a_lock_on_a_removed_file_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened the lock before its directory was removed must not believe to own it."""
    import fcntl

    checkpoint, flock = saved(tmp_path, 1), fcntl.flock
    calls = []

    def removed_before_the_lock(file: int, how: int) -> None:
        calls.append(file)
        if len(calls) == 1:
            shutil.rmtree(checkpoint.directory)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", removed_before_the_lock)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with checkpoint.owned():
        assert len(calls) == 2
        with pytest.raises(StateInUse):
            RollingCheckpoint(checkpoint.directory).check_free()


def test_the_newest_is_kept_outside(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 1, 2)
    place = tmp_path / "kept" / "there" / "2.npz"
    checkpoint.keep(place)
    assert read_state(place)[0] == {"number": 2}
    assert number(checkpoint) == 1
    checkpoint.remove()
    assert place.exists()


def spoil(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "empty":
        data = bytearray()
    else:
        data = bytearray(b"not a zip archive")
    path.write_bytes(data)

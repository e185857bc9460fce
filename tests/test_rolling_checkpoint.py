"""Two states in a directory: the newest, and the one to fall back to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sibling_replay.checkpoint import RollingCheckpoint, StateError


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

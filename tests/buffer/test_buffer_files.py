"""State files: damaged in any way they are refused; a killed writer leaves the old one whole."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from buffer_kit import add_some, assert_valid, churned, differences, snapshot, tabular
from hypothesis import given, settings
from hypothesis import strategies as st

from sibling_replay import ReplayBuffer, SiblingAverage, SiblingSample, StateError
from sibling_replay.checkpoint import SCHEMA_VERSION

STRATEGY = SiblingAverage(normalize="buffer")


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "state"
    churned(STRATEGY, capacity=5).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "state"


def expected() -> dict[str, bytes]:
    return snapshot(churned(STRATEGY, capacity=5))


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts: dict[str, bytes], **options: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(array: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def with_header(data: bytes, change: Any) -> bytes:
    parts = members(data)
    header = json.loads(np.load(io.BytesIO(parts["header.npy"])).tobytes())
    change(header)
    parts["header.npy"] = npy(np.frombuffer(json.dumps(header).encode(), np.uint8))
    return archive_of(parts)


def load(path: Path, data: bytes) -> ReplayBuffer:
    path.write_bytes(data)
    return ReplayBuffer.load(path)


def test_the_good_file_loads(file_bytes, place) -> None:
    assert differences(expected(), snapshot(load(place, file_bytes))) == []
    assert differences(expected(), snapshot(load(place, archive_of(members(file_bytes))))) == []


def test_truncated_at_any_length(file_bytes, place) -> None:
    lengths = {*range(200), *range(0, len(file_bytes), 97), len(file_bytes) - 1}
    lengths |= set(range(len(file_bytes) - 60, len(file_bytes)))
    for length in sorted(lengths):
        with pytest.raises(StateError, match="not a complete replay state file"):
            load(place, file_bytes[:length])


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_bits_flipped_anywhere(file_bytes, place, data) -> None:
    """Refused, or in bytes that mean nothing (time stamps): then all is as it was saved."""
    damaged = bytearray(file_bytes)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        loaded = load(place, bytes(damaged))
    except StateError as error:
        assert str(error)
    else:
        assert differences(expected(), snapshot(loaded)) == []


def test_every_bit_of_the_directory(file_bytes, place) -> None:
    """The zip's own tables are outside the checksums, and its reader raises all sorts of errors."""
    start = file_bytes.index(b"PK\x01\x02")
    whole = expected()
    for at in range(start, len(file_bytes), 7):
        for bit in (at % 8, (at + 3) % 8):
            damaged = bytearray(file_bytes)
            damaged[at] ^= 1 << bit
            try:
                loaded = load(place, bytes(damaged))
            except StateError:
                continue
            assert differences(whole, snapshot(loaded)) == []


def test_files_that_are_something_else(file_bytes, place) -> None:
    parts = members(file_bytes)
    for data in (
        b"", b"hello", b"\x80\x04." * 10, pickle.dumps({"header": {}}), npy(np.arange(3)),
        archive_of({}), archive_of({"a.txt": b"hi"}), archive_of({**parts, "a.txt": b"hi"}),
        archive_of({**parts, "rows.npy": b""}), archive_of({**parts, "rows.npy": b"junk"}),
        archive_of(parts, compression=zipfile.ZIP_DEFLATED),
        archive_of({**parts, "header.npy": npy(np.frombuffer(b"{not json", np.uint8))}),
        archive_of({**parts, "header.npy": npy(np.frombuffer(b"[1, 2]", np.uint8))}),
        archive_of({**parts, "header.npy": npy(np.frombuffer(b"\xff\xfe", np.uint8))}),
        archive_of({k: v for k, v in parts.items() if k != "header.npy"}),
    ):  # fmt: skip
        with pytest.raises(StateError):
            load(place, data)


def test_members_that_share_their_bytes_are_refused_unread(file_bytes, place, monkeypatch) -> None:
    """A small file could ask for a hundred times its size."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members(file_bytes).items():
            archive.writestr(name, data)
        for number in range(100):
            again = copy.copy(archive.getinfo("rows.npy"))
            again.filename = f"more{number}.npy"
            archive.filelist.append(again)

    def forbidden(*args: Any) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(zipfile.ZipFile, "read", forbidden)
    with pytest.raises(StateError, match="overlaps another member"):
        load(place, out.getvalue())


LOADER = """
import resource, sys
import numpy as np
from sibling_replay import ReplayBuffer, SiblingSample, Field

number, flag, image = Field(np.int64), Field(np.bool_), Field(np.uint8, (int(sys.argv[2]),))
fields = dict(obs=image, action=number, reward=Field(np.float32), next_obs=image, terminated=flag,
              truncated=flag)

def filled(capacity):
    buffer = ReplayBuffer(fields, capacity, SiblingSample(normalize="buffer"), seed=0)
    rng = np.random.default_rng(0)
    for _ in range(0, capacity, 10_000):
        obs = rng.integers(0, 256, (10_000, *image.shape), dtype=np.uint8)
        zero = np.zeros(10_000, np.bool_)
        buffer.extend(obs, zero.astype(int), zero.astype(np.float32), obs, zero, zero)
    return buffer

path, capacity = sys.argv[1], int(sys.argv[3])
if sys.argv[4] == "save":
    filled(capacity).save(path)
else:
    filled(10).save(path + ".small")
    ReplayBuffer.load(path + ".small")  # imports and compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    buffer = ReplayBuffer.load(path)
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(peak, sum(array.nbytes for array in buffer._memory.arrays().values()))
"""


@pytest.mark.parametrize("width, capacity", [
    (400, 120_000), pytest.param(4, 1_000_000, marks=pytest.mark.long),
])  # fmt: skip
def test_loading_takes_little_more_than_twice_the_state(tmp_path, width, capacity) -> None:
    """Of about 100 MB; frames, and many small rows."""
    form = (str(tmp_path / "state"), str(width), str(capacity))
    for what in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", LOADER, *form, what],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    peak, state = map(int, done.stdout.split())
    assert state > 70e6
    assert peak < 2.2 * state


def test_missing_files_are_missing_files(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        ReplayBuffer.load(tmp_path / "none")
    with pytest.raises(OSError):
        churned(STRATEGY).save(tmp_path / "no" / "such" / "directory")


def test_members_missing_unknown_or_of_another_form(file_bytes, place) -> None:
    parts = members(file_bytes)
    for name in parts:
        with pytest.raises(StateError):
            load(place, archive_of({k: v for k, v in parts.items() if k != name}))
    with pytest.raises(StateError, match="unknown: more"):
        load(place, archive_of({**parts, "more.npy": npy(np.arange(3))}))
    for name in [name for name in parts if name != "header.npy"]:
        array = np.load(io.BytesIO(parts[name]))
        if array.size == 0:  # nothing to be wrong
            continue
        for other in (array.astype(">f8"), array[:-1], array[np.newaxis], np.array("text")):
            with pytest.raises(StateError):
                load(place, archive_of({**parts, name: npy(other)}))


class Bomb:
    def __reduce__(self) -> Any:
        return os.abort, ()


def test_nothing_is_unpickled(file_bytes, place) -> None:
    """A pickle in place of an array, or of the file, would end this process if it were opened."""
    parts = members(file_bytes)
    bomb = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    for name in parts:
        with pytest.raises(StateError):
            load(place, archive_of({**parts, name: bomb}))
    with pytest.raises(StateError):
        load(place, pickle.dumps(Bomb()))
    with pytest.raises(StateError):
        load(place, bomb)


def test_save_uses_no_pickle(tmp_path, monkeypatch) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("pickled")

    monkeypatch.setattr(pickle, "dump", forbidden)
    monkeypatch.setattr(pickle, "load", forbidden)
    churned(STRATEGY).save(tmp_path / "state")
    ReplayBuffer.load(tmp_path / "state")


HEADER_CHANGES = {
    "other version": (
        lambda h: h.update(version=SCHEMA_VERSION + 1),
        f"schema version {SCHEMA_VERSION + 1}, expected {SCHEMA_VERSION}",
    ),
    "no version": (lambda h: h.pop("version"), "does not describe"),
    "unknown strategy": (lambda h: h.update(strategy="Greedy"), "Greedy"),
    "unknown option": (lambda h: h["options"].update(gamma=1), "gamma"),
    "bad option": (lambda h: h["options"].update(alpha=-1), "alpha"),
    "capacity too large": (lambda h: h.update(capacity=2**29), "for a capacity of"),
    "capacity off": (lambda h: h.update(capacity=6), "for a capacity of"),
    "capacity negative": (lambda h: h.update(capacity=-5), "capacity"),
    "capacity text": (lambda h: h.update(capacity="5"), "capacity"),
    "fields a list": (lambda h: h.update(fields=[]), "does not describe"),
    "field of objects": (lambda h: h["fields"].update(obs=["|O", []]), "does not describe"),
    "field too large": (lambda h: h["fields"].update(x=["<f8", [2**40]]), "."),
    "field negative": (lambda h: h["fields"].update(x=["<f8", [-1]]), "does not describe"),
    "field named oddly": (
        lambda h: h["fields"].update({"slots": ["<f8", []]}),
        "does not describe",
    ),
    "another strategy": (lambda h: h.update(strategy="Uniform", options={}), "."),
    "another key": (lambda h: h.update(key="given"), "."),
    "no key": (lambda h: h.update(key=None), "."),
    "no stream": (lambda h: h.pop("uniforms"), "random stream"),
}


@pytest.mark.parametrize("change, match", HEADER_CHANGES.values(), ids=HEADER_CHANGES)
def test_headers(file_bytes, place, change, match) -> None:
    with pytest.raises(StateError, match=match):
        load(place, with_header(file_bytes, change))


# ---------------------------------------------------------------------------------- writing


def test_save_replaces_and_leaves_nothing_else(tmp_path) -> None:
    path = tmp_path / "state"
    buffer = churned(STRATEGY)
    buffer.save(path)
    add_some(buffer, 3)
    buffer.save(str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    assert differences(snapshot(buffer), snapshot(ReplayBuffer.load(path))) == []


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "state"
    buffer = churned(STRATEGY)
    buffer.save(path)
    old = path.read_bytes()
    add_some(buffer, 3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        buffer.save(path)
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_legal_name_of_any_length_and_a_link(tmp_path) -> None:
    buffer = churned(STRATEGY)
    (tmp_path / "link").symlink_to("n" * 230)
    buffer.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert {entry.name for entry in tmp_path.iterdir()} == {"link", "n" * 230}
    loaded = ReplayBuffer.load(tmp_path / ("n" * 230))
    assert differences(snapshot(buffer), snapshot(loaded)) == []


def test_save_into_a_pipe_writes_a_file_that_loads(tmp_path) -> None:
    buffer = churned(STRATEGY)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    buffer.save(pipe)
    reader.join()
    assert pipe.is_fifo()
    assert differences(snapshot(buffer), snapshot(load(tmp_path / "state", got[0]))) == []


def test_threads_may_save_to_one_path(tmp_path) -> None:
    path = tmp_path / "state"
    buffers = [tabular(SiblingSample(), 50 + i) for i in range(4)]
    failures: list[BaseException] = []

    def work(buffer: ReplayBuffer) -> None:
        try:
            for _ in range(8):
                buffer.save(path)
                ReplayBuffer.load(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


SAVER = """
import sys
import numpy as np
from sibling_replay import ReplayBuffer, SiblingSample, Field

number, flag = Field(np.int64), Field(np.bool_)
image = Field(np.uint8, (400,))
buffer = ReplayBuffer(
    dict(obs=image, action=number, reward=Field(np.float32), next_obs=image, terminated=flag,
         truncated=flag), 500, SiblingSample(), seed=0)
frame = np.zeros(400, np.uint8)
while True:
    for _ in range(7):
        frame[:] += 1
        buffer.add(frame, 0, 0.0, frame, False, False)
    buffer.save(sys.argv[1])
    print(flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path) -> None:
    """kill -9 at any moment of a loop of saves: what is there loads and is whole."""
    path = tmp_path / "state"
    rng = np.random.default_rng(0)
    for _ in range(4):
        saver = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert saver.stdout is not None
        for _ in range(int(rng.integers(2, 8))):
            assert saver.stdout.readline()
        time.sleep(rng.random() * 0.02)
        saver.send_signal(signal.SIGKILL)
        saver.wait()
        saver.stdout.close()
        buffer = ReplayBuffer.load(path)
        assert_valid(buffer)
        assert sum(buffer.generations) % 7 == 0 and len(buffer) >= 14

"""State files: plain arrays and a JSON header in a zip archive, written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sibling_replay.files import whole_file
from sibling_replay.replay.parts import field_of_form
from sibling_replay.rng import Uniforms
from sibling_replay.strategies import registered

SCHEMA_VERSION = 4
# Of which states can be restored. In version 3 the groups of a key function were by its result
# alone; since version 4 siblings share their action, too.
KEYS_WITHOUT_ACTION = 3
KEY_KINDS = ("function", "map")  # of keys that are not in a file: they are given again
_READABLE = (KEYS_WITHOUT_ACTION, SCHEMA_VERSION)
# Of strategies, in states from before there were any.
_LATER_OPTIONS = {"initial": "largest", "of": "targets"}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_HEADER = "header"
_SUFFIX = ".npy"
_LOCAL_HEADER = 30  # bytes before a zip member's name and data, at the least


Buffer = TypeVar("Buffer")


class StateError(ValueError):
    """A state that cannot be restored: damaged, or of another buffer.

    Examples:
        >>> buffer = ReplayBuffer.for_env(gym.make("FrozenLake-v1"), 10, SiblingSample())
        >>> buffer.load_state_dict({})
        Traceback (most recent call last):
            ...
        sibling_replay.checkpoint.StateError: a state needs a header
    """


def write_state(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write a state file. It appears under its name only when complete and on disk. Numbers and
    arrays of NumPy in the header are written as Python's."""
    text = np.frombuffer(json.dumps(header, default=_plain).encode(), dtype=np.uint8)
    members: dict[str, Any] = {_HEADER: text, **arrays}
    with whole_file(path) as file:
        np.savez(file, **members)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a state file holds numbers, text and lists of them, not {value!r}")


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and arrays of a state file. Checksums are verified; no code is unpickled."""
    return _read(path, header_alone=False)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a state file; its arrays are not read."""
    return _read(path, header_alone=True)[0]


def _read(
    path: str | os.PathLike[str], header_alone: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with open(path, "rb") as file:
        try:
            arrays = _read_arrays(file, header_alone)
            header = json.loads(arrays.pop(_HEADER).tobytes())
        except Exception as error:  # the readers of zip and npy raise anything on damaged bytes
            raise StateError(
                f"{path} is not a complete replay state file: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(header, dict):
        raise StateError(f"{path} has a header that is not a mapping")
    return header, arrays


def _read_arrays(file: Any, header_alone: bool) -> dict[str, NDArray[Any]]:
    """The arrays of an archive. Each is read to its end first: only there is its checksum compared.

    Members must be stored as they are and apart, as `write_state` does, so that a small file cannot
    ask for much memory.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        check_members_apart(archive)
        for member in archive.infolist():
            name = member.filename.removesuffix(_SUFFIX)
            if name + _SUFFIX != member.filename or name in arrays:
                raise ValueError(f"unexpected member {member.filename!r}")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")
            if header_alone and name != _HEADER:
                continue
            arrays[name] = _parse_array(archive.read(member))
    return arrays


def check_members_apart(archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose members share bytes: read one by one they can take any multiple of
    the file's size."""
    end = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ValueError(f"{member.filename} overlaps another member")
        end = member.header_offset + _LOCAL_HEADER + member.compress_size
    if end > archive.start_dir:
        raise ValueError("the last member overlaps the directory")


def _parse_array(data: bytes) -> NDArray[Any]:
    """An array in npy format, over the bytes it came in."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"npy format {version}, expected (1, 0)")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or fortran_order:
        raise ValueError("expected plain numbers in C order")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape)


class StateInUse(StateError):
    """Another process writes the states of this directory."""


PATIENCE = 10.0  # seconds to wait for a lock: the workers of a killed process take a moment to end


class RollingCheckpoint:
    """The newest two states of something long, in a directory: one to go on from, one to fall back
    to. Whenever the writer is killed, at least one complete state is there once there was one.

    There may be one writer at a time: what loads, goes on and saves does so inside `owned`.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._lock = self.directory / "lock"
        self._owned = False
        self.newest = self.directory / "checkpoint.npz"
        self.previous = self.directory / "checkpoint.previous.npz"
        self._damaged = self.directory / "checkpoint.damaged.npz"

    def save(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write a state; what was the newest becomes the previous."""
        self.directory.mkdir(parents=True, exist_ok=True)
        coming = self.directory / "checkpoint.coming.npz"
        write_state(coming, header, arrays)
        if self.newest.exists():
            os.replace(self.newest, self.previous)
        os.replace(coming, self.newest)

    def load(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The newest state that is whole; None if there was never one.

        Falling back is announced by a warning. Damage to all that there is raises StateError: to
        start again silently would throw away days.
        """
        damage: StateError | None = None
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                state = read_state(path)
            except StateError as error:
                damage = error
                continue
            if damage is not None:
                # else the next `save` would put it in the place of the only whole state
                os.replace(self.newest, self._damaged)
                warnings.warn(f"{damage}; going on from {path.name}", stacklevel=2)
            return state
        if damage is not None:
            raise damage
        return None

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep all others away from the directory inside the block, which may be nested; raises
        `StateInUse` if somebody is there. However the process ends, its lock ends with it."""
        if self._owned:
            yield
            return
        lock = _take_lock(self._lock)
        self._owned = True
        try:
            yield
        finally:
            self._owned = False
            os.close(lock)

    def check_free(self) -> None:
        """Raise `StateInUse` if another process is inside `owned`."""
        if self._lock.exists():
            with self.owned():
                pass

    def keep(self, path: str | os.PathLike[str]) -> None:
        """Move the newest state out of the directory, to a file of its own."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.newest, path)

    def remove(self) -> None:
        """Delete the directory, unless another process is at work in it: what its states were for
        is finished."""
        if not self.directory.exists():
            return
        with suppress(StateInUse), self.owned():
            shutil.rmtree(self.directory, ignore_errors=True)


def _take_lock(path: Path) -> int:
    """An open file that is locked until it is closed, and says who locked it."""
    import fcntl  # not on every system, and only long runs need it

    until = time.monotonic() + PATIENCE
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # its directory was removed just now
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 200, 0).decode(errors="replace") or "another process"
            os.close(file)
            if time.monotonic() > until:
                raise StateInUse(
                    f"{path.parent} is in use by {owner}: wait until that ends, or choose "
                    "other runs or another directory"
                ) from None
            time.sleep(0.1)
            continue
        except OSError:  # a file system without locks
            return file
        with suppress(FileNotFoundError):  # removed since it was opened: not the lock any more
            if os.path.samestat(os.fstat(file), os.stat(path)):
                os.ftruncate(file, 0)
                os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return file
        os.close(file)


def compare_headers(saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise for the first thing in which a saved state is of another buffer."""
    if "n_step" in saved and "n_step" not in own:
        raise StateError(f"the state is of a buffer of several steps, {saved['n_step']!r}")
    for name in own:
        # Where the random stream stands, and which entries still grow, is what a state may change;
        # bounds are of what is to come; a key map is compared by its digest.
        if name in ("uniforms", "bounds", "key_map", "n_step_open"):
            continue
        if name not in saved:
            raise StateError(f"the state's header lacks {name!r}")
        if name == "version" and type(saved[name]) is int and saved[name] in _READABLE:
            continue
        if name == "options" and isinstance(saved[name], dict):
            saved = {**saved, name: with_later_options(saved[name], own[name])}
        if type(saved[name]) is not type(own[name]) or saved[name] != own[name]:
            raise StateError(
                f"the state is of another buffer: {name} is {saved[name]!r} there and "
                f"{own[name]!r} here"
            )


def with_later_options(saved: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a state, and those that its strategy did not have yet."""
    later = {name: value for name, value in _LATER_OPTIONS.items() if name in own}
    return {**later, **saved}


def restored_uniforms(state: Any) -> Uniforms:
    """The random stream of a saved state, on the kind of generator it was taken from."""
    try:
        kind = state["bit_generator"]["bit_generator"]
        if kind not in _BIT_GENERATORS:
            raise ValueError(f"unknown generator {kind!r}")
        uniforms = Uniforms(np.random.Generator(getattr(np.random, kind)(0)))
        if state["block_size"] != uniforms.state_dict()["block_size"]:
            raise ValueError(f"blocks of {state['block_size']} uniforms")
        if type(state["cursor"]) is not int:
            raise TypeError(f"cursor {state['cursor']!r}")
        uniforms.load_state_dict(state)
    except Exception as error:  # NumPy's generators raise anything on a state that is not theirs
        raise StateError(f"the random stream cannot be restored: {error!r}") from error
    return uniforms


def fill_arrays(arrays: Mapping[str, NDArray[Any]], state: dict[str, Any]) -> None:
    """Move the arrays of a state into those of a memory, if they are the same by name and form.

    Takes each out of `state` once it is copied, so that its memory can be used again.
    """
    if set(arrays) != set(state):
        odd = sorted(map(str, set(arrays) ^ set(state)))
        raise StateError(f"arrays missing or unknown: {', '.join(odd)}")
    for name, array in arrays.items():
        saved: NDArray[Any] = state.pop(name)
        if not isinstance(saved, np.ndarray):
            raise StateError(f"{name}: expected an array, got {type(saved).__name__}")
        if saved.shape != array.shape or saved.dtype != array.dtype:
            raise StateError(
                f"{name}: expected {array.dtype} {array.shape}, got {saved.dtype} {saved.shape}"
            )
        array[...] = saved


def rebuilt(
    make: Callable[..., Buffer],
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    key: Any,
) -> Buffer:
    """A buffer, still empty, of the schema, capacity, strategy and key that a file describes."""
    try:
        if header["version"] not in _READABLE:
            raise StateError(
                f"{path} has schema version {header['version']}, expected {SCHEMA_VERSION}"
            )
        if "key_map" not in header and (header["key"] in KEY_KINDS) != (key is not None):
            raise StateError(
                f"{path} was saved with a key {header['key']}: give it to `load`"
                if header["key"] in KEY_KINDS
                else f"{path} was saved without a key function or map"
            )
        # Rows of nothing would let a small file ask for much memory.
        if arrays["rows"].shape[:1] != (header["capacity"],) or arrays["rows"].size == 0:
            raise StateError(
                f"{path} has rows of shape {arrays['rows'].shape} for a capacity of "
                f"{header['capacity']}"
            )
        bounds = header.get("bounds", {})
        fields = {
            name: field_of_form(form, bounds.get(name)) for name, form in header["fields"].items()
        }
        kind = registered().get(header["strategy"])
        if kind is None:
            raise StateError(
                f"{path} was saved with the strategy {header['strategy']!r}, which is not known "
                f"here: import and `register` it first"
            )
        strategy = kind(**header["options"])
        key = header["key"] if key is None else key
        return make(fields, header["capacity"], strategy, key=key, **header.get("n_step", {}))
    except StateError:
        raise
    except Exception as error:  # a header can be wrong in any way
        raise StateError(f"{path} does not describe a replay buffer: {error!r}") from error

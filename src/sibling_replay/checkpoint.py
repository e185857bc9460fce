"""State files: plain arrays and a JSON header in a zip archive, written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = "header"
_SUFFIX = ".npy"


class StateError(ValueError):
    """A state that cannot be restored: damaged, or of another buffer."""


def write_state(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a state file. It appears under its name only when complete and on disk."""
    path = Path(path)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    # Two writers of one file, in any process or thread, must not share the unfinished one.
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **{_HEADER: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and arrays of a state file. Checksums are verified; no code is unpickled."""
    with open(path, "rb") as file:
        try:
            arrays = _read_arrays(file)
            header = json.loads(arrays.pop(_HEADER).tobytes())
        except Exception as error:  # the readers of zip and npy raise anything on damaged bytes
            raise StateError(
                f"{path} is not a complete replay state file: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(header, dict):
        raise StateError(f"{path} has a header that is not a mapping")
    return header, arrays


def _read_arrays(file: Any) -> dict[str, NDArray[Any]]:
    """The arrays of an archive. Each is read to its end first: only there is its checksum compared.

    Members must be stored as they are, as `write_state` does, so that a small file cannot ask for
    much memory.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(_SUFFIX)
            if name + _SUFFIX != member.filename or name in arrays:
                raise ValueError(f"unexpected member {member.filename!r}")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")
            data = archive.read(member)
            arrays[name] = _parse_array(data)
    return arrays


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

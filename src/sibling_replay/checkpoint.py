"""State files: plain arrays and a JSON header in a zip archive, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = "header"


class StateError(ValueError):
    """A state that cannot be restored: damaged, or of another buffer."""


def write_state(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a state file. It appears under its name only when complete and on disk."""
    path = Path(path)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
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
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop(_HEADER).tobytes())
        except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, AttributeError) as error:
            raise StateError(f"{path} is not a complete replay state file: {error}") from error
    if not isinstance(header, dict):
        raise StateError(f"{path} has a header that is not a mapping")
    return header, arrays

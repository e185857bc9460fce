"""Parquet whose damage is found before it is decoded, or in a process that may die of it.

The decoder believes the sizes that a file states: one flipped bit can make it ask for 2^61 bytes of
memory, which aborts the process. So what we write carries a checksum of its bytes, the seal. It
stands between the last column and the footer, where readers of Parquet do not look (they go by the
offsets in the footer), so that any of them can read the file. What has no seal, being somebody
else's or of an earlier version, is decoded by a child process.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sibling_replay.running.parquet_child import FAILED, LENGTH

_MARK = b"sibling-replay blake2b\0"
_SUM = 32  # bytes of the checksum after the mark
_TAIL = 8  # bytes at the end of a Parquet file: length of the footer, and PAR1


class Damaged(ValueError):
    """Bytes that are not Parquet, or not any more. Does not name the file."""


def encode(frame: pl.DataFrame, level: int) -> bytes:
    """A frame as a sealed Parquet file; the same frame gives the same bytes."""
    encoded = io.BytesIO()
    frame.write_parquet(encoded, compression="zstd", compression_level=level)
    return seal(encoded.getvalue())


def seal(data: bytes) -> bytes:
    """A Parquet file with a checksum of its bytes in it."""
    footer = int.from_bytes(data[-_TAIL : -_TAIL + 4], "little")
    at = len(data) - _TAIL - footer
    return data[:at] + _MARK + _checksum(data) + data[at:]


def unseal(data: bytes) -> bytes | None:
    """The file without its seal, if that is right; None if it has none."""
    at = data.rfind(_MARK)
    if at < 0:
        return None
    start = at + len(_MARK)
    content = data[:at] + data[start + _SUM :]
    if data[start : start + _SUM] != _checksum(content):
        raise Damaged("its bytes are not those that were written: the checksum differs")
    return content


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SUM).digest()


class Decoder:
    """Reads Parquet files. A context: its child process, started when one is needed, ends with it.

    `Damaged` says what is wrong with a file; OSError, why it cannot be read.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_child()

    def read(self, path: Path) -> pl.DataFrame:
        """A whole file: here if its seal is right, by the child if it has none."""
        content = unseal(path.read_bytes())
        if content is None:
            return self.read_foreign(path)
        try:
            return pl.read_parquet(content)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise Damaged(str(error)) from error

    def read_foreign(
        self, path: Path, columns: Sequence[str] | None = None, rows: int | None = None
    ) -> pl.DataFrame:
        """Columns and first rows (None: all) of anybody's file, decoded by the child."""
        with open(path, "rb"):  # what cannot be opened is no matter of Parquet
            pass
        asked = {"path": str(path.absolute()), "columns": columns, "rows": rows}
        child = self._child = self._child or _start()
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(asked).encode() + b"\n")
            child.stdin.flush()
            kind = child.stdout.read(1)
            size = int.from_bytes(child.stdout.read(LENGTH), "little")
            answer = child.stdout.read(size)
        except BrokenPipeError:
            kind = answer = b""
        if not kind or len(answer) < size:
            self._end_child()
            raise Damaged(f"reading it ended the reader's process (exit code {child.returncode})")
        if kind == FAILED:
            raise Damaged(answer.decode())
        return pl.read_ipc(io.BytesIO(answer))

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()  # it has nothing to clean up
            child.communicate()


def _start() -> subprocess.Popen[bytes]:
    """The child runs its file as code: to import it would take this package's imports, too."""
    code = Path(__file__).with_name("parquet_child.py").read_text()
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what an aborting decoder says is for its authors
        env={**os.environ, "PYTHONSAFEPATH": "1"},  # no modules from the working directory
    )

"""Run as a process by parquet.py: decodes the Parquet files it is asked for, and may die of one.

A question is a line of JSON: path, columns, rows (null: all). An answer is a byte that says whether
it failed, a length, and as many bytes: the frame as Arrow IPC, or the error's text.
"""

from __future__ import annotations

import io
import json
import resource
import sys

import polars as pl

READ, FAILED = b"+", b"-"
LENGTH = 8  # bytes, little-endian


def answer(question: str) -> tuple[bytes, bytes]:
    asked = json.loads(question)
    out = io.BytesIO()
    try:
        with open(asked["path"], "rb") as file:
            frame = pl.read_parquet(file, columns=asked["columns"], n_rows=asked["rows"])
        frame.write_ipc(out)
    except (Exception, pl.exceptions.PanicException) as error:
        return FAILED, str(error).encode()
    return READ, out.getvalue()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an abort leaves no core file
    with open(1, "wb") as pipe:
        for line in sys.stdin:
            kind, data = answer(line)
            pipe.write(kind + len(data).to_bytes(LENGTH, "little"))
            pipe.write(data)
            pipe.flush()

"""Columns of somebody else's file, `.npz` or Parquet, as arrays of plain numbers or strings.

What a file is is read from its first bytes, not from its name. Nothing is unpickled.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.checkpoint import check_members_apart
from sibling_replay.running.parquet import Damaged, Decoder

_SAVED_BUFFER = {"header.npy", "rows.npy"}  # members that `ReplayBuffer.save` writes
_NUMBERS = "biuf"
_LABELS = "biufUS"

# A compressed .npz may declare a hundred times its size honestly (frames that are mostly empty);
# beyond that it is refused, unless what it declares is little.
_MOST_INFLATION = 200  # times the file's size
_LITTLE = 2**26  # bytes

# What to do about columns of Parquet that are neither numbers nor strings.
_CASTS: dict[Any, str] = {
    pl.Decimal: "cast it to Float64",
    pl.Categorical: "cast it to String, or to integers",
    pl.Enum: "cast it to String, or to integers",
    pl.Date: "cast it to Int64",
    pl.Datetime: "cast it to Int64",
    pl.Duration: "cast it to Int64",
    pl.Time: "cast it to Int64",
}


class BadFile(ValueError):
    """A file that cannot be diagnosed. Names the column or row."""


@dataclass(frozen=True)
class Columns:
    """A file of columns, each read when it is asked for, and as long as the column `reward`."""

    path: Path
    names: tuple[str, ...]
    read: Callable[[str], NDArray[Any]]

    def has(self, name: str) -> bool:
        return name in self.names or f"{name}_0" in self.names

    def require(self, names: Iterable[str], why: str = "") -> None:
        missing = [name for name in names if not self.has(name)]
        if missing:
            columns = f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
            raise BadFile(f"{self.path}: missing {columns}{why}. It has: {', '.join(self.names)}")

    @cached_property
    def rows(self) -> int:
        if "reward" not in self.names:
            raise BadFile(f"{self.path}: missing column reward. It has: {', '.join(self.names)}")
        values = self.read("reward")
        if values.ndim != 1:
            raise BadFile(
                f"{self.path}: column reward has shape {values.shape}, not one number a row"
            )
        return len(values)

    def numbers(self, name: str) -> NDArray[Any]:
        """[N, ...] A column of numbers; its elements may be spread over name_0, name_1, ..."""
        return self._checked(name, _NUMBERS, "numbers")

    def scalars(self, name: str) -> NDArray[Any]:
        """[N] A column of one number a row."""
        values = self.numbers(name)
        if values.ndim != 1:
            raise BadFile(
                f"{self.path}: column {name} has shape {values.shape}, not one number a row"
            )
        return values

    def labels(self, name: str) -> NDArray[Any]:
        """[N, ...] A column of numbers or strings."""
        return self._checked(name, _LABELS, "numbers or strings")

    def _checked(self, name: str, kinds: str, what: str) -> NDArray[Any]:
        if name in self.names:
            if f"{name}_0" in self.names:
                raise BadFile(f"{self.path}: both {name} and {name}_0 are there: which is it?")
            parts = [name]
        else:
            parts = self._elements(name)
        read: list[NDArray[Any]] = []
        for part in parts:
            values = self.read(part)
            if values.dtype.kind not in kinds or values.ndim == 0:
                raise BadFile(
                    f"{self.path}: column {part} must hold {what}, a row per transition; "
                    f"it holds {values.dtype} of shape {values.shape}"
                )
            if len(values) != self.rows:
                raise BadFile(
                    f"{self.path}: column {part} has {len(values)} rows, reward has {self.rows}"
                )
            if 0 in values.shape[1:]:
                raise BadFile(f"{self.path}: column {part} has no elements: {values.shape}")
            if read and values.shape != read[0].shape:
                raise BadFile(
                    f"{self.path}: column {part} has shape {values.shape}, "
                    f"{parts[0]} has {read[0].shape}"
                )
            read.append(values)
        return read[0] if parts == [name] else np.stack(read, axis=1)

    def _elements(self, name: str) -> list[str]:
        """name_0, name_1, ... without a gap."""
        pattern = re.compile(rf"{re.escape(name)}_(0|[1-9][0-9]*)")
        found = {int(m[1]) for known in self.names if (m := pattern.fullmatch(known))}
        for number in range(len(found)):
            if number not in found:
                raise BadFile(f"{self.path}: missing column {name}_{number}")
        return [f"{name}_{number}" for number in range(len(found))]


@contextmanager
def open_table(path: Path) -> Iterator[Columns | None]:
    """The columns of a file, to be read inside the block; None if it is a saved buffer of ours."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from error
    if not start:
        raise BadFile(f"{path} is empty")
    if start == b"PAR1":
        with Decoder() as decoder:
            yield _open_parquet(path, decoder)
    elif start[:2] == b"PK":
        yield _open_npz(path)
    else:
        hint = ""
        if start[:1] == b"\x80":  # how a pickle begins
            hint = (
                ". It looks like a pickle, which is code and is not opened: of Stable-Baselines3, "
                "write the columns with sibling_replay.integrations.sb3.export(model, path)"
            )
        raise BadFile(f"{path} is neither a saved buffer, nor an .npz, nor a Parquet file{hint}")


def _open_npz(path: Path) -> Columns | None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = dict.fromkeys(archive.namelist()).keys()
            check_members_apart(archive)
            declared = sum(member.file_size for member in archive.infolist())
    except Exception as error:  # the reader of zip raises anything on damaged bytes
        raise BadFile(f"{path} is not a complete .npz file: {error}") from error
    if members >= _SAVED_BUFFER:
        return None
    size = os.path.getsize(path)
    if declared > max(_LITTLE, _MOST_INFLATION * size):
        raise BadFile(
            f"{path} has {size:,} bytes and says that it unpacks to {declared:,}, more than "
            f"{_MOST_INFLATION} times as much: if that is right, save it again with np.savez, "
            "without compression"
        )

    def read(name: str) -> NDArray[Any]:
        try:
            with np.load(path, allow_pickle=False) as archive:
                return np.asarray(archive[name])
        except Exception as error:  # the readers of zip and npy raise anything on damaged bytes
            hint = "it holds Python objects, which" if "pickle" in str(error) else "it"
            raise BadFile(f"{path}: column {name}: {hint} cannot be read: {error}") from error

    names = tuple(member.removesuffix(".npy") for member in members)
    return Columns(path, names, read)


def _open_parquet(path: Path, decoder: Decoder) -> Columns:
    try:
        names = tuple(decoder.read_foreign(path, rows=0).columns)
    except (Damaged, OSError) as error:
        raise BadFile(f"{path} is not a readable Parquet file: {error}") from error

    def read(name: str) -> NDArray[Any]:
        try:
            series = decoder.read_foreign(path, columns=[name])[name]
        except (Damaged, OSError) as error:
            raise BadFile(f"{path}: column {name} cannot be read: {error}") from error
        return _array(path, name, series)

    return Columns(path, names, read)


def _array(path: Path, name: str, series: pl.Series) -> NDArray[Any]:
    """A series, of lists of any depth, as an array."""
    shape = [len(series)]
    while isinstance(series.dtype, (pl.List, pl.Array)):
        _refuse_nulls(path, name, series, shape)
        if isinstance(series.dtype, pl.Array):
            series = series.arr.to_list()
        lengths = series.list.len()
        size = int(lengths[0]) if len(lengths) else 0
        uneven = (lengths != size).arg_true()
        if len(uneven):
            row = _row(int(uneven[0]), shape)
            raise BadFile(
                f"{path}: {name} of row {row} has {lengths[int(uneven[0])]} elements, "
                f"the first row has {size}"
            )
        shape.append(size)
        if size == 0:
            return np.empty(shape)
        series = series.explode()
    _refuse_nulls(path, name, series, shape)
    if series.dtype == pl.String:
        return np.array(series.to_list(), dtype=np.str_).reshape(shape)
    if not (series.dtype.is_integer() or series.dtype.is_float() or series.dtype == pl.Boolean):
        advice = _CASTS.get(series.dtype.base_type(), "it must hold numbers or strings")
        raise BadFile(f"{path}: column {name} is of the Parquet type {series.dtype}: {advice}")
    return np.asarray(series.to_numpy()).reshape(shape)


def _refuse_nulls(path: Path, name: str, series: pl.Series, shape: list[int]) -> None:
    nulls = series.is_null().arg_true()
    if len(nulls):
        raise BadFile(f"{path}: {name} of row {_row(int(nulls[0]), shape)} is missing (null)")


def _row(position: int, shape: list[int]) -> int:
    """Of an element, given the shape so far."""
    return position // int(np.prod(shape[1:], dtype=np.int64))

"""Finished runs on disk: one Parquet file each, one row in it, the same bytes every time.

A row is the whole run: its id, the fields of its config, the summary the tables average, and the
evaluation curve (and any diagnostics) as list columns. One row per file makes three things one
thing: loading a study is stacking rows, a collected study is the same rows in one file, and a run
is done exactly when its file exists, because the file appears by an atomic rename.

Nothing that differs between two executions of a config (times, hosts, worker counts) is stored.
Each row carries a digest of its content: Parquet notices a cut file, not a flipped bit.
"""

from __future__ import annotations

import hashlib
import io
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import polars as pl

from sibling_replay.experiments.metrics import Summary, summarize
from sibling_replay.experiments.spec import Run
from sibling_replay.training.config import RunConfig
from sibling_replay.training.minatar_config import MinAtarConfig
from sibling_replay.training.results import Config, RunResult

SCHEMA = 1  # of the row; raise it when a column changes its meaning
SUFFIX = ".parquet"
CURVE = ("eval_step", "eval_episode", "eval_return", "eval_success")
DIAGNOSTIC = "diagnostic/"  # prefix of a diagnostic's list column

_DTYPES: dict[Any, pl.DataType] = {
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    str: pl.String(),
    int | None: pl.Int64(),
    float | None: pl.Float64(),
    str | None: pl.String(),
}
_CONFIG_SCHEMAS: dict[type[Config], dict[str, pl.DataType]] = {
    kind: {name: _DTYPES[hint] for name, hint in get_type_hints(kind).items()}
    for kind in (RunConfig, MinAtarConfig)
}


class StoreError(Exception):
    """A results file is unreadable, altered, not ours, or of another config. Names the file."""


def run_path(root: Path, run: str) -> Path:
    return root / f"{run}{SUFFIX}"


def to_row(run: Run, result: RunResult) -> pl.DataFrame:
    """The one row that is this run; the same result gives the same row."""
    if result.config != run.config:
        raise ValueError(f"{run.id}: the result is of another config: {result.config}")
    columns: list[pl.Series] = [
        pl.Series("schema", [SCHEMA], dtype=pl.Int64),
        pl.Series("run", [run.id]),
        pl.Series("study", [run.study]),
    ]
    for name, dtype in _CONFIG_SCHEMAS[type(run.config)].items():
        columns.append(pl.Series(name, [getattr(run.config, name)], dtype=dtype))
    columns.append(pl.Series("episodes", [result.episodes], dtype=pl.Int64))
    columns.append(pl.Series("updates", [result.updates], dtype=pl.Int64))
    for name, value in summarize(result)._asdict().items():
        columns.append(pl.Series(name, [value], dtype=pl.Float64))
    for name in CURVE:
        columns.append(_list_column(name, getattr(result, name)))
    for name in sorted(result.diagnostics):
        columns.append(_list_column(DIAGNOSTIC + name, result.diagnostics[name]))
    row = pl.DataFrame(columns)
    return row.with_columns(pl.Series("digest", [_digest(row)]))


def config_of(row: dict[str, Any]) -> Config:
    """The config a stored row (as a dict) was made with. Only MinAtar runs have a condition."""
    kind = RunConfig if row.get("condition") is None else MinAtarConfig
    return kind(**{name: row[name] for name in _CONFIG_SCHEMAS[kind] if name in row})


def save_run(root: Path, run: Run, result: RunResult) -> Path:
    path = run_path(root, run.id)
    _write(path, to_row(run, result))
    return path


def adopt_run(root: Path, run: Run, other: Run) -> None:
    """Store, as this run, what another run of the same config gave: it would give the same."""
    if other.config != run.config:
        raise ValueError(f"{run.id} and {other.id} are of different configs")
    row = load_file(run_path(root, other.id))
    row = row.with_columns(pl.lit(run.id).alias("run"), pl.lit(run.study).alias("study"))
    _write(run_path(root, run.id), row.with_columns(pl.Series("digest", [_digest(row)])))


def finished(root: Path, runs: Iterable[Run]) -> set[str]:
    """Ids of the runs whose file exists. Cheap: nothing is opened."""
    return {run.id for run in runs if run_path(root, run.id).is_file()}


def check_finished(root: Path, runs: Iterable[Run]) -> set[str]:
    """As `finished`, but open each file and refuse one that is bad or of another config.

    Skipping it would leave a hole in the study; reusing it would put a wrong number in a table.
    """
    done = set()
    for run in runs:
        path = run_path(root, run.id)
        if not path.is_file():
            continue
        stored = config_of(load_file(path).row(0, named=True))
        if stored != run.config:
            names = _CONFIG_SCHEMAS[type(run.config)]
            differing = [
                f"{name} is {getattr(stored, name, None)!r}, "
                f"asked for {getattr(run.config, name)!r}"
                for name in names
                if getattr(stored, name, None) != getattr(run.config, name)
            ]
            raise StoreError(
                f"{path} was made with another config ({'; '.join(differing)}): "
                "delete it or choose another --out"
            )
        done.add(run.id)
    return done


def load_file(path: Path) -> pl.DataFrame:
    """The rows of one run's file or of a collected study, checked against their digests."""
    try:
        frame = pl.read_parquet(path.read_bytes())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise StoreError(f"{path} is not a readable Parquet file ({error}): delete it") from error
    missing = {"schema", "run", "digest", *CURVE} - set(frame.columns)
    if missing:
        columns = ", ".join(sorted(missing))
        raise StoreError(f"{path} is not a results file of sibling-replay (no column {columns})")
    for position in range(frame.height):
        row = frame[position]
        if row["schema"][0] != SCHEMA:
            raise StoreError(f"{path} has schema {row['schema'][0]}, this version reads {SCHEMA}")
        if row["digest"][0] != _digest(row):
            raise StoreError(f"{path} was altered after it was written (digest differs): delete it")
    return frame


def load_runs(root: Path, studies: Sequence[str] = ()) -> pl.DataFrame:
    """Every finished run below `root` (a directory of runs, or one collected file), a row each."""
    if root.is_file():
        frame = load_file(root)
        return frame.filter(pl.col("study").is_in(studies)) if studies else frame
    places = [root / study for study in studies] if studies else [root]
    paths = sorted(path for place in places for path in place.rglob(f"*{SUFFIX}"))
    if not paths:
        raise StoreError(f"no finished runs below {', '.join(map(str, places))}")
    return _stack([load_file(path) for path in paths])


def no_runs() -> pl.DataFrame:
    """A frame of no run: what a study of which nothing has been run looks like."""
    text = dict.fromkeys(("run", "study"), pl.String())
    numbers = dict.fromkeys(Summary._fields, pl.Float64())
    settings = _CONFIG_SCHEMAS[RunConfig] | _CONFIG_SCHEMAS[MinAtarConfig]
    return pl.DataFrame(schema={**text, **settings, **numbers})


def curves(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per evaluation instead of one per run: what a figure or a groupby wants."""
    settings = {name for schema in _CONFIG_SCHEMAS.values() for name in schema}
    keep = ["run", "study", *(name for name in frame.columns if name in settings)]
    return frame.select(*keep, *CURVE).explode(*CURVE)


def collect(root: Path, study: str, target: Path) -> int:
    """Put a study's finished runs into one file, fit for committing; returns how many."""
    frame = load_runs(root, [study])
    _write(target, frame, level=19)
    return frame.height


def clean(root: Path) -> int:
    """Remove what writers killed on this host left behind; returns how many files.

    A temporary file names its writer, so two runners may share a directory: the living are spared.
    """
    removed = 0
    for path in root.rglob(f".*@{socket.gethostname()}.tmp"):
        writer = int(path.name.rsplit("@", 2)[1])
        if not _alive(writer):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _stack(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows below each other; a diagnostic that some runs lack is null there."""
    frame = pl.concat(frames, how="diagonal")
    order = ["study", "env", "method", "alpha", "beta_start", "beta_end", "seed", "run"]
    return frame.sort(order)


def _list_column(name: str, values: np.ndarray) -> pl.Series:
    return pl.Series(name, [pl.Series(np.ascontiguousarray(values))])


def _digest(row: pl.DataFrame) -> str:
    """Of names and exact values. Nulls do not count, so stacking with other runs keeps it."""
    digest = hashlib.blake2b(digest_size=16)
    for column in sorted(row.columns):
        value = row[column][0]
        if value is None or column == "digest":
            continue
        digest.update(f"{column}\0".encode())
        if isinstance(value, pl.Series):
            digest.update(value.to_numpy().tobytes())
        else:
            digest.update(f"{value!r}\0".encode())
    return digest.hexdigest()


def _write(path: Path, frame: pl.DataFrame, level: int = 3) -> None:
    encoded = io.BytesIO()
    frame.write_parquet(encoded, compression="zstd", compression_level=level)
    write_whole(path, encoded.getvalue())


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target, force it to disk, rename: the file is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}@{os.getpid()}@{socket.gethostname()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename itself must survive a power cut
    finally:
        os.close(directory)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process, but a process
    return True

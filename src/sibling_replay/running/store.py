"""Finished runs on disk: one Parquet file each, one row in it, the same bytes every time.

A row is the whole run: its id, the fields of its config, the summary the tables average, and the
evaluation curve (and any diagnostics) as list columns. One row per file makes three things one
thing: loading a study is stacking rows, a collected study is the same rows in one file, and a run
is done exactly when its file exists, because the file appears by an atomic rename.

Nothing that differs between two executions of a config (times, hosts, worker counts) is stored.
A file carries a checksum of its bytes (see parquet.py) and each row a digest of its content, which
it keeps when rows are collected. A file counts as the run that it holds only in that run's place:
a copy of it elsewhere is refused, not taken for another seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import polars as pl

from sibling_replay.files import write_whole
from sibling_replay.running.metrics import Scores, scores_of
from sibling_replay.running.parquet import Damaged, Decoder, encode
from sibling_replay.running.runs import Run
from sibling_replay.training.config import CONFIGS, RunConfig
from sibling_replay.training.results import RunResult

SCHEMA = 2  # of the row; raise it when a column changes its meaning
# Schema 1 knew two kinds of config by whether there is a condition, and called how often they are
# evaluated by one name. Its rows stay as they were written; whoever reads them sees schema 2.
READ = (1, SCHEMA)
SUFFIX = ".parquet"
CURVE = ("eval_step", "eval_episode", "eval_return", "eval_success")
_FIRST = ("run", "study", "kind")  # columns of a frame
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


def _columns(kind: type[RunConfig]) -> dict[str, pl.DataType]:
    """The columns of a config's settings."""
    hints = get_type_hints(kind)
    return {field.name: _DTYPES[hints[field.name]] for field in fields(kind)}


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
        pl.Series("kind", [run.config.kind]),
    ]
    for name, dtype in _columns(type(run.config)).items():
        columns.append(pl.Series(name, [getattr(run.config, name)], dtype=dtype))
    columns.append(pl.Series("episodes", [result.episodes], dtype=pl.Int64))
    columns.append(pl.Series("updates", [result.updates], dtype=pl.Int64))
    for name, value in scores_of(result)._asdict().items():
        columns.append(pl.Series(name, [value], dtype=pl.Float64))
    for name in CURVE:
        columns.append(_list_column(name, getattr(result, name)))
    for name in sorted(result.diagnostics):
        columns.append(_list_column(DIAGNOSTIC + name, result.diagnostics[name]))
    row = pl.DataFrame(columns)
    return row.with_columns(pl.Series("digest", [_digest(row)]))


def config_of(row: dict[str, Any]) -> RunConfig:
    """The config a stored row (as a dict) was made with."""
    kind = CONFIGS.get(row["kind"])
    if kind is None:
        raise StoreError(
            f"{row['run']} is of a config of kind {row['kind']!r}, which nothing imported defines: "
            "import the module of its study first"
        )
    return kind(**{name: row[name] for name in _columns(kind) if name in row})


def _as_present(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of any schema under the names of this one."""
    old = pl.col("schema") == 1
    if "kind" not in frame.columns:
        frame = frame.with_columns(pl.lit(None, pl.String).alias("kind"))
    if "condition" not in frame.columns:
        frame = frame.with_columns(pl.lit(None, pl.String).alias("condition"))
    game = pl.col("condition").is_not_null()
    kind = pl.when(game).then(pl.lit("minatar")).otherwise(pl.lit("tabular"))
    frame = frame.with_columns(pl.when(old).then(kind).otherwise("kind").alias("kind"))
    if "eval_interval" in frame.columns:
        for name, of in (("eval_every_steps", game), ("eval_every_episodes", ~game)):
            there = pl.col(name) if name in frame.columns else pl.lit(None, pl.Int64)
            first = pl.when(old & of).then("eval_interval").otherwise(there)
            frame = frame.with_columns(first.alias(name))
        frame = frame.drop("eval_interval")
    if frame.schema.get("hidden") == pl.String:  # what the first runs of `keys` call their layers
        frame = frame.rename({"hidden": "hidden_layers"})
    return _in_order(_with_younger(frame))


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns in one order, whatever the rows they came with."""
    return frame.select(sorted(frame.columns, key=lambda name: (name not in _FIRST, name)))


def _with_younger(frame: pl.DataFrame) -> pl.DataFrame:
    """Settings that a config has got since a row was written are as they were unsaid then."""
    for name in frame["kind"].unique().sort():
        kind = CONFIGS.get(name)
        for field in fields(kind) if kind is not None else ():
            unsaid = field.default
            there = field.name in frame.columns
            if unsaid in (MISSING, None) or (there and not frame[field.name].null_count()):
                continue
            dtype = _DTYPES[get_type_hints(kind)[field.name]]
            column = pl.col(field.name) if there else pl.lit(None, dtype)
            missing = (pl.col("kind") == name) & column.is_null()
            filled = pl.when(missing).then(pl.lit(unsaid, dtype)).otherwise(column)
            frame = frame.with_columns(filled.alias(field.name))
    return frame


def save_run(root: Path, run: Run, result: RunResult) -> Path:
    path = run_path(root, run.id)
    _write(path, to_row(run, result))
    return path


def adopt_run(root: Path, run: Run, other: Run) -> None:
    """Store, as this run, what another run of the same config gave: it would give the same."""
    if other.config != run.config:
        raise ValueError(f"{run.id} and {other.id} are of different configs")
    with Decoder() as decoder:
        row = _load_run(root, run_path(root, other.id), decoder)
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
    with Decoder() as decoder:
        for run in runs:
            path = run_path(root, run.id)
            if not path.is_file():
                continue
            stored = config_of(_as_present(_load_run(root, path, decoder)).row(0, named=True))
            if stored != run.config:
                names = _columns(type(run.config))
                differing = [
                    f"{name} is {getattr(stored, name, None)!r}, "
                    f"asked for {getattr(run.config, name)!r}"
                    for name in names
                    if getattr(stored, name, None) != getattr(run.config, name)
                ]
                raise StoreError(
                    f"{path} was made with another config ({'; '.join(differing)}): "
                    "delete it or choose another --runs"
                )
            done.add(run.id)
    return done


def load_file(path: Path) -> pl.DataFrame:
    """The rows of one run's file or of a collected study, checked against their digests."""
    with Decoder() as decoder:
        return _as_present(_load(path, decoder))


def _load(path: Path, decoder: Decoder) -> pl.DataFrame:
    try:
        frame = decoder.read(path)
    except Damaged as error:
        raise StoreError(f"{path} is not a readable Parquet file ({error}): delete it") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    missing = {"schema", "run", "study", "digest", *CURVE} - set(frame.columns)
    if missing:
        columns = ", ".join(sorted(missing))
        raise StoreError(f"{path} is not a results file of sibling-replay (no column {columns})")
    if frame.height == 0:
        raise StoreError(f"{path} holds no run: delete it")
    for position in range(frame.height):
        row = frame[position]
        if row["schema"][0] not in READ:
            versions = " and ".join(map(str, READ))
            raise StoreError(f"{path} has schema {row['schema'][0]}, this version reads {versions}")
        if row["digest"][0] != _digest(row):
            raise StoreError(f"{path} was altered after it was written (digest differs): delete it")
    if frame["run"].n_unique() < frame.height:
        twice = frame["run"].filter(frame["run"].is_duplicated())[0]
        raise StoreError(f"{path} holds the run {twice} more than once: collect it again")
    return frame


def _load_run(root: Path, path: Path, decoder: Decoder) -> pl.DataFrame:
    """The row of a finished run, which must be alone in its file and the file in its place."""
    frame = _load(path, decoder)
    if frame.height > 1:
        raise StoreError(
            f"{path} holds {frame.height} runs, and a file below {root} holds one: move it away"
        )
    place = run_path(root, frame["run"][0])
    if place != path:
        raise StoreError(
            f"{path} holds the run {frame['run'][0]}, whose place is {place}: "
            "a copy would count as another run, so move it away or delete it"
        )
    return frame


def each_run(root: Path, studies: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
    """The row of every finished run below a directory, in the order of their files."""
    return map(_as_present, _each_written(root, studies))


def _each_written(root: Path, studies: Sequence[str]) -> Iterator[pl.DataFrame]:
    places = [root / study for study in studies] if studies else [root]
    with Decoder() as decoder:
        for path in sorted(path for place in places for path in place.rglob(f"*{SUFFIX}")):
            yield _load_run(root, path, decoder)


def load_runs(root: Path, studies: Sequence[str] = ()) -> pl.DataFrame:
    """Every finished run below `root` (a directory of runs, or one collected file), a row each."""
    if root.is_file():
        return _as_present(_load_written(root, studies))
    kinds: dict[str, list[pl.DataFrame]] = {}  # each under its own names, then all together
    for row in _each_written(root, studies):
        kind = row["kind"][0] if "kind" in row.columns else ""
        kinds.setdefault(kind, []).append(row)
    if not kinds:
        raise _nothing(root, studies)
    return _in_order(_stack([_as_present(_stack(rows)) for rows in kinds.values()]))


def _nothing(root: Path, studies: Sequence[str]) -> StoreError:
    places = ", ".join(str(root / study) for study in studies) or str(root)
    collected = studies and Path("results", f"{studies[0]}.parquet").exists()
    back = f" (`collect {studies[0]} --back` lays out those of results/)" if collected else ""
    return StoreError(f"no finished runs below {places}{back}")


def _load_written(root: Path, studies: Sequence[str]) -> pl.DataFrame:
    """The same as they were written, under whatever names."""
    if root.is_file():
        with Decoder() as decoder:
            frame = _load(root, decoder)
        return frame.filter(pl.col("study").is_in(studies)) if studies else frame
    rows = list(_each_written(root, studies))
    if not rows:
        raise _nothing(root, studies)
    return _stack(rows)


def _settings() -> dict[str, pl.DataType]:
    """Every column that a config of any kind has."""
    return {name: dtype for kind in CONFIGS.values() for name, dtype in _columns(kind).items()}


def no_runs() -> pl.DataFrame:
    """A frame of no run: what a study of which nothing has been run looks like."""
    text = dict.fromkeys(("run", "study", "kind"), pl.String())
    numbers = dict.fromkeys(Scores._fields, pl.Float64())
    return pl.DataFrame(schema={**text, **_settings(), **numbers})


def settings_in(frame: pl.DataFrame) -> list[str]:
    """The columns of a frame that are settings of runs."""
    settings = _settings()
    return [name for name in frame.columns if name in settings]


def curves_of(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per evaluation instead of one per run: what a figure or a groupby wants."""
    return frame.select("run", "study", *settings_in(frame), *CURVE).explode(*CURVE)


def as_bytes(frame: pl.DataFrame, suffix: str) -> bytes:
    """A frame as a file of anybody's: .csv, or .parquet."""
    if suffix == SUFFIX:
        return encode(frame, level=3)
    return frame.write_csv().encode()


def collect_runs(root: Path, study: str, target: Path) -> int:
    """Put a study's finished runs into one file, fit for committing, beside those that it holds
    already; returns how many there are then. A run that is in both is taken from the directory."""
    frame = _load_written(root, [study])
    if target.is_file():
        before = _load_written(target, [study])
        frame = _stack([before.filter(~pl.col("run").is_in(frame["run"].to_list())), frame])
    _write(target, frame, level=19)
    return frame.height


def lay_out_runs(source: Path, study: str, root: Path) -> int:
    """The reverse of `collect_runs`: each run of a collected file in its place below `root`, unless
    it is there already; returns how many were written."""
    if not source.is_file():
        raise StoreError(f"there is no collected file {source}")
    frame = _load_written(source, [study])
    written = 0
    for row in frame.iter_slices(1):
        path = run_path(root, row["run"][0])
        if not path.exists():
            _write(path, row.select(column for column in row if column.null_count() == 0))
            written += 1
    return written


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, encode(frame, level))

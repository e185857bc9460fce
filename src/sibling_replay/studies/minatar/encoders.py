"""What an encoder's groups look like: the paper's support table, a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from sibling_replay.grouping.vqvae.files import EncoderFile
from sibling_replay.grouping.vqvae.observations import Observations, collect_observations
from sibling_replay.grouping.vqvae.support import QUANTILES, SUPPORTED, CodeSupport, code_support
from sibling_replay.running.store import StoreError
from sibling_replay.studies.paper.numbers import groupings

SAMPLE = 100_000  # transitions; the size that the paper's table fits
SAMPLE_SEED = 1_000_003  # of no encoder's training data

# Support rules, met by all five of the paper's selected encoders.
LEAST_SUPPORTED = 2 / 3  # of transitions in buckets of at least SUPPORTED
LEAST_MEDIAN = 30  # transitions in the median bucket

# columns of the paper's table: head, format
MEASURES = {
    "reconstruction": ("recon.", ".3f"),
    "perplexity": ("perp.", ".1f"),
    "pair_coverage": ("pair cov.", ".3f"),
    "median_bucket": ("median bucket", ".0f"),
    "frac_ge_100": ("frac >= 100", ".3f"),
}

_CHUNK = 10_000  # observations unpacked at a time


@dataclass(frozen=True)
class Inspection:
    """An encoder with its support on a sample of random play."""

    file: EncoderFile
    support: CodeSupport

    @property
    def collapsed(self) -> bool:
        """Whether every observation has the same code: such groups are large and mean nothing."""
        return self.support.used_keys == 1

    @property
    def supported(self) -> bool:
        """Whether groups are large enough to replace an outcome by a sibling's."""
        found = self.support
        enough = found.fraction_supported >= LEAST_SUPPORTED
        return enough and found.median_bucket >= LEAST_MEDIAN


def sample(game: str, transitions: int = SAMPLE) -> Observations:
    """Random play that no encoder was trained on."""
    check_transitions(transitions)
    return collect_observations(game, transitions, SAMPLE_SEED)


def check_transitions(transitions: int) -> None:
    if transitions < 1:
        raise ValueError(f"--transitions must be at least 1, got {transitions}")


def packed_codes(file: EncoderFile, data: Observations) -> np.ndarray[Any, np.dtype[np.int64]]:
    starts = range(0, len(data), _CHUNK)
    parts = [file.encoder.keys(data.at(slice(start, start + _CHUNK))) for start in starts]
    return np.concatenate(parts)


def inspect(file: EncoderFile, data: Observations) -> Inspection:
    packed = packed_codes(file, data)
    codes = file.encoder.unpack(packed)
    action = data.action.astype(np.int64)
    return Inspection(
        file, code_support(codes, packed, action, n_codes=file.encoder.codes, n_actions=6)
    )


def recommend(inspections: Sequence[Inspection]) -> Inspection | None:
    """The encoder that tells most apart among those with enough support.

    Enough: LEAST_SUPPORTED and LEAST_MEDIAN. Telling apart: the least reconstruction loss, then the
    fewest keys. If none has enough support, the one that comes closest. One that has collapsed to
    a single code never: None if all have. All must be of one loss: nats and squares are of
    different sizes.
    """
    losses = {one.file.config.loss for one in inspections}
    if len(losses) != 1:
        raise ValueError(f"encoders of one loss can be compared, not of {', '.join(losses)}")
    useful = [one for one in inspections if not one.collapsed]
    enough = [one for one in useful if one.supported]
    if not enough:
        return max(useful, key=lambda one: one.support.fraction_supported, default=None)
    return min(enough, key=lambda one: (one.file.reconstruction, one.file.encoder.most_keys))


def support_frame(inspections: Sequence[Inspection]) -> pl.DataFrame:
    """A row an encoder, in the paper's columns, with the published number (`paper_*`) beside."""
    published = groupings()
    rows = []
    for one in inspections:
        config, found = one.file.config, one.support
        grid = f"{config.grid[0]}x{config.grid[1]}"
        ours = {
            "reconstruction": one.file.reconstruction,
            "perplexity": found.perplexity,
            "pair_coverage": found.pair_coverage,
            "median_bucket": found.median_bucket,
            "frac_ge_100": found.fraction_supported,
        }
        paper = published.get((config.game, grid, config.codes), {}) if config.loss == "bce" else {}
        rows.append(
            {
                "game": config.game,
                "grid": grid,
                "codebook": config.codes,
                "loss": config.loss,
                "seed": config.seed,
                "observations": config.observations,
                "updates": config.updates,
                "transitions": found.transitions,
                **ours,
                **{f"paper_{name}": paper.get(name) for name in ours},
                **{_quantile(q): v for q, v in zip(QUANTILES, found.bucket_quantiles, strict=True)},
                "used_codes": found.used_codes,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def read_support(path: Path) -> pl.DataFrame:
    """A table that `support_frame` made and `vqvae inspect --csv` wrote."""
    try:
        frame = pl.read_csv(path)
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"{path} is not a readable CSV file ({error}): delete it") from error
    missing = set(no_support().columns) - set(frame.columns)
    if missing:
        columns = ", ".join(sorted(missing))
        raise StoreError(f"{path} was not made by `vqvae inspect --csv` (no column {columns})")
    return frame.with_columns(pl.col(n).cast(kind) for n, kind in no_support().schema.items())


def merged(before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Both tables in one; an encoder that is in both is as it is now."""
    encoder = ["game", "grid", "codebook", "loss", "seed", "observations", "updates"]
    kept = before.join(now, on=encoder, how="anti")
    return pl.concat([kept, now], how="diagonal_relaxed").sort(encoder)


def no_support() -> pl.DataFrame:
    """The table of no encoder."""
    text = dict.fromkeys(("game", "grid", "loss"), pl.String())
    counts = dict.fromkeys(
        ("codebook", "seed", "observations", "updates", "transitions"), pl.Int64()
    )
    numbers = (*MEASURES, *(f"paper_{name}" for name in MEASURES))
    return pl.DataFrame(schema={**text, **counts, **dict.fromkeys(numbers, pl.Float64())})


def _quantile(q: float) -> str:
    return f"bucket_q{q:g}"


def support_table(frame: pl.DataFrame) -> Table:
    """Ours, and the paper's in brackets."""
    table = Table(title=f"VQ-VAE grouping (paper in brackets; supported: >= {SUPPORTED})")
    for name in ("game", "grid, K", "loss", "seed"):
        table.add_column(name)
    for title, _ in MEASURES.values():
        table.add_column(title, justify="right")
    table.add_column(f"bucket sizes at {', '.join(f'{q:g}' for q in QUANTILES)}", justify="right")
    for row in frame.iter_rows(named=True):
        cells = [row["game"], f"{row['grid']}, {row['codebook']}", row["loss"], str(row["seed"])]
        for name, (_, form) in MEASURES.items():
            published = row[f"paper_{name}"]
            beside = "" if published is None else f" ({published:{form}})"
            cells.append(f"{row[name]:{form}}{beside}")
        cells.append(" ".join(f"{row[_quantile(q)]:.0f}" for q in QUANTILES))
        table.add_row(*cells)
    return table

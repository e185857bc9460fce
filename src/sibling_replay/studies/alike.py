"""Runs that are averaged differ in their seed alone."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sibling_replay.running.store import settings_in


def check_alike(frame: pl.DataFrame, cell: Sequence[str]) -> None:
    """Refuse runs that agree in the columns `cell` and differ in a setting (learning rate, encoder,
    ...) other than the seed: a mean over them would be of no experiment."""
    others = [name for name in settings_in(frame) if name not in (*cell, "seed")]
    counted = frame.group_by(*cell, maintain_order=True).agg(
        pl.col(name).drop_nulls().n_unique() for name in others
    )
    for row in counted.iter_rows(named=True):
        for name in others:
            if row[name] > 1:
                alike = (pl.col(key).eq_missing(pl.lit(row[key])) for key in cell)
                values = frame.filter(*alike)[name].drop_nulls().unique().sort()
                raise ValueError(
                    f"runs of {', '.join(str(row[key]) for key in cell)} differ in {name} "
                    f"({', '.join(map(str, values))}): keep those of one kind, and move the others "
                    "to a directory of their own"
                )


def check_cells(frame: pl.DataFrame) -> None:
    """The same of runs whose ids agree but for the seed: not every setting is in an id."""
    cell = pl.col("run").str.replace("/seed=[0-9]+$", "")
    check_alike(frame.with_columns(cell.alias("cell")), ("cell",))

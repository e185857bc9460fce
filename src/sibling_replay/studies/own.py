"""Runs of one's own, by `sibling-replay train`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
from rich.table import Table

from sibling_replay.artefacts.on_terminal import CELL, run_tables, with_settings
from sibling_replay.running import store
from sibling_replay.running.runs import Run, own_settings, run_id
from sibling_replay.studies.study import Choice, Stage
from sibling_replay.studies.tabular import TabularStudy
from sibling_replay.training.config import TabularConfig, paper_config

NAME = "train"
PAPER = "as the paper"  # what settings are that an id does not name


def own_run(config: TabularConfig) -> Run:
    """Its id names every setting that is not the paper's."""
    usual = paper_config(config.env, config.method, config.seed)
    return Run(NAME, run_id(NAME, config, *own_settings(config, usual)), config)


class OwnRuns(TabularStudy):
    """Whatever `train` was asked for."""

    name = NAME
    about = "the runs of your own, by `sibling-replay train`"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return ()

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        raise ValueError("runs of your own are made by `sibling-replay train`")

    def compared(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame

    def tables(self, frame: pl.DataFrame) -> Iterator[Table | str]:
        yield from run_tables(frame, PAPER)

    def status_lines(self, out: Path) -> list[str]:
        if not any((out / NAME).rglob(f"*{store.SUFFIX}")):
            return [f"{NAME}: no runs of your own"]
        frame = with_settings(store.load_runs(out, [NAME]), PAPER)
        lines = [f"{NAME}: {frame.height} runs of your own"]
        for (env, method, settings), runs in frame.group_by(*CELL, maintain_order=True):
            seeds = ", ".join(map(str, runs["seed"]))
            lines.append(f"  {env:<22} {method:<7} {settings}; seed {seeds}")
        return lines


OWN = OwnRuns()
STUDIES = (OWN,)

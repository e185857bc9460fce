"""`sibling-replay curves`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.files import make_writable, write_whole
from sibling_replay.running import store
from sibling_replay.studies import study_named


def curves(name: AnyStudy, to: Path, runs: Runs = Path("runs")) -> int:
    """Write a study's learning curves as a table to plot: a row an evaluation of a run.

    The same as a frame: `store.curves_of(store.load_runs(runs, [name]))`, with
    `from sibling_replay.running import store`.

    Args:
        to: File to write, .csv or .parquet.
        runs: Directory of finished runs, or a file made by `collect`.
    """
    if to.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--to must end in .csv or .parquet, got {to}")
    study = study_named(name)
    frame = store.curves_of(store.load_runs(runs, [study.name]))
    make_writable(to.parent)
    write_whole(to, store.as_bytes(frame, to.suffix))
    say(f"{frame.height} evaluations of {frame['run'].n_unique()} runs: {to}")
    return 0

"""`sibling-replay collect`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.running import store
from sibling_replay.studies import study_named


def collect(name: AnyStudy, runs: Runs = Path("runs"), results: Path = Path("results")) -> int:
    """Put a study's finished runs into one compact file, results/<study>.parquet, for committing,
    beside those that it holds already.

    Args:
        results: Directory of the collected file.
    """
    study = study_named(name)
    target = results / f"{study.name}{store.SUFFIX}"
    count = store.collect_runs(runs, study.name, target)
    say(f"{count} runs, {target.stat().st_size / 1e6:.2f} MB: {target}")
    return 0

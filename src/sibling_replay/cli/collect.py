"""`sibling-replay collect`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.running import store
from sibling_replay.studies import study_named


def collect(
    name: AnyStudy,
    runs: Runs = Path("runs"),
    results: Path = Path("results"),
    back: bool = False,
) -> int:
    """Put a study's finished runs into one compact file, results/<study>.parquet, for committing,
    beside those that it holds already.

    Args:
        results: Directory of the collected file.
        back: The other way: put the runs of the collected file into <runs>, so that `reproduce`
            does only those that are missing.
    """
    study = study_named(name)
    target = results / f"{study.name}{store.SUFFIX}"
    if back:
        laid = store.lay_out_runs(target, study.name, runs)
        say(f"{laid} runs of {target} are new in {runs}")
        return 0
    count = store.collect_runs(runs, study.name, target)
    say(f"{count} runs, {target.stat().st_size / 1e6:.2f} MB: {target}")
    return 0

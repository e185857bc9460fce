"""`sibling-replay status`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.studies import all_studies, study_named


def status(name: AnyStudy = "all", runs: Runs = Path("runs")) -> int:
    """Show how many runs of each study, environment and method are done.

    Args:
        runs: Directory of finished runs, one Parquet file each.
    """
    chosen = all_studies().values() if name == "all" else (study_named(name),)
    for study in chosen:
        first, *rest = study.status_lines(runs)
        for line in (f"{first} in {runs}", *rest):
            say(line)
    return 0

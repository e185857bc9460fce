"""`sibling-replay status`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.studies import all_studies, study_named


def status(name: AnyStudy = "all", runs: Runs = Path("runs")) -> int:
    """Show how many runs of each study are done; of one that is named, of each environment and
    method.

    Args:
        runs: Directory of finished runs, one Parquet file each.
    """
    for study in all_studies().values() if name == "all" else (study_named(name),):
        first, *rest = study.status_lines(runs)
        for line in (f"{first} in {runs}", *(rest if name != "all" else ())):
            say(line)
    return 0

"""`sibling-replay table`."""

from __future__ import annotations

from pathlib import Path

from sibling_replay.cli.carry_out import say
from sibling_replay.cli.options import AnyStudy, Runs
from sibling_replay.running import store
from sibling_replay.studies import study_named
from sibling_replay.terminal import new_console


def table(name: AnyStudy = "exact", runs: Runs = Path("runs")) -> int:
    """Print our numbers beside the paper's: mean, standard error, distance in combined errors.

    Runs that nothing was published of are printed a row each.

    Args:
        runs: Directory of finished runs, or a file made by `collect`.
    """
    study = study_named(name)
    console = new_console()
    for part in study.tables(store.load_runs(runs, [study.name])):
        if isinstance(part, str):
            say(part)
        else:
            console.print(part)
    return 0

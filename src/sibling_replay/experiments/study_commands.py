"""How far a study is, its numbers beside the paper's, its runs in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from sibling_replay.experiments import (
    custom_runs,
    display,
    minatar_coverage,
    minatar_tables,
    store,
    tables,
)
from sibling_replay.experiments.spec import CUSTOM, STUDIES, study
from sibling_replay.experiments.terminal import new_console, printable

Out = Annotated[Path, tyro.conf.arg(help="Directory of finished runs, one Parquet file each.")]
AnyStudy = tyro.conf.Positional[Literal["exact", "grid", "testing", "minatar"]]


def status(
    name: tyro.conf.Positional[
        Literal["exact", "grid", "testing", "minatar", "train", "all"]
    ] = "all",
    out: Out = Path("runs"),
) -> int:
    """Show how many runs of each study, environment and method are done.

    Args:
        name: Which study; train: the runs of your own, by `sibling-replay train`.
    """
    console = new_console()
    for chosen in (*STUDIES, "minatar", CUSTOM) if name == "all" else (name,):
        if chosen == "minatar":
            lines = minatar_coverage.status_lines(out)
        elif chosen == CUSTOM:
            lines = custom_runs.status_lines(out)
        else:
            lines = _lines(chosen, out)
        lines[0] += f" in {out}"
        for line in lines:
            console.print(printable(line), markup=False, soft_wrap=True)
    return 0


def _lines(name: str, out: Path) -> list[str]:
    runs = study(name)
    done = store.finished(out, runs)
    rows: dict[tuple[str, str], list[bool]] = {}
    for run in runs:
        rows.setdefault((run.config.env, run.config.method), []).append(run.id in done)
    lines = [f"{name}: {len(done)} of {len(runs)} runs done"] + [
        f"  {env:<22}{method:<8}{sum(finished):>4} / {len(finished)}"
        for (env, method), finished in rows.items()
    ]
    paths = {store.run_path(out, run.id) for run in runs}
    others = len(set((out / name).rglob(f"*{store.SUFFIX}")) - paths)
    return lines + ([f"  and {others} runs with seeds that are not the paper's"] if others else [])


def table(
    name: tyro.conf.Positional[Literal["exact", "grid", "testing", "minatar", "train"]] = "exact",
    out: Out = Path("runs"),
) -> int:
    """Print our numbers beside the paper's: mean, standard error, distance in combined errors.

    `table train` prints the runs of your own instead, a row each.

    Args:
        name: Which study: exact, grid, minatar; train: the runs of your own, by
            `sibling-replay train`.
        out: Directory of finished runs, or a file made by `collect`.
    """
    if name == "testing":
        raise ValueError("the testing runs have no published numbers: choose exact, grid, minatar")
    console = new_console()
    if name == CUSTOM:
        for custom in display.custom_tables(custom_runs.cells(custom_runs.load(out))):
            console.print(custom)
        return 0
    stored = store.load_runs(out, [name])
    if name == "minatar":
        runs = minatar_coverage.of_the_paper(stored)
    else:
        runs = tables.of_the_paper(stored, name)
    if name == "minatar":
        console.print(display.minatar_table(minatar_tables.compare_auc(runs)))
    elif name == "exact":
        console.print(display.exact_table(tables.compare_exact(runs)))
    else:
        console.print(display.grid_table(tables.compare_grid(runs)))
    if others := stored.height - runs.height:
        console.print(f"left out: {others} runs with seeds that are not the paper's")
    return 0


def collect(
    name: tyro.conf.Positional[Literal["exact", "grid", "testing", "minatar", "minatar-rates"]],
    out: Out = Path("runs"),
    results: Path = Path("results"),
) -> int:
    """Put a study's finished runs into one compact file, results/<study>.parquet, for committing.

    Args:
        name: Which study; minatar-rates: the runs of `reproduce minatar --select-lr` that choose
            learning rates.
        results: Directory of the collected file.
    """
    target = results / f"{name}.parquet"
    count = store.collect(out, name, target)
    said = printable(f"{count} runs, {target.stat().st_size / 1e6:.2f} MB: {target}")
    new_console().print(said, markup=False, soft_wrap=True)
    return 0

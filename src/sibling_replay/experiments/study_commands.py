"""How far a study is, its numbers beside the paper's, its runs in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from sibling_replay.experiments import display, minatar_coverage, minatar_tables, store, tables
from sibling_replay.experiments.spec import STUDIES, study

Out = Annotated[Path, tyro.conf.arg(help="Directory of finished runs, one Parquet file each.")]
AnyStudy = tyro.conf.Positional[Literal["exact", "grid", "testing", "minatar"]]


def status(
    name: tyro.conf.Positional[Literal["exact", "grid", "testing", "minatar", "all"]] = "all",
    out: Out = Path("runs"),
) -> int:
    """Show how many runs of each study, environment and method are done.

    Args:
        name: Which study.
    """
    console = display.new_console()
    for chosen in (*STUDIES, "minatar") if name == "all" else (name,):
        lines = minatar_coverage.status_lines(out) if chosen == "minatar" else _lines(chosen, out)
        lines[0] += f" in {out}"
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
    return 0


def _lines(name: str, out: Path) -> list[str]:
    runs = study(name)
    done = store.finished(out, runs)
    rows: dict[tuple[str, str], list[bool]] = {}
    for run in runs:
        rows.setdefault((run.config.env, run.config.method), []).append(run.id in done)
    return [f"{name}: {len(done)} of {len(runs)} runs done"] + [
        f"  {env:<22}{method:<8}{sum(finished):>4} / {len(finished)}"
        for (env, method), finished in rows.items()
    ]


def table(name: AnyStudy = "exact", out: Out = Path("runs")) -> int:
    """Print our numbers beside the paper's: mean, standard error, distance in combined errors.

    Args:
        name: Which study: exact, grid or minatar.
        out: Directory of finished runs, or a file made by `collect`.
    """
    if name == "testing":
        raise ValueError("the testing runs have no published numbers: choose exact, grid, minatar")
    console = display.new_console()
    if name == "minatar":
        compared = minatar_tables.compare_auc(minatar_coverage.load(out))
        console.print(display.minatar_table(compared))
    elif name == "exact":
        console.print(display.exact_table(tables.compare_exact(store.load_runs(out, [name]))))
    else:
        console.print(display.grid_table(tables.compare_grid(store.load_runs(out, [name]))))
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
    display.new_console().print(f"{count} runs, {target.stat().st_size / 1e6:.2f} MB: {target}")
    return 0

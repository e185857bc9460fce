"""`sibling-replay report`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sibling_replay.experiments import store
from sibling_replay.files import make_writable


def report(
    runs: Path | None = None, results: Path | None = None, out: Path = Path("report")
) -> int:
    """Write the report: one HTML page, figures (PDF, PNG) and tables (Markdown, LaTeX).

    It is made from whatever has been run; what has not is said in it. Without --runs and --results
    it reads results/*.parquet, or runs/ if there are none. The table of encoders comes from
    vqvae.csv in the same directory, made by `vqvae inspect --csv`.

    Args:
        runs: Directory of finished runs, one Parquet file each.
        results: Directory of files made by `collect`, one a study.
        out: Directory of the report; index.html in it is the page.
    """
    try:
        from . import build, inputs
    except ImportError as error:
        raise ImportError(
            f"{error}: the report needs an extra, pip install 'sibling-replay[report]'"
        ) from error
    if runs is not None and results is not None:
        raise ValueError("give --runs or --results, not both")
    collected = results or Path("results")
    if results is not None or (runs is None and any(collected.glob(f"*{store.SUFFIX}"))):
        source, kind, load = collected, "--results", inputs.load_results
    else:
        source, kind, load = runs or Path("runs"), "--runs", inputs.load_runs
    if not source.is_dir():
        raise ValueError(f"nothing to report: {source} is not a directory")
    frames = load(source)
    make_writable(out)
    made = build.build(frames, f"sibling-replay report {kind} {source.resolve().name}")
    build.write(made, out)
    total = made.count
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{total.within} of {total.compared} published means within the combined 95 % interval"
    )
    for artefact in made.gaps:
        shown = "partly run" if artefact.figure or artefact.table else "not run"
        console.print(f"{shown}: {artefact.entry.number}, {artefact.entry.title}")
    console.print(str(out / "index.html"))
    return 0

"""Writes the tables of the README from results/ and benchmarks/, and draws MinAtar's curves:
`python docs/write_results.py`. The site takes the same blocks when it is built (`site_blocks.py`).

A block lies between `<!-- NAME -->` and `<!-- /NAME -->`. A test fails when a committed block is
not what the committed results give.
"""

from __future__ import annotations

import re
from math import isnan
from pathlib import Path

import polars as pl
from matplotlib import rc_context

from sibling_replay.artefacts import comparison
from sibling_replay.report import matplotlib_ink
from sibling_replay.running import store
from sibling_replay.studies import exact as exact_study
from sibling_replay.studies import grid as grid_study
from sibling_replay.studies import study_named
from sibling_replay.studies.frozen_lake_shift import target_shifts
from sibling_replay.studies.minatar import coverage as minatar_coverage
from sibling_replay.studies.minatar import tables as minatar_tables
from sibling_replay.studies.minatar.encoders import MEASURES, SAMPLE, read_support
from sibling_replay.studies.minatar.figures import minatar_curves
from sibling_replay.studies.minatar.runs import SEEDS
from sibling_replay.studies.tabular import LAKES
from sibling_replay.training.minatar.config import MINATAR_METHODS
from sibling_replay.training.tabular.trainer import tabular_model

ROOT = Path(__file__).parent.parent
PAGES = ("README.md",)
AGREES = 1.96  # combined standard errors: the combined 95 % interval


def blocks() -> dict[str, str]:
    exact = exact_study.compare(_of_the_paper("exact"))
    runs = _of_the_paper("grid")
    grid, distortion = grid_study.compare(runs), grid_study.compare_distortion(runs)
    contents = {
        "main comparison": main_comparison(exact),
        "distortion": distortion_table(distortion),
        "headline": headline(exact, grid, distortion),
        "agreement": agreement(exact, grid, distortion),
        "far": far(exact, grid, distortion),
        "analytic": analytic(),
        "speed": speed((ROOT / "benchmarks" / "replay.md").read_text()),
    }
    return contents | latent(ROOT / "results")


def latent(results: Path) -> dict[str, str]:
    """The blocks of MinAtar, as far as there are results."""
    contents = {}
    runs, encoders = results / "minatar.parquet", results / "vqvae.csv"
    if runs.is_file():
        frame = minatar_coverage.load(runs)
        contents["minatar"] = minatar(minatar_tables.compare_auc(frame))
        contents["tail"] = tail(minatar_tables.tail_effect(frame))
    if encoders.is_file():
        contents["vqvae"] = vqvae(read_support(encoders))
    return contents


def _of_the_paper(study: str) -> pl.DataFrame:
    """The shipped runs of a study, without any of other seeds than the paper's."""
    frame = store.load_runs(ROOT / "results" / f"{study}.parquet")
    return study_named(study).compared(frame)


def main_comparison(compared: pl.DataFrame) -> str:
    """AUC return and late or final success of every method, ours and the paper's."""
    head = ["environment", "method", "AUC return", "paper", "late or final success", "paper"]
    lines = [_row(head), _row(["---", "---", "---:", "---:", "---:", "---:"])]
    for (env, method), rows in compared.group_by("env", "method", maintain_order=True):
        success = "late_success" if env in LAKES else "final_success"
        cells = []
        for metric in ("auc_return", success):
            (row,) = rows.filter(metric=metric).iter_rows(named=True)
            cells += [_pm(row["mean"], row["se"]), _pm(row["paper_mean"], row["paper_se"])]
        lines.append(_row([str(env), str(method), *cells]))
    return "\n".join(lines)


def distortion_table(compared: pl.DataFrame) -> str:
    what = {
        "per_conditional_abs_before_is": "PER, absolute conditional shift before IS",
        "per_conditional_abs_after_is": "PER, the same after unnormalised IS",
        "sampled_signed_per": "PER, signed shift of the sampled targets",
        "sampled_signed_sample": "SAMPLE, signed shift of the sampled targets",
        "risky_outcome_tv": "PER, outcome TV of the risky arm",
        "risky_shift_before_is": "PER, target shift of the risky arm before IS",
        "risky_shift_after_is": "PER, the same after unnormalised IS",
    }
    lines = [_row(["environment", "what", "ours", "paper", "apart"])]
    lines.append(_row(["---", "---", "---:", "---:", "---:"]))
    for row in compared.iter_rows(named=True):
        digits = 4 if abs(row["paper_mean"]) < 0.1 else 2
        ours = _pm(row["mean"], row["se"], digits)
        paper = _pm(row["paper_mean"], row["paper_se"], digits)
        apart = f"{row['distance']:+.1f}"
        lines.append(_row([row["env"], what[row["metric"]], ours, paper, apart]))
    return "\n".join(lines)


def headline(exact: pl.DataFrame, grid: pl.DataFrame, distortion: pl.DataFrame) -> str:
    parts = (exact, grid, distortion)
    close, near = (sum(comparison.within(p, d)[0] for p in parts) for d in (AGREES, 3.0))
    total = sum(comparison.within(part, 3.0)[1] for part in parts)
    return (
        f"Of {total} numbers that the paper prints for its small environments, {close} lie within "
        f"{AGREES} combined standard errors of ours and {near} within 3."
    )


def agreement(exact: pl.DataFrame, grid: pl.DataFrame, distortion: pl.DataFrame) -> str:
    parts = {"tabular metrics (main comparison)": exact}
    for env in grid["env"].unique(maintain_order=True):
        cells = grid.filter(env=env)
        parts[f"sweep, {env}: means"] = cells.filter(pl.col("metric") != "diff")
        parts[f"sweep, {env}: paired differences"] = cells.filter(metric="diff")
    parts["target shifts and Bandit's risky arm"] = distortion
    lines = [_row(["published numbers", "compared", "within 1.96", "within 3", "mean signed"])]
    lines.append(_row(["---", "---:", "---:", "---:", "---:"]))
    totals = [0, 0, 0]
    for name, part in parts.items():
        close, count = comparison.within(part, AGREES)
        near, _ = comparison.within(part, 3.0)
        finite = part["distance"].drop_nulls()
        finite = finite.filter(finite.is_finite())
        lines.append(_row([name, str(count), str(close), str(near), f"{finite.mean():+.2f}"]))
        totals = [a + b for a, b in zip(totals, (count, close, near), strict=True)]
    lines.append(_row(["**all**", *(f"**{n}**" for n in totals), ""]))
    return "\n".join(lines)


def far(exact: pl.DataFrame, grid: pl.DataFrame, distortion: pl.DataFrame) -> str:
    """Every number more than 3 combined standard errors from the published one."""
    lines = [_row(["number", "ours", "paper", "apart"]), _row(["---", "---:", "---:", "---:"])]
    for part in (exact, grid, distortion):
        for row in part.filter(pl.col("distance").abs() > 3.0).iter_rows(named=True):
            keys = [row[k] for k in ("env", "method", "alpha", "beta", "metric") if k in row]
            name = ", ".join(f"{key:g}" if isinstance(key, float) else key for key in keys)
            ours, paper = _pm(row["mean"], row["se"], 3), _pm(row["paper_mean"], row["paper_se"], 3)
            lines.append(_row([name, ours, paper, f"{row['distance']:+.1f}"]))
    return "\n".join(lines)


def analytic() -> str:
    lines = [
        _row(["analytic shift", "every reachable state", "visited more than 1e-8 times", "paper"])
    ]
    lines.append(_row(["---", "---:", "---:", "---:"]))
    for env, paper in (("FrozenLake-H100/H300", "-50.4"), ("FrozenLake-H50", "-15.3")):
        model = tabular_model(env)
        reachable, visited = target_shifts(model, visited=1e-30)[0], target_shifts(model)[0]
        lines.append(_row([env, f"{reachable.shift:.3f}", f"{visited.shift:.3f}", paper]))
    return "\n".join(lines)


def speed(page: str) -> str:
    """Whole cycles as `make bench` wrote them, and the ratios in a sentence."""
    table = page.split("## Whole cycles")[1].split("##")[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]
    head = rows[0]
    sample = head.index("SAMPLE / PER")
    ratios = [i for i, name in enumerate(head) if name.endswith(" / PER") and i != sample]
    kept = [i for i in range(len(head)) if i not in (*ratios, sample)]
    shown = [[head[i] for i in kept] + ["fastest peer / PER", head[sample]]]
    shown.append([rows[1][i] for i in kept] + ["---:", "---:"])
    faster: dict[str, list[float]] = {"32": [], "256": []}
    dearer = []
    for row in rows[2:]:
        times = min(float(row[i]) for i in ratios)
        faster[row[0].rsplit(" ", 1)[1]].append(times)
        dearer.append(float(row[sample]))
        shown.append([row[i] for i in kept] + [f"{times:.2f}", row[sample]])
    lines = [_row(row) for row in shown]
    ranges = {batch: f"{min(r):.1f} to {max(r):.1f}" for batch, r in faster.items()}
    return "\n".join(lines) + (
        f"\n\nPER is {ranges['32']} times faster than the fastest peer at batch 32 and "
        f"{ranges['256']} times at batch 256; SAMPLE costs {min(dearer):.2f} to {max(dearer):.2f} "
        "times our PER."
    )


def minatar(compared: pl.DataFrame) -> str:
    """AUC return of every game that was run, the paper's below it; each says its length."""
    columns = minatar_tables.COLUMNS
    intro = (
        "AUC return, mean ± standard error over seeds; differences are paired by seed. AUC is the "
        "area from the first evaluation (step 10,000) on, over the length of training; but runs of "
        "different lengths are different experiments: beside shorter runs the paper's numbers are "
        "for orientation.\n"
    )
    heads = [name.replace("-", " − ") for name in columns]
    lines = [intro, _row(["game", "rewards", "whose, steps, seeds", *heads])]
    lines.append(_row(["---"] * 3 + ["---:"] * len(columns)))
    by_game = compared.sort("env", maintain_order=True)
    cells = by_game.group_by("env", "condition", "steps", "of", maintain_order=True)
    for (game, condition, steps, of), rows in cells:
        by_column = {row["metric"]: row for row in rows.iter_rows(named=True)}
        ours, paper = ([""] * len(columns) for _ in range(2))
        for place, column in enumerate(columns):
            if column in by_column:
                row = by_column[column]
                ours[place] = _pm(row["mean"], row["se"])
                paper[place] = _pm(row["paper_mean"], row["paper_se"])
        of_paper = f"paper, {minatar_coverage.PAPER_STEPS:,}, {len(SEEDS)}"
        lines.append(_row([str(game), str(condition), f"ours, {steps:,}, {of}", *ours]))
        lines.append(_row(["", "", of_paper, *paper]))
    return "\n".join(lines)


def tail(effect: pl.DataFrame) -> str:
    """What the tail does to each method, where both conditions were run."""
    methods = MINATAR_METHODS
    lines = [
        "AUC return under mp-tail minus clean, paired by seed; the paper's of its printed means.\n",
        _row(["game", "whose, steps, seeds", *methods]),
        _row(["---"] * 2 + ["---:"] * len(methods)),
    ]
    for (game, steps), rows in effect.group_by("env", "steps", maintain_order=True):
        by_method = {row["metric"]: row for row in rows.iter_rows(named=True)}
        found = [by_method.get(method) for method in methods]
        sizes = sorted({row["seeds"] for row in by_method.values()})
        of = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
        ours = ["" if row is None else _pm(row["mean"], row["se"]) for row in found]
        paper = ["" if row is None else _pm(row["paper_mean"], None) for row in found]
        lines.append(_row([str(game), f"ours, {steps:,}, {of}", *ours]))
        lines.append(_row(["", f"paper, {minatar_coverage.PAPER_STEPS:,}, {len(SEEDS)}", *paper]))
    return "\n".join(lines)


def vqvae(frame: pl.DataFrame) -> str:
    """Support of our encoders' groups, the paper's in brackets."""
    sizes = " or ".join(f"{size:,}" for size in frame["transitions"].unique(maintain_order=True))
    intro = (
        f"On {sizes} transitions of random play; the paper's, on about {SAMPLE:,}, in brackets.\n"
    )
    heads = [head for head, _ in MEASURES.values()]
    lines = [intro, _row(["game", "grid, K", "seed", "updates", *heads])]
    lines.append(_row(["---"] * 2 + ["---:"] * (2 + len(heads))))
    for row in frame.iter_rows(named=True):
        cells = [row["game"], f"{row['grid']}, {row['codebook']}", str(row["seed"])]
        cells.append(f"{row['updates']:,}")
        for name, (_, form) in MEASURES.items():
            paper = row[f"paper_{name}"]
            beside = "" if paper is None else f" ({paper:{form}})"
            cells.append(f"{row[name]:{form}}{beside}")
        lines.append(_row(cells))
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _pm(mean: float | None, se: float | None, digits: int = 2) -> str:
    if mean is None:
        return "not printed"
    return f"{mean:.{digits}f}" + ("" if se is None or isnan(se) else f" ± {se:.{digits}f}")


def fill(text: str, contents: dict[str, str]) -> str:
    """The text with the content of every block it has replaced."""
    for name, content in contents.items():
        pattern = re.compile(
            rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.S
        )
        text = pattern.sub(lambda found, c=content: f"{found[1]}{c}\n{found[2]}", text)
    return text


def draw_curves(runs: Path, picture: Path) -> None:
    """MinAtar's learning curves, as far as there are results."""
    figure = minatar_curves(minatar_coverage.load(runs)) if runs.is_file() else None
    if figure is not None:
        with rc_context(matplotlib_ink.LOOK):
            blank = matplotlib_ink.BLANK["png"]
            matplotlib_ink.drawing_of(figure).savefig(picture, dpi=140, metadata=blank)


def main() -> None:
    draw_curves(ROOT / "results" / "minatar.parquet", ROOT / "docs" / "minatar-curves.png")
    contents = blocks()
    for page in PAGES:
        path = ROOT / page
        path.write_text(fill(path.read_text(), contents))


if __name__ == "__main__":
    main()

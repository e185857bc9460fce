"""Which runs of the MinAtar study there are: by length, condition, game and method.

Runs of different lengths are different experiments. Nothing here or downstream averages over them:
`steps` is a key of every table and figure.
"""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.envs import GAMES
from sibling_replay.running import store
from sibling_replay.running.kept_states import STATES, size_of
from sibling_replay.running.progress_notes import last_note
from sibling_replay.studies.alike import check_alike
from sibling_replay.studies.minatar.job import checkpoint_name
from sibling_replay.studies.minatar.runs import RATE_STUDY, SEEDS, STUDY
from sibling_replay.training.minatar.config import CONDITIONS, MINATAR_METHODS, MinAtarConfig

PAPER_STEPS = MinAtarConfig.steps
CELL = ("condition", "env", "method", "steps")  # what runs that differ in seed alone share

Counts = dict[tuple[str, str, str], int]  # (condition, game, method) -> seeds


def load(root: Path) -> pl.DataFrame:
    """The runs of a directory or a collected file that are compared with the paper's."""
    return of_the_paper(store.load_runs(root, [STUDY]))


def of_the_paper(frame: pl.DataFrame) -> pl.DataFrame:
    """The runs with the paper's seeds and settings, checked to be alike. Lengths, learning rates
    and encoders may be others: tables tell the first two, and no machine trains the same third."""
    chosen = frame.filter(pl.col("seed").is_in(SEEDS) & ~has_own_settings(frame))
    check_alike(chosen, CELL)
    if chosen.is_empty():
        return chosen
    # one evaluation has no area; older versions stored 0
    alone = pl.col("eval_step").list.n_unique() == 1
    area = pl.when(alone).then(math.nan).otherwise(pl.col("auc_return"))
    return chosen.with_columns(area.alias("auc_return"))


def has_own_settings(frame: pl.DataFrame, *allowed: str) -> pl.Series:
    """Which runs have a method or a setting, by their id, that no table of the paper's has, but for
    those allowed."""
    usual = ("encoder", "steps", "learning_rate", *allowed)
    own = []
    for run in frame["run"]:
        _, _, method, _, *settings, _ = run.split("/")  # study, game, method, condition, ..., seed
        others = any(one.partition("=")[0] not in usual for one in settings)
        own.append(others or method not in MINATAR_METHODS)
    return pl.Series(own, dtype=pl.Boolean)


def horizons(frame: pl.DataFrame) -> tuple[int, ...]:
    """Lengths of the runs at hand in environment steps, the longest first."""
    return tuple(sorted(set(frame["steps"]), reverse=True))


def described(steps: int) -> str:
    """How long our runs are, beside the paper's."""
    if steps == PAPER_STEPS:
        return f"{steps:,} steps, as the paper"
    return f"ours: {steps:,} steps, paper: {PAPER_STEPS:,}"


def counts(frame: pl.DataFrame, steps: int) -> Counts:
    """How many of the paper's seeds of each cell there are at this length; cells without any are
    there with 0."""
    found = dict.fromkeys(
        ((c, game, m) for c in CONDITIONS for game in GAMES for m in MINATAR_METHODS), 0
    )
    some = frame.filter(pl.col("steps") == steps)
    seeds = some.select("condition", "env", "method", "seed").unique()
    seeds = seeds.filter(pl.col("seed").is_in(SEEDS))
    for condition, game, method, _ in seeds.iter_rows():
        found[condition, game, method] += 1
    return found


def status_lines(root: Path) -> list[str]:
    """What `sibling-replay status` says of the study."""
    place = root / STUDY
    some = any(place.rglob(f"*{store.SUFFIX}"))
    stored = store.load_runs(root, [STUDY]) if some else store.no_runs()
    frame = stored.filter(~has_own_settings(stored))
    lines = []
    for steps in dict.fromkeys((*horizons(frame), PAPER_STEPS)):
        found = counts(frame, steps)
        total = len(found) * len(SEEDS)
        lines.append(f"{STUDY}, {steps:,} steps: {sum(found.values())} of {total} runs done")
        for game in GAMES if any(found.values()) else ():
            for method in MINATAR_METHODS:
                done = (f"{c} {found[c, game, method]} / {len(SEEDS)}" for c in CONDITIONS)
                lines.append(f"  {game:<22}{method:<8}{'   '.join(done)}")
        others = frame.filter(pl.col("steps") == steps, ~pl.col("seed").is_in(SEEDS))
        if others.height:
            lines.append(f"  and {others.height} runs with seeds that are not the paper's")
    if frame.height < stored.height:
        lines.append(f"  and {stored.height - frame.height} runs with settings of your own")
    return lines + _unfinished(root) + _kept(root)


def _kept(root: Path) -> list[str]:
    count, size = size_of(root)
    if not count:
        return []
    return [
        f"  last states of {count} finished runs, {size / 1e6:,.0f} MB in {root / STATES}: a "
        "longer --steps goes on from them; delete what you do not want to prolong"
    ]


def _unfinished(root: Path) -> list[str]:
    """What runs say that have begun and are not stored, of the study or to select its rates."""
    rows = store.each_run(root, (STUDY, RATE_STUDY))
    configs = (store.config_of(row.row(0, named=True)) for row in rows)
    stored = {checkpoint_name(config) for config in configs if isinstance(config, MinAtarConfig)}
    lines = []
    for directory in sorted(root.glob("checkpoints/*")):
        noted = last_note(directory)
        saved = RollingCheckpoint(directory).newest.exists()
        if directory.name in stored or not (saved or noted):
            continue
        state = "has a checkpoint" if saved else "has no checkpoint yet"
        lines.append(f"  unfinished, {state}: {directory.name}")
        if noted is not None:
            score = "" if noted.score is None else f", last return {noted.score:.4g}"
            ago = f"{noted.seconds_ago:,.0f} s ago"
            lines.append(f"    step {noted.step:,} of {noted.steps:,}{score}, {ago}")
    return lines

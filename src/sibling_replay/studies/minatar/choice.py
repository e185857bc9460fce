"""What `reproduce minatar` says before it trains: learning rates by AUC, and where runs begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from sibling_replay.running import store
from sibling_replay.running.kept_states import name_without_length
from sibling_replay.running.progress_notes import last_note
from sibling_replay.studies.minatar.job import MinAtarJob
from sibling_replay.studies.minatar.runs import RATE_STUDY, STUDY, Rates
from sibling_replay.studies.paper.numbers import learning_rates
from sibling_replay.training.minatar.config import MinAtarConfig


def rate_lines(trials: pl.DataFrame, rates: Rates) -> list[str]:
    """Mean AUC of every rate that was tried, by game and method, and the rate that is taken."""
    lines = []
    columns = ("env", "method")
    for (game, method), runs in trials.sort(*columns).group_by(*columns, maintain_order=True):
        chosen, paper = rates[game, method], learning_rates().get((game, method))
        seeds = runs["seed"].n_unique()
        lines.append(f"{game}, {method}: mean AUC return by learning rate, {seeds} seed(s)")
        means = runs.group_by("learning_rate").agg(pl.col("auc_return").mean())
        for rate, mean in means.sort("learning_rate", descending=True).iter_rows():
            marks = [name for name, one in (("chosen", chosen), ("paper", paper)) if rate == one]
            lines.append(f"  {rate:<10g}{mean:>9.3f}  {', '.join(marks)}".rstrip())
    return lines


def beginning_lines(out: Path, todo: Sequence[MinAtarConfig], job: MinAtarJob) -> list[str]:
    """Which runs go on from shorter ones, and which do not though there are some."""
    fresh = [c for c in todo if last_note(job.checkpoint(c).directory) is None]
    steps = Counter(job.begins_at(config) for config in fresh)
    lines = [
        f"{count} run(s) go on from the ends of shorter runs, at step {step:,}, in {job.states}"
        for step, count in sorted(steps.items())
        if step
    ]
    without = [config for config in fresh if not job.begins_at(config)]
    shorter = _stored(out) if without else {}
    lost = sum(
        any(steps < config.steps for steps in shorter.get(name_without_length(config), ()))
        for config in without
    )
    if lost:
        kept = "not kept" if job.states is None else f"not in {job.states}"
        lines.append(
            f"{lost} run(s) start from zero though shorter ones are finished: their last states "
            f"are {kept}"
        )
    return lines


def _stored(out: Path) -> dict[str, list[int]]:
    """Name without length -> lengths of finished runs."""
    found: dict[str, list[int]] = {}
    for config in _configs(out):
        found.setdefault(name_without_length(config), []).append(config.steps)
    return found


def _configs(out: Path) -> Iterable[MinAtarConfig]:
    for study in (STUDY, RATE_STUDY):
        if any((out / study).rglob(f"*{store.SUFFIX}")):
            for row in store.load_runs(out, [study]).iter_rows(named=True):
                config = store.config_of(row)
                if isinstance(config, MinAtarConfig):
                    yield config

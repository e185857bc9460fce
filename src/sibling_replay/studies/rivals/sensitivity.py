"""How much the best of the bench hang on their settings. Declared before the first run.

The five contenders of best mean rank over the environments in which `rivals` compares returns
(controls aside), each with other exponents alpha (where its rule has one in tables) and with two
and four updates a step, one change at a time (beta rises over as many steps as before); and DDQN
with two and four updates. Six environments, one or two of every situation, seeds 1020-1024, used
nowhere before; learning rates as `rivals` chose them.

Descriptive: the mean over environments of AUC minus that of plain DDQN on the same seeds, in units
of `rivals` (by DDQN's twenty seeds there), with its standard error
over seeds. No test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import Frames, Gap, Section, TableEntry
from sibling_replay.artefacts.gains import mean_ranks, units
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.artefacts.statistics import mean_se
from sibling_replay.running import store
from sibling_replay.running.runs import Run, spelt
from sibling_replay.studies import study_named
from sibling_replay.studies.rivals.declared import (
    BY_NAME,
    COMPARED,
    ENVS,
    NO_RATES,
    Contender,
    Rates,
    contender_run,
)
from sibling_replay.studies.rivals.declared import NAME as MAIN
from sibling_replay.studies.rivals.rates import rates_in
from sibling_replay.studies.rivals.scores import Scores, with_contender
from sibling_replay.studies.rivals.study import WAY_OUT, BenchStudy, stored_bench
from sibling_replay.studies.rivals.verdicts import BASE, CONTROLS
from sibling_replay.studies.study import Choice, Source, Stage

NAME = "rivals-sensitivity"
SEEDS = range(1020, 1025)
BEST = 5
ALPHAS = (0.0, 0.3, 0.6, 1.0)
UPDATES = (2, 4)
SIX = (
    "OutlierBandit",
    "FrozenLake-v1,map_name=4x4,reward_noise=tail-5",
    "NoisyGridworld",
    "FrozenLake-v1,map_name=4x4",
    "Chain",
    "FickleTaxi",
)
# Uniform by rule, or with alpha 0 alone in tables.
NO_ALPHA = ("PAL", "LABER", "SER", "CV", "CER", "AGE", "DDQN-3step")


def variants(contender: Contender) -> tuple[Contender, ...]:
    """As it is, and with each change by itself; names of runs say which."""
    own: dict[str, Any] = dict(contender.settings)
    found = [contender]
    if contender.name not in (*NO_ALPHA, *CONTROLS):
        others = [alpha for alpha in ALPHAS if alpha != own["alpha"]]
        found += [
            replace(contender, name=f"{contender.name},alpha={a}", settings={**own, "alpha": a})
            for a in others
        ]
    return (
        *found,
        *(
            replace(contender, name=f"{contender.name},updates={n}",
                    settings={**own, "updates_a_step": n})
            for n in UPDATES
        ),
    )  # fmt: skip


def sensitivity_runs(
    choice: Choice, names: Sequence[str] = tuple(BY_NAME), rates: Rates = NO_RATES
) -> tuple[Run, ...]:
    """Of DDQN and these contenders, or of those of them that are chosen."""
    envs = [spelt("environment", env, SIX, " in this study") for env in choice.envs]
    there = [name for name in BY_NAME if name == BASE or (name in names and name not in CONTROLS)]
    wanted = [spelt("method", name, there, " in this study") for name in choice.methods]
    found = []
    for seed in choice.seeds or SEEDS:
        for env in envs or SIX:
            for name in wanted or there:
                rate = rates.get((env, name))
                for each in variants(BY_NAME[name]):
                    found.append(contender_run(NAME, env, each, seed, rate, choice))
    return tuple(found)


def best(frame: pl.DataFrame) -> tuple[str, ...]:
    """The five of best mean rank; none before all runs are there. A rank hangs on no unit."""
    scores = Scores(frame)
    if len(scores.envs(*BY_NAME)) < len(ENVS):
        return ()
    means = [scores.of(name, COMPARED).mean(axis=0) for name in BY_NAME]  # type: ignore[union-attr]
    ranks = dict(zip(BY_NAME, mean_ranks(np.stack(means)).mean(axis=1), strict=True))
    rivals = [name for name in BY_NAME if name not in CONTROLS]
    return tuple(sorted(rivals, key=lambda name: float(ranks[name]))[:BEST])


class SensitivityStudy(BenchStudy):
    """What can be run is of every contender; what is run, of the five best."""

    name = NAME
    about = "alpha and updates a step of the five best of `rivals`, once that is whole"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return sensitivity_runs(choice)

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        main = stored_bench(choice.out)
        names = best(main)
        if not names:
            yield _not_known(choice.out)
            return
        yield f"the five best of `{MAIN}`: {', '.join(names)}"
        runs = sensitivity_runs(choice, names, rates_in(main))
        yield from self._others_mentioned(runs)
        yield Stage(NAME, runs, self.job(choice))

    def status_lines(self, out: Path) -> list[str]:
        """Of the five best, once they are known."""
        names = best(stored_bench(out))
        if not names:
            return [f"{NAME}: {_not_known(out)}"]
        runs = sensitivity_runs(Choice(), names)
        done = len(store.finished(out, runs))
        return [f"{NAME}: {done} of {len(runs)} runs of {', '.join(names)} done"]

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        return super().frames(source) | study_named(MAIN).frames(source)


def _not_known(out: Path) -> str:
    return f"`{MAIN}` is not whole in {out}: which are the five best is not known yet {WAY_OUT}"


class BestNeeds:
    """The runs of the five best, whichever they are."""

    study = NAME

    def gap(self, frames: Frames) -> Gap | None:
        names = best(frames[MAIN])
        if not names:
            said = "the bench is not whole: which are the five best is not known yet"
            return Gap((said,), f"sibling-replay reproduce {MAIN}", everything=True)
        wanted = {run.id for run in sensitivity_runs(Choice(), names)}
        done = len(wanted & set(frames[NAME]["run"]))
        if done == len(wanted):
            return None
        said = f"{done} of {len(wanted)} runs of {', '.join(names)}"
        return Gap((said,), f"sibling-replay reproduce {NAME}", everything=done == 0)


def rows(frame: pl.DataFrame, main: pl.DataFrame) -> list[dict[str, str]]:
    """A contender a row, a change a column; only cells whose seeds and environments are whole."""
    yardstick = Scores(main).of(BASE, SIX)
    if yardstick is None or frame.is_empty():
        return []
    unit = units(yardstick)
    named = with_contender(frame)
    base = _matrix(named, BASE)
    if base is None:
        return []
    found = []
    for name in BY_NAME:
        for each in variants(BY_NAME[name]):
            ours = _matrix(named, each.name)
            if ours is None:
                continue
            mean, error = mean_se(((ours - base) / unit).mean(axis=1))
            text = f"{number(mean, 2, sign=True)} ± {number(error, 2)}"
            change = each.name.partition(",")[2] or "as it is"
            keys = {"contender": name, "metric": change, "paper": ""}
            found.append(keys | {"ours": "0" if each.name == BASE else text})
    # columns come in the order of the first rows that have them
    return sorted(found, key=lambda row: (row["metric"] != "as it is", row["metric"]))


def _matrix(named: pl.DataFrame, contender: str) -> Any:
    """AUC [seeds, environments]; None unless all are there."""
    columns = []
    for env in SIX:
        runs = named.filter(contender=contender, env=env).sort("seed")
        if runs["seed"].to_list() != list(SEEDS):
            return None
        columns.append(runs["auc_return"].to_numpy())
    return np.stack(columns, axis=1)


def _table(frames: Frames) -> tuple[Table, Count]:
    return texts(rows(frames[NAME], frames[MAIN]), Shape(rows=("contender",))), Count()


SensitivityStudy.sections = (
    Section(
        NAME,
        "How much the best hang on their settings",
        "The five contenders of best mean rank on the bench, with other exponents and with more "
        "updates a step, one change at a time.",
        (
            TableEntry(
                "rivals-sensitivity-results", "Not in the paper", "Alpha and updates a step",
                "Mean over six environments of AUC minus plain DDQN's on the same seeds "
                "(1020-1024), in DDQN's standard deviations over seeds, ± standard error over "
                "seeds.",
                BestNeeds(), _table,
            ),
        ),
    ),
)  # fmt: skip

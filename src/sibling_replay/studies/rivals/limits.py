"""Does the bench's answer hang on what a time limit means? Declared before the first run.

In `rivals`, as in the paper, an episode that a limit cuts off counts as ended: targets stop there.
Where limits are short, being cut off is then itself a random outcome of a state, one that averages
smooth away. Here targets bootstrap through the limits; all else is as in `rivals`.

Environments (`ENVS`): those of `rivals` in which returns are compared and more than one in a
hundred of DDQN's episodes is cut off (counted with seed 50, no score was looked at). Contenders:
those that the advice of `rivals` names, PER and SAMPLE, and the control of two updates a step; not
AVG, whose step costs six of the others'. Seeds 1030-1049, used nowhere before. Learning rates as
`rivals` chose them, with limits as ends: a known limit of this study.

The estimand and its bootstrap are those of `rivals`, in units of DDQN's standard deviation over
seeds here. A hypothesis holds if its p is below 0.05 after Holm's correction over the three, and
its mean is above zero without any one environment.

    L1  Averages with uniform anchors are above DDQN where no outcome is rare and large (`SMOOTH`).
    L2  Rescored group priorities are above averages with uniform anchors in the two Taxis.
    L3  Outcomes of three steps are above DDQN where outcomes are rare and large (`RARE_HERE`).

What had been seen: the results of `rivals` itself, which gave these questions; and an independent
reader's short runs of five to ten seeds, kept by nobody: what averages gain in Chain was gone, that
of rescored groups in the Taxis was less than half as large, that of averages in CliffWalking and
FrozenLake stayed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import Frames, Section, TableEntry
from sibling_replay.artefacts.gains import Gain, gain, holm
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.running.runs import Run, select, spelt
from sibling_replay.studies import study_named
from sibling_replay.studies.rivals.declared import (
    BY_NAME,
    MANY_GROUPS,
    NO_RATES,
    RARE,
    STOCHASTIC,
    Rates,
    contender_run,
)
from sibling_replay.studies.rivals.declared import NAME as MAIN
from sibling_replay.studies.rivals.rates import rates_in
from sibling_replay.studies.rivals.scores import Scores
from sibling_replay.studies.rivals.study import WAY_OUT, BenchStudy, stored_bench
from sibling_replay.studies.rivals.tables import interval_text, over_environments, short_name
from sibling_replay.studies.rivals.verdicts import BASE, LEVEL
from sibling_replay.studies.study import Choice, Source, Stage
from sibling_replay.studies.tabular import RunNeeds

NAME = "rivals-limits"
SEEDS = range(1030, 1050)
ENVS = (
    "ShortcutMaze",
    "Chain",
    "FrozenLake-v1,map_name=4x4",
    "FrozenLake-v1,map_name=8x8,max_episode_steps=200",
    "CliffWalking-v1,is_slippery=true,max_episode_steps=200",
    "Taxi-v4,is_rainy=true",
    "FickleTaxi",
    "Chain,reward_noise=tail-5",
    "FrozenLake-v1,map_name=4x4,reward_noise=tail-5",
)
CONTENDERS = (
    "DDQN", "DDQN-2updates", "DDQN-3step", "PER", "LAP", "SAMPLE", "AVG-uniform", "GROUP-mean",
    "CV",
)  # fmt: skip
RARE_HERE = tuple(env for env in ENVS if env in RARE)
SMOOTH = tuple(env for env in ENVS if env in STOCHASTIC and env not in RARE)
HYPOTHESES = (  # name, words, ours, theirs, environments
    ("L1", "averages with uniform anchors above DDQN, none rare and large", "AVG-uniform", BASE,
     SMOOTH),
    ("L2", "rescored groups above averages with uniform anchors, many groups", "GROUP-mean",
     "AVG-uniform", MANY_GROUPS),
    ("L3", "outcomes of three steps above DDQN, rare and large", "DDQN-3step", BASE, RARE_HERE),
)  # fmt: skip


def limit_runs(choice: Choice, rates: Rates = NO_RATES) -> tuple[Run, ...]:
    """A seed of all before the next."""
    envs = [spelt("environment", env, ENVS, " in this study") for env in choice.envs] or ENVS
    wanted = [spelt("method", name, CONTENDERS, " in this study") for name in choice.methods]
    through = Choice(settings={"through_time_limits": True, **choice.settings})
    return select(
        contender_run(NAME, env, BY_NAME[name], seed, rates.get((env, name)), through)
        for seed in choice.seeds or SEEDS
        for env in envs
        for name in wanted or CONTENDERS
    )


class LimitStudy(BenchStudy):
    """1,620 runs."""

    name = NAME
    about = (
        "the bench with targets that go through time limits: 1,620 runs, once `rivals` is whole, "
        "some 40 core-minutes"
    )

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return limit_runs(choice)

    def stages(self, choice: Choice) -> Iterator[str | Stage]:
        rates = rates_in(stored_bench(choice.out))
        unknown = {(run.config.env, self.contender(run)) for run in limit_runs(choice)} - set(rates)
        if unknown and "learning_rate" not in choice.settings:
            yield (
                f"`{MAIN}` is not whole in {choice.out}: the learning rates of {len(unknown)} of "
                f"its cells are not known yet {WAY_OUT}"
            )
            return
        runs = limit_runs(choice, rates)
        yield from self._others_mentioned(runs)
        yield Stage(NAME, runs, self.job(choice))

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        return super().frames(source) | study_named(MAIN).frames(source)


def judged(scores: Scores, seed: int = 0) -> dict[str, tuple[Gain, float]]:
    """By hypothesis: its gain, and p after Holm's correction; none before all runs are there."""
    rng = np.random.default_rng(seed)
    found: dict[str, Gain] = {}
    for name, _, ours, theirs, envs in HYPOTHESES:
        first, second, base = (scores.of(each, envs) for each in (ours, theirs, BASE))
        if first is None or second is None or base is None:
            return {}
        found[name] = gain(first, second, base, rng)
    adjusted = holm({name: each.p for name, each in found.items()})
    return {name: (each, adjusted[name]) for name, each in found.items()}


def verdict_rows(frame: pl.DataFrame, main: pl.DataFrame) -> list[dict[str, str]]:
    here, there = judged(Scores(frame, seeds=SEEDS)), judged(Scores(main))
    rows = []
    for name, words, *_ in HYPOTHESES if here else ():
        found, p = here[name]
        cells = {
            "holds": "yes" if p < LEVEL and found.least > 0.0 else "not shown",
            "gain": interval_text(found.interval, 2, sign=True),
            "p (Holm)": f"{p:.4f}",
            **over_environments(found),
            "in the bench": interval_text(there[name][0].interval, 2, sign=True) if there else "",
        }
        keys = {"hypothesis": f"{name}: {words}", "paper": ""}
        rows += [keys | {"metric": head, "ours": text} for head, text in cells.items()]
    return rows


def environment_rows(frame: pl.DataFrame, main: pl.DataFrame) -> list[dict[str, str]]:
    """An environment a row, a contender a column: its gain here, and in the bench."""
    rng = np.random.default_rng(0)
    ways = Scores(frame, seeds=SEEDS), Scores(main)
    rows = []
    for env in ENVS:
        for name in CONTENDERS[1:]:
            gains = []
            for scores in ways:
                ours, base = scores.of(name, (env,)), scores.of(BASE, (env,))
                if ours is not None and base is not None:
                    gains.append(number(gain(ours, base, base, rng).value, 1, sign=True))
            if len(gains) == len(ways):
                keys = {"env": short_name(env), "metric": name, "paper": ""}
                rows.append(keys | {"ours": f"{gains[0]} ({gains[1]})"})
    return rows


def _verdicts(frames: Frames) -> tuple[Table, Count]:
    return texts(verdict_rows(frames[NAME], frames[MAIN]), Shape(rows=("hypothesis",))), Count()


def _environments(frames: Frames) -> tuple[Table, Count]:
    return texts(environment_rows(frames[NAME], frames[MAIN]), Shape(rows=("env",))), Count()


LimitStudy.sections = (
    Section(
        NAME,
        "The bench with targets that go through time limits",
        "In the bench an episode that a time limit cuts off counts as ended. Here targets "
        "bootstrap through the limit, in the environments in which more than one episode in a "
        "hundred is cut off.",
        (
            TableEntry("rivals-limits-verdicts", "Not in the paper", "The hypotheses, as declared",
                       "Mean over environments of the paired difference in AUC, in DDQN's standard "
                       "deviations over seeds 1030-1049; p after Holm's correction over the three; "
                       "the same gain in the bench (seeds 1000-1019, limits as ends) beside it.",
                       RunNeeds(NAME), _verdicts),
            TableEntry("rivals-limits-environments", "Not in the paper", "Each environment",
                       "Gain over DDQN with targets through limits, and in brackets that of the "
                       "bench.", RunNeeds(NAME), _environments),
        ),
    ),
)  # fmt: skip

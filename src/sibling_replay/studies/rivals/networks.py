"""The bench with networks, where siblings are made by a map. Declared before the first run.

CartPole-v1 and Acrobot-v1, clean and with a mean-preserving tail (p = 0.02, M = 30) on every
reward, the compiled learner with the settings of the study `keys`, ten seeds, 2000-2009, used
nowhere before. Contenders as in `rivals`, with `key="auto"` where they use groups; averages over
eight siblings, of targets and of residuals. Learning rates are the environment's own for all.

Descriptive: AUC and its paired difference to DDQN with intervals that are simultaneous over the
contenders of a cell. The question is whether averages, which mix targets of unlike states here,
still help; they are also run with finer and coarser groups (`GRAINS`), so that it can be seen how
that depends on granularity and on purity, the share of the variance of the learner's values that
lies between groups.

The table of advice of `rivals` has a row for each condition, by the same rule over the two
environments: Holm's correction over all contenders, and a gain in either environment. Two
environments and ten seeds are little to go by. (This paragraph came while the study ran, and in
one commit with the runs on CartPole: nothing shows that it was written before they were seen.)
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.artefacts.statistics import mean_se, paired_interval
from sibling_replay.artefacts.summaries import series
from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run, run_id, select, spelt
from sibling_replay.studies.gym_job import GymJob
from sibling_replay.studies.keys.declared import SETTINGS
from sibling_replay.studies.rivals.declared import BY_NAME, Contender
from sibling_replay.studies.rivals.scores import contender_of, with_contender
from sibling_replay.studies.rivals.shortlist import network_config
from sibling_replay.studies.rivals.verdicts import Advice, advised
from sibling_replay.studies.study import Choice, Study
from sibling_replay.studies.tabular import RunNeeds
from sibling_replay.training.methods import check_options
from sibling_replay.training.replay_measures import PURITY

NAME = "rivals-networks"
SEEDS = range(2000, 2010)
CONDITIONS = {"mp-tail": "rare, large rewards", "clean": "none rare and large"}
FEWEST = 5  # seeds that tell something
GRAINS = ("grid:2", "grid:8", "grid:16")
_AVERAGE = {"alpha": 0.0}
CONTENDERS = (
    *(BY_NAME[name] for name in ("DDQN", "PER", "RANK", "LAP", "PAL", "RELO", "LABER", "SAMPLE")),
    Contender("AVG-uniform", "AVG", "uniform, mean target of eight", _AVERAGE),
    Contender("AVG-residuals", "AVG", "uniform, mean residual of eight",
              {**_AVERAGE, "options": "of=residuals"}),
    BY_NAME["CV"],
    *(Contender(f"AVG-{grain.replace(':', '')}", "AVG", f"uniform, mean target, {grain}",
                {**_AVERAGE, "key": grain}) for grain in GRAINS),
)  # fmt: skip


def declared_runs(choice: Choice) -> tuple[Run, ...]:
    """A seed of all before the next."""
    envs = [spelt("environment", env, SETTINGS, " in this study") for env in choice.envs]
    known = {each.name: each for each in CONTENDERS}
    wanted = [spelt("method", name, known, " in this study") for name in choice.methods]
    found = []
    for seed in choice.seeds or SEEDS:
        for env in envs or SETTINGS:
            for condition in choice.options.get("condition") or CONDITIONS:
                for name in wanted or known:
                    found.append(_run(env, known[name], condition, seed, choice))
    return select(found)


def _run(env: str, contender: Contender, condition: str, seed: int, choice: Choice) -> Run:
    shared = {**SETTINGS[env], "learner": "compiled", "condition": condition}
    config = network_config(env, contender, seed, **{**shared, **choice.settings})
    check_options(config)
    own = [f"{name}={value}" for name, value in choice.settings.items()]
    return Run(NAME, run_id(NAME, config, contender.name, condition, *own), config)


class NetworkStudy(Study):
    """560 runs of `DQN`."""

    name = NAME
    about = "the bench with networks: CartPole and Acrobot, 560 runs of DQN, some 4 core-hours"
    options = frozenset({"condition"})

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return declared_runs(choice)

    def job(self, choice: Choice) -> JobFunction:
        return GymJob()

    def contender(self, run: Run) -> str:
        return contender_of(run.id)


def rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """A contender of a cell each."""
    found = []
    for env in SETTINGS:
        for condition in CONDITIONS:
            cell = with_contender(frame).filter(env=env, condition=condition)
            base = cell.filter(contender="DDQN").sort("seed")
            for each in CONTENDERS:
                runs = cell.filter(contender=each.name).sort("seed")
                if runs.height >= FEWEST:
                    keys = {"env": f"{env}, {condition}", "contender": each.name, "paper": ""}
                    cells = _cells(runs, base, each.name)
                    found += [keys | {"metric": name, "ours": text} for name, text in cells.items()]
    return found


def network_advice(frame: pl.DataFrame, seed: int = 0) -> list[Advice]:
    """Of each condition whose runs are all there, as `verdicts.advice` gives it for tables."""
    rng = np.random.default_rng(seed)
    named = with_contender(frame).filter(pl.col("seed").is_in(list(SEEDS)))
    found = []
    for condition, words in CONDITIONS.items():
        scores = {}
        for each in CONTENDERS:
            runs = [named.filter(env=env, condition=condition, contender=each.name).sort("seed")
                    for env in SETTINGS]  # fmt: skip
            if all(cell["seed"].to_list() == list(SEEDS) for cell in runs):
                columns = [cell["auc_return"].to_numpy() for cell in runs]
                scores[each.name] = np.stack(columns, axis=1)
        if len(scores) == len(CONTENDERS):
            situation = f"approximate groups (networks, `Auto`), {words}"
            found.append(advised(situation, tuple(SETTINGS), scores, rng))
    return found


def _cells(runs: pl.DataFrame, base: pl.DataFrame, name: str) -> dict[str, str]:
    mean, error = mean_se(runs["auc_return"].to_numpy())
    cells = {"seeds": str(runs.height), "AUC": f"{number(mean, 1)} ± {number(error, 1)}"}
    both = runs.join(base, on="seed", suffix="_base").sort("seed")
    if name != "DDQN" and both.height > 1:  # of seeds that both have
        apart = (both["auc_return"] - both["auc_return_base"]).to_numpy()
        gap = paired_interval(apart, len(CONTENDERS) - 1)
        low, high = (number(end, 1, sign=True) for end in (gap.low, gap.high))
        mark = " *" if gap.low > 0 or gap.high < 0 else ""
        cells["minus DDQN [simultaneous]"] = (
            f"{number(gap.value, 1, sign=True)} [{low}, {high}]{mark}"
        )
    last = [float(series(row, "groups_per_entry")[-1]) for row in runs.iter_rows(named=True)]
    if not any(value != value for value in last):
        cells["G/N"] = number(sum(last) / len(last), 4)
        pure = [float(series(row, PURITY)[-1]) for row in runs.iter_rows(named=True)]
        cells["purity"] = number(sum(pure) / len(pure), 3)
    return cells


def _table(frames: Frames) -> tuple[Table, Count]:
    return texts(rows(frames[NAME]), Shape(rows=("contender",), block="env")), Count()


NetworkStudy.sections = (
    Section(
        NAME,
        "The bench with networks",
        "Siblings by key maps: do averages still help where they mix targets of unlike states?",
        (
            TableEntry(
                "rivals-networks-results", "Not in the paper", "CartPole and Acrobot",
                "Mean ± standard error over seeds 2000-2009; * marks intervals, simultaneous over "
                "the contenders of a cell, without zero. At the end of a run, G/N: groups per "
                "entry, and purity: the share of the variance of values that lies between "
                "groups.",
                RunNeeds(NAME), _table,
            ),
        ),
    ),
)  # fmt: skip

"""The bench in the report: who is where, what the hypotheses became, what to use when."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import FigureEntry, Frames, Section, TableEntry
from sibling_replay.artefacts.gains import Gain, gain, mean_ranks, performance_profile, units
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.artefacts.panels import Curve, Estimate, Figure, HeatPanel, LinePanel
from sibling_replay.artefacts.statistics import (
    Interval,
    iqm,
    mean_se,
    paired_interval,
    probability_of_improvement,
)
from sibling_replay.studies.rivals.declared import (
    BY_NAME,
    COMPARED,
    ENVS,
    FACTORS,
    NAME,
    RATE_NAME,
    contender_config,
)
from sibling_replay.studies.rivals.networks import NAME as NETWORKS
from sibling_replay.studies.rivals.networks import network_advice
from sibling_replay.studies.rivals.rates import chosen_rates, whole_trials
from sibling_replay.studies.rivals.scores import F64, Scores, last_measure, late_returns
from sibling_replay.studies.rivals.verdicts import (
    BASE,
    CONTROLS,
    SITUATIONS,
    above_everywhere,
    advice,
    judged,
    unseen_tails,
)
from sibling_replay.studies.tabular import RunNeeds

NEEDS = RunNeeds(NAME)
LEVELS = np.linspace(-4.0, 4.0, 33)
KINDS = ("rare, large outcomes", "stochastic, none rare and large", "deterministic")
PAIRS = (  # what readers of the bench ask beside its hypotheses
    ("PER", "DDQN"),
    ("SAMPLE", "DDQN"),
    ("SAMPLE", "PER"),
    ("LAP", "PER"),
    ("RANK", "PER"),
    ("AVG", "SAMPLE"),
    ("AVG-uniform", "AVG"),
    ("AVG-uniform", "DDQN-batch64"),
    ("AVG-uniform", "DDQN-2updates"),
    ("AVG-uniform", "DDQN-3step"),
    ("AVG-uniform", "DDQN"),
    ("DDQN-2updates", "DDQN"),
    ("LAP", "DDQN"),
    ("SER", "DDQN"),
    ("GROUP-mean", "DDQN-2updates"),
)
PROFILED = ("DDQN", "PER", "SAMPLE", "AVG-uniform", "GROUP-mean", "CV", "LAP", "LABER")


def normalised(scores: Scores, name: str, envs: tuple[str, ...]) -> F64 | None:
    """AUC minus DDQN's mean, in DDQN's standard deviations over seeds."""
    ours, base = scores.of(name, envs), scores.of(BASE, envs)
    if ours is None or base is None:
        return None
    return np.asarray((ours - base.mean(axis=0)) / units(base))


def summary_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """A contender a row, once all have been run in all environments in which returns are
    compared."""
    scores, envs = Scores(frame), COMPARED
    if not scores.whole(envs):
        return []
    rng = np.random.default_rng(0)
    means = np.stack([scores.of(name, envs).mean(axis=0) for name in scores.contenders])  # type: ignore[union-attr]
    ranks = mean_ranks(means).mean(axis=1)
    measured = {name: last_measure(frame, name) for name in ("tilt", "entropy", "value_error")}
    found = []
    for place, name in enumerate(scores.contenders):
        above = normalised(scores, name, envs)
        ours = scores.of(name, envs)
        assert above is not None and ours is not None
        cells = {"IQM": interval_text(iqm(above, rng))}
        for other in (BASE, "PER"):
            theirs = scores.of(other, envs)
            if theirs is not None and other != name:
                cells[f"beats {other}"] = interval_text(
                    probability_of_improvement(ours, theirs, rng)
                )
        cells["mean rank"] = number(float(ranks[place]), 1)
        for what, values in measured.items():
            there = [values[env, name] for env in envs if (env, name) in values]
            of_base = [values[env, BASE] for env in envs if (env, BASE) in values]
            if what == "value_error":
                ratio = np.exp(np.mean(np.log(there)) - np.mean(np.log(of_base)))
                cells["value error / DDQN's"] = number(float(ratio), 2)
            else:
                cells[what] = number(float(np.mean(there)), 3)
        keys = {"contender": name, "paper": ""}
        found += [keys | {"metric": head, "ours": text} for head, text in cells.items()]
    return found


def environment_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """AUC of every contender in every environment, its paired difference to DDQN with an interval
    that is simultaneous over all comparisons of the bench, and the error of its values. Where all
    arms are worth the same, that error alone."""
    scores = Scores(frame)
    cells = [(env, name) for env in ENVS for name in BY_NAME if scores.of(name, (env,)) is not None]
    compared = len(COMPARED) * (len(BY_NAME) - 1)
    late, wrong = late_returns(frame), last_measure(frame, "value_error")
    found = []
    for env, name in cells:
        ours, base = scores.of(name, (env,)), scores.of(BASE, (env,))
        assert ours is not None
        row = {}
        if env in COMPARED:
            mean, error = mean_se(ours[:, 0])
            row["AUC"] = f"{number(mean, 3)} ± {number(error, 3)}"
            mean, error = mean_se(np.array(late[env, name]))
            row["last fifth"] = f"{number(mean, 3)} ± {number(error, 3)}"
            if base is not None and name != BASE:
                gap = paired_interval(ours[:, 0] - base[:, 0], compared)
                mark = " *" if gap.low > 0 or gap.high < 0 else ""
                row["minus DDQN [simultaneous]"] = interval_text(gap, 3, sign=True) + mark
        row["value error"] = number(wrong[env, name], 3)
        keys = {"env": env, "contender": name, "paper": ""}
        found += [keys | {"metric": head, "ours": text} for head, text in row.items()]
    return found


def verdict_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    scores = Scores(frame)
    found = []
    for each in judged(scores):
        cells = {
            "holds": "yes" if each.holds else "not shown" if each.asked else "not asked: H1 fails",
            "gain": interval_text(each.gain.interval, 2, sign=True),
            "p (Holm)": f"{each.p:.4f}",
            **over_environments(each.gain),
        }
        keys = {"hypothesis": f"{each.name}: {each.words}", "paper": ""}
        found += [keys | {"metric": head, "ours": text} for head, text in cells.items()]
    unseen = unseen_tails(scores)
    if found and unseen is not None:
        keys = {"hypothesis": "H2 in the two tails that nobody had seen alone", "paper": ""}
        cells = {"holds": "not tested", "gain": interval_text(unseen.interval, 2, sign=True)}
        cells |= over_environments(unseen)
        found += [keys | {"metric": head, "ours": text} for head, text in cells.items()]
    if len(scores.envs(*BY_NAME)) == len(ENVS):
        everywhere = above_everywhere(scores)
        keys = {"hypothesis": "H5: no contender above DDQN in every environment", "paper": ""}
        said = f"above in all: {', '.join(everywhere)}" if everywhere else "yes"
        found.append(keys | {"metric": "holds", "ours": "no" if everywhere else "yes"})
        found.append(keys | {"metric": "gain", "ours": said if everywhere else ""})
    return found


def rate_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """In how many environments each contender took which of the three learning rates, once its
    trials are all there."""
    found = []
    rates = chosen_rates(whole_trials(frame)) if frame.height else {}
    for name in BY_NAME:
        taken = [
            rate / contender_config(env, BY_NAME[name], 0).learning_rate
            for (env, contender), rate in rates.items()
            if contender == name
        ]
        if taken:
            keys = {"contender": name, "paper": ""}
            counts = {
                words: sum(np.isclose(each, factor) for each in taken)
                for words, factor in zip(("a third", "the same", "three times"), FACTORS,
                                         strict=True)
            }  # fmt: skip
            found += [keys | {"metric": head, "ours": str(count)} for head, count in counts.items()]
    return found


def advice_rows(frame: pl.DataFrame, networks: pl.DataFrame | None = None) -> list[dict[str, str]]:
    """A situation a row, those with networks last."""
    found = []
    latent = [] if networks is None or networks.is_empty() else network_advice(networks)
    for each in [*advice(Scores(frame)), *latent]:
        name = each.contender + (" (a control)" if each.contender in CONTROLS else "")
        shown = each.contender in each.better
        cells = {
            "use": name if shown else f"DDQN (largest: {name}, not shown)",
            "gain over DDQN": interval_text(each.gain.interval, 2, sign=True),
            "p (Holm)": f"{each.p:.4f}",
            **over_environments(each.gain),
            "also above DDQN": ", ".join(n for n in each.better if n != each.contender) or "none",
        }
        keys = {"situation": each.situation, "paper": ""}
        found += [keys | {"metric": head, "ours": text} for head, text in cells.items()]
    return found


def pair_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """Two contenders a row, and what the first has over the second in each kind of environment,
    once all have been run."""
    scores, rng = Scores(frame), np.random.default_rng(0)
    if not scores.whole(COMPARED):
        return []
    found = []
    for ours, theirs in PAIRS:
        keys = {"pair": f"{ours} minus {theirs}", "paper": ""}
        for kind in KINDS:
            first, second, base = (
                scores.of(each, SITUATIONS[kind]) for each in (ours, theirs, BASE)
            )
            assert first is not None and second is not None and base is not None
            each = gain(first, second, base, rng)
            over = f", {each.above} of {len(each.by_task)}"
            cell = interval_text(each.interval, 2, sign=True) + over
            found.append(keys | {"metric": kind, "ours": cell})
    return found


def over_environments(found: Gain) -> dict[str, str]:
    return {
        "above zero in": f"{found.above} of {len(found.by_task)}",
        "median": number(found.median, 2, sign=True),
        "without one, at least": number(found.least, 2, sign=True),
    }


def interval_text(found: Interval, decimals: int = 2, sign: bool = False) -> str:
    value, low, high = (number(each, decimals, sign=sign) for each in found)
    return f"{value} [{low}, {high}]"


def grid(frame: pl.DataFrame) -> Figure | None:
    """Contender by environment, shaded by the difference to DDQN in its standard deviations."""
    scores = Scores(frame)
    names = [name for name in scores.contenders if name != BASE]
    some = {env for name in names for env in scores.envs(BASE, name)}
    envs = tuple(env for env in COMPARED if env in some)
    if not names or not envs:
        return None
    cells = tuple(tuple(_cell(scores, name, env) for env in envs) for name in names)
    panel = HeatPanel("AUC minus DDQN's, in DDQN's standard deviations over seeds", "environment",
                      "contender", tuple(map(short_name, envs)), tuple(names), cells, 4.0,
                      "minus DDQN")  # fmt: skip
    return Figure((panel,), 1, "Paired by seed; mean ± standard error.")


def _cell(scores: Scores, name: str, env: str) -> Estimate | None:
    ours, base = scores.of(name, (env,)), scores.of(BASE, (env,))
    if ours is None or base is None:
        return None
    return Estimate.of(((ours - base) / units(base))[:, 0].tolist())


def short_name(env: str) -> str:
    """An environment's name in a picture."""
    for part, short in (
        (",max_episode_steps=200", ""), ("-v1", ""), ("-v4", ""), ("map_name=", ""), ("is_", ""),
        ("=true", ""), (",reward_noise=tail-5", " + tail"), (",", " "),
    ):  # fmt: skip
        env = env.replace(part, short)
    return env


def profiles(frame: pl.DataFrame) -> Figure | None:
    """The share of runs above a level, once all have been run in all environments in which returns
    are compared."""
    scores = Scores(frame)
    if not scores.whole(COMPARED):
        return None
    curves = []
    for name in PROFILED:
        above = normalised(scores, name, COMPARED)
        assert above is not None
        shares = performance_profile(above, LEVELS)
        curves.append(Curve(name, name, tuple(LEVELS), tuple(shares), None))
    panel = LinePanel("Performance profiles", "AUC minus DDQN's mean, in its standard deviations",
                      "share of runs above", tuple(curves))  # fmt: skip
    return Figure((panel,), 1)


def _advice(frames: Frames) -> tuple[Table, Count]:
    rows = advice_rows(frames[NAME], frames.get(NETWORKS))
    return texts(rows, Shape(rows=("situation",))), Count()


def _of(
    rows: Callable[[pl.DataFrame], list[dict[str, str]]], shape: Shape, study: str = NAME
) -> Callable[[Frames], tuple[Table, Count]]:
    def build(frames: Frames) -> tuple[Table, Count]:
        return texts(rows(frames[study]), shape), Count()

    return build


SECTION = Section(
    NAME,
    "The bench: every way to replay, side by side",
    "Declared before it was run: contenders, environments, learning rates chosen on seeds of their "
    "own, hypotheses and tests (`studies/rivals/declared.py`).",
    (
        TableEntry("rivals-advice", "Not in the paper", "Which one should I use?",
                   "The contender of largest gain over DDQN in each situation, among those shown "
                   "to be above it in these environments: mean over environments of the paired "
                   "difference in AUC in units of DDQN's standard deviation over seeds (at least "
                   "a hundredth of its mean), 95 % bootstrap interval of this one comparison; p "
                   "after Holm's correction over all contenders; in how many environments it is "
                   "above zero, the median over them, and the smallest mean that leaving out one "
                   "gives.",
                   NEEDS, _advice),
        TableEntry("rivals-verdicts", "Not in the paper", "The hypotheses, as declared",
                   "Gains as above, H4's over half of what averages gain; p after Holm's "
                   "correction over the four that are tested.", NEEDS,
                   _of(verdict_rows, Shape(rows=("hypothesis",)))),
        FigureEntry("rivals-grid", "Not in the paper", "Contender by environment",
                    "Blue is above DDQN, orange below.", NEEDS, grid),
        TableEntry("rivals-summary", "Not in the paper", "Over all environments",
                   "IQM of AUC in DDQN's standard deviations from its mean; the probability that a "
                   "run beats one of DDQN or PER; tilt: how far outcomes replayed within groups "
                   "are from those that came; entropy of replay over groups.", NEEDS,
                   _of(summary_rows, Shape(rows=("contender",)))),
        FigureEntry("rivals-profiles", "Not in the paper", "Performance profiles",
                    "Higher is better at every level.", NEEDS, profiles),
        TableEntry("rivals-pairs", "Not in the paper", "Side by side",
                   "The gain of one contender over another, its 95 % interval, and in how many "
                   "environments it is above zero. These pairs were chosen after the runs, for "
                   "readers: descriptive, not corrected for their number.", NEEDS,
                   _of(pair_rows, Shape(rows=("pair",)))),
        TableEntry("rivals-environments", "Not in the paper", "Each environment",
                   "Mean ± standard error over seeds 1000-1019; last fifth: the mean return of "
                   "the last fifth of a run; * marks intervals, simultaneous over all comparisons "
                   "of the bench, without zero; value error: against the exact Q*, at the end. "
                   "ConalBandit's arms are all worth the same: it has that alone.", NEEDS,
                   _of(environment_rows, Shape(rows=("contender",), block="env"))),
        TableEntry("rivals-chosen-rates", "Not in the paper", "The learning rates that were chosen",
                   "In how many environments a contender has which learning rate, as part of the "
                   "environment's own; chosen by AUC on seeds 900-904. Many at an edge mean that "
                   "the best may lie beyond it.", RunNeeds(RATE_NAME),
                   _of(rate_rows, Shape(rows=("contender",)), RATE_NAME)),
    ),
)  # fmt: skip

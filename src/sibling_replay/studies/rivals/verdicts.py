"""What became of the hypotheses of the bench, and what follows for a user's situation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sibling_replay.artefacts.gains import Gain, gain, holm
from sibling_replay.studies.rivals.declared import (
    BY_NAME,
    COMPARED,
    DETERMINISTIC,
    MANY_GROUPS,
    RARE,
    STOCHASTIC,
    TAILS,
    UNSEEN_TAILS,
)
from sibling_replay.studies.rivals.scores import F64, Scores

LEVEL = 0.05
BASE = "DDQN"
TESTED = ("H1", "H2", "H3", "H4")
CONTROLS = ("DDQN", "DDQN-batch64", "DDQN-2updates", "DDQN-huber", "DDQN-stratified")


class Tested(NamedTuple):
    """A hypothesis and what the runs say."""

    name: str
    words: str
    gain: Gain
    p: float  # after Holm's correction
    asked: bool = True

    @property
    def holds(self) -> bool:
        return self.asked and self.p < LEVEL and self.gain.least > 0.0


def judged(scores: Scores, seed: int = 0) -> list[Tested]:
    """H1 to H4, once all runs that they are about are there: Holm's correction is over all four."""
    rng = np.random.default_rng(seed)
    found: dict[str, tuple[str, Gain]] = {}
    for name, words, ours, theirs, envs in (
        ("H1", "averages with uniform anchors above DDQN, stochastic", "AVG-uniform", BASE,
         STOCHASTIC),
        ("H2", "SAMPLE above PER, tails", "SAMPLE", "PER", TAILS),
        ("H3", "rescored groups above averages with uniform anchors, many groups", "GROUP-mean",
         "AVG-uniform", MANY_GROUPS),
    ):  # fmt: skip
        first, second, base = (scores.of(each, envs) for each in (ours, theirs, BASE))
        if first is not None and second is not None and base is not None:
            found[name] = words, gain(first, second, base, rng)
    part, whole, base = (scores.of(each, STOCHASTIC) for each in ("CV", "AVG-uniform", BASE))
    if part is not None and whole is not None and base is not None:
        kept = gain(part, whole, base, rng, share=0.5, base=base)
        found["H4"] = "the control variate keeps half of what averages gain, stochastic", kept
    if len(found) < len(TESTED):
        return []
    adjusted = holm({name: each.p for name, (_, each) in found.items()})
    tested = [Tested(name, words, each, adjusted[name]) for name, (words, each) in found.items()]
    gained = tested[0].holds  # or there is nothing to keep half of
    return [*tested[:-1], tested[-1]._replace(asked=gained)]


def unseen_tails(scores: Scores, seed: int = 0) -> Gain | None:
    """H2 in the two environments alone in which no method had been seen: not tested."""
    found = [scores.of(each, UNSEEN_TAILS) for each in ("SAMPLE", "PER", BASE)]
    if any(each is None for each in found):
        return None
    ours, theirs, base = found
    return gain(ours, theirs, base, np.random.default_rng(seed))  # type: ignore[arg-type]


def above_everywhere(scores: Scores) -> tuple[str, ...]:
    """H5: contenders whose mean is above DDQN's in every environment."""
    found = []
    for name in scores.contenders:
        ours, base = scores.of(name, COMPARED), scores.of(BASE, COMPARED)
        if name != BASE and ours is not None and base is not None:
            if (ours.mean(axis=0) > base.mean(axis=0)).all():
                found.append(name)
    return tuple(found)


class Advice(NamedTuple):
    """The contender of largest gain over DDQN in a situation, among those shown to be above it if
    there are any."""

    situation: str
    envs: tuple[str, ...]
    contender: str
    gain: Gain
    p: float  # after Holm's correction over all contenders
    better: tuple[str, ...]  # all that are above DDQN there: after the correction, and in the mean
    # over all environments but any one


FEW_GROUPS = tuple(env for env in STOCHASTIC if env not in MANY_GROUPS)
SITUATIONS: dict[str, tuple[str, ...]] = {
    "rare, large outcomes": RARE,
    "stochastic, none rare and large": tuple(env for env in STOCHASTIC if env not in RARE),
    "deterministic": DETERMINISTIC,
    "stochastic, more than a thousand groups": MANY_GROUPS,
    "stochastic, fewer groups": FEW_GROUPS,
    "any of these": COMPARED,
}


def advice(scores: Scores, seed: int = 0) -> list[Advice]:
    """Of each situation whose runs are all there, of every contender."""
    rng = np.random.default_rng(seed)
    found = []
    for situation, envs in SITUATIONS.items():
        if scores.whole(envs):
            arrays = {name: scores.of(name, envs) for name in BY_NAME}
            found.append(advised(situation, envs, arrays, rng))  # type: ignore[arg-type]
    return found


def advised(
    situation: str, envs: tuple[str, ...], scores: Mapping[str, F64], rng: np.random.Generator
) -> Advice:
    """By the scores of all contenders, [seeds, environments] each."""
    base = scores[BASE]
    gains = {name: gain(ours, base, base, rng) for name, ours in scores.items() if name != BASE}
    adjusted = holm({name: each.p for name, each in gains.items()})
    better = tuple(name for name in gains if adjusted[name] < LEVEL and gains[name].least > 0.0)
    best = max(better or gains, key=lambda name: gains[name].value)
    return Advice(situation, envs, best, gains[best], adjusted[best], better)

"""`diagnose --ladder`: maps from coarse to fine on the entries of a file, and which to take."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.diagnostics import Entries, Granularity, granularity, rare_outcome
from sibling_replay.diagnostics.split_test import positions_of
from sibling_replay.grouping import Exact, FittableMap, KeyChoice, choose, parse_key
from sibling_replay.grouping.auto import BINS, of_small_images
from sibling_replay.grouping.fittable import refuse_not_finite
from sibling_replay.grouping.leaves import leaves_of
from sibling_replay.grouping.support import group_numbers
from sibling_replay.microscope.columns import BadFile
from sibling_replay.microscope.transitions import Transitions

NOISE = 0.02  # G / N up to which a rung is taken: as `Auto` does
_BITS_A_STEP = 2
_WARM_UP = 64  # entries mapped before the clock starts
_TIMINGS = 3  # of which the least counts
_MOST_RUNGS = 64
_SPELLING = re.compile(r"(grid|simhash|kmeans):([0-9]{1,9})(?:\.\.([0-9]{1,9}))?")


@dataclass(frozen=True)
class Rung:
    key: str  # as --key spells it
    found: Granularity
    microseconds: float  # a key, of a batch of all


@dataclass(frozen=True)
class Ladder:
    rungs: tuple[Rung, ...]  # exact first, then by kind, coarse to fine
    taken: str  # a rung's key, or "action" for none of them
    choice: KeyChoice
    rare: str  # the outcome that R is of
    rare_share: float  # of the entries
    prioritized_ratio: float  # R of PER
    tested: str  # what the split test compares

    def data(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "rungs": [
                {"key": rung.key, **asdict(rung.found), "microseconds_a_key": rung.microseconds}
                for rung in self.rungs
            ],
            "taken": {**asdict(self.choice), "rung": self.taken},
            "noise": NOISE,
            "rare_outcome": self.rare,
            "rare_share": self.rare_share,
            "prioritized_ratio": self.prioritized_ratio,
            "tested": self.tested,
        }


def parse_ladder(words: Sequence[str]) -> dict[str, list[str]]:
    """Rungs by kind, coarse to fine, of spellings such as grid:2..16 and kmeans:256."""
    sizes: dict[str, set[int]] = {}
    for word in words:
        match = _SPELLING.fullmatch(word.strip().lower())
        if match is None:
            raise ValueError(
                f"--ladder {word!r} is no range of maps: give grid:BINS, simhash:BITS or "
                f"kmeans:CENTRES, as in grid:2..16 simhash:4..16 kmeans:64..1024"
            )
        kind, first, last = match[1], int(match[2]), int(match[3] or match[2])
        for size in {first, last}:
            parse_key(f"{kind}:{size}")  # refuses what no map can be
        if first > last:
            raise ValueError(f"--ladder {word!r} goes down: give the coarsest first")
        sizes.setdefault(kind, set()).update(_steps(kind, first, last))
    if sum(map(len, sizes.values())) > _MOST_RUNGS:
        raise ValueError(f"--ladder has more than {_MOST_RUNGS} rungs: give less")
    return {kind: [f"{kind}:{size}" for size in sorted(found)] for kind, found in sizes.items()}


def _steps(kind: str, first: int, last: int) -> set[int]:
    """From one size to another: centres double, bits go by two, bins as those that `Auto` tries."""
    if kind == "simhash":
        inner = list(range(first, last, _BITS_A_STEP))
    elif kind == "grid":
        inner = [bins for bins in BINS if first <= bins <= last]
    else:
        inner = [first << doublings for doublings in range((last // first).bit_length())]
    return {first, *inner, last}


def climb(read: Transitions, words: Sequence[str]) -> Ladder:
    """Fit the maps of a ladder to a file's entries and measure the groups of each."""
    spelt = parse_ladder(words)
    columns = read.columns
    obs, action = columns["obs"], columns["action"]
    rare = rare_outcome(columns["reward"], read.masses)
    tested = read.targets
    if tested is None:
        tested = np.stack([columns["reward"], columns["terminated"]], axis=1)
    try:
        for leaf in leaves_of(obs, action):
            refuse_not_finite(leaf.values.reshape(len(obs), -1), leaf.name)
        entries = Entries(
            masses=read.masses,
            rewards=columns["reward"],
            ends=columns["terminated"],
            tested=tested,
            positions=positions_of(obs, action),
            rare=rare,
        )
        rungs = [_rung("exact", Exact(), obs, action, entries)]
        maps: dict[str, dict[str, FittableMap]] = {}
        for kind, keys in spelt.items():
            maps[kind] = {}
            for key in keys:
                maps[kind][key] = of_small_images(parse_key(key), obs, action).fit(obs, action)
                rungs.append(_rung(key, maps[kind][key], obs, action, entries))
        ladders = {type(parse_key(kind)).__name__: found.values() for kind, found in maps.items()}
        taken, choice = choose(ladders, obs, action, read.masses, NOISE)
    except ValueError as error:
        raise BadFile(f"--ladder makes no groups of this file: {error}") from error
    return Ladder(
        rungs=tuple(rungs),
        taken=_key_of(taken, maps),
        choice=choice,
        rare=_rare_words(rare.by, columns["reward"][rare.entries]),
        rare_share=rare.share,
        prioritized_ratio=rare.ratio,
        tested=read.target_source or "reward and terminated",
    )


def _rung(
    key: str, map: FittableMap, obs: NDArray[Any], action: NDArray[Any], entries: Entries
) -> Rung:
    map.keys(obs[:_WARM_UP], action[:_WARM_UP])
    seconds = float("inf")
    for _ in range(_TIMINGS):
        start = time.perf_counter()
        keys = map.keys(obs, action)
        seconds = min(seconds, time.perf_counter() - start)
    found = granularity(group_numbers(keys, action), entries)
    return Rung(key, found, 1e6 * seconds / len(obs))


def _key_of(taken: FittableMap, maps: Mapping[str, Mapping[str, FittableMap]]) -> str:
    for rungs in maps.values():
        for key, map in rungs.items():
            if map is taken:
                return key
    return "exact" if taken.is_exact else "action"


def _rare_words(by: str, rewards: NDArray[np.float64]) -> str:
    if by == "mass":
        return "the largest priorities"
    low, high = rewards.min(), rewards.max()
    if low == high:
        return f"reward {low:g}"
    return f"the rewards farthest from the median, from {low:g} to {high:g}"

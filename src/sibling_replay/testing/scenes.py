"""Small buffers on which strategies are tried. Building one refreshes, and compares as it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sibling_replay.testing.twin import Twin


class Scene(NamedTuple):
    """A capacity and what is done to an empty container of that."""

    capacity: int
    build: Callable[[Twin, np.random.Generator], None]


def _fixed(twin: Twin, rng: np.random.Generator) -> None:
    """24 entries in groups of 1, 2, 3, 5 and 13, of few outcomes; nothing was overwritten."""
    keys = np.repeat(np.arange(5), [1, 2, 3, 5, 13])
    twin.add(rng.permutation(keys), rng.integers(0, 4, keys.size))
    twin.stir(rng, 8)


def _wrapped(twin: Twin, rng: np.random.Generator) -> None:
    """Once around, and half of that again."""
    for count in (17, 9):
        twin.add(rng.integers(0, 4, count), rng.integers(0, 3, count))
        twin.stir(rng, 4)


def _churned(twin: Twin, rng: np.random.Generator) -> None:
    """After hundreds of evictions: groups come and go, and some TD errors come late."""
    for turn in range(60):
        count = int(rng.integers(1, 9))
        twin.add(turn // 20 + rng.geometric(0.3, count), rng.integers(0, 4, count))
        drawn = twin.draw(8)
        if turn % 3 == 0:
            twin.add(turn // 20 + rng.geometric(0.3, 5), rng.integers(0, 4, 5))
        if turn % 5 == 0:
            twin.remove(2)
        twin.refresh(drawn, twin.errors(rng, 8), twin.signals(rng, 8))


def _one_group(twin: Twin, rng: np.random.Generator) -> None:
    """All are siblings."""
    twin.add(np.zeros(9), rng.integers(0, 4, 9))
    twin.stir(rng, 4, size=6)


def _singletons(twin: Twin, rng: np.random.Generator) -> None:
    """Nobody has siblings."""
    twin.add(np.arange(12), rng.integers(0, 4, 12))
    twin.stir(rng, 4, size=6)


SCENES = {
    "fixed": Scene(30, _fixed),
    "wrapped around": Scene(17, _wrapped),
    "churned": Scene(53, _churned),
    "one group": Scene(12, _one_group),
    "singletons": Scene(16, _singletons),
}

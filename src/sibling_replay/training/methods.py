"""The replay strategy that a method's name stands for."""

from __future__ import annotations

from collections.abc import Callable

from sibling_replay import (
    Prioritized,
    RankBased,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.training.config import RunConfig

KINDS: dict[str, Callable[..., Strategy]] = {
    "DDQN": Uniform,
    "PER": Prioritized,
    "RANK": RankBased,
    "SAMPLE": SiblingSample,
    "MODEL": SiblingModel,
}
"""AVG has options of its own."""


def strategy_of(config: RunConfig) -> Strategy:
    if config.method.startswith("AVG"):
        return SiblingAverage(
            alpha=config.alpha,
            max_siblings=config.max_siblings,
            update_all_siblings=config.update_all_siblings,
        )
    return KINDS[config.method](alpha=config.alpha)

"""The five replay strategies of the paper."""

from sibling_replay.strategies.base import InvalidTDErrors, Strategy
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.prioritized import Prioritized
from sibling_replay.strategies.sibling_average import SiblingAverage
from sibling_replay.strategies.sibling_model import SiblingModel
from sibling_replay.strategies.sibling_sample import SiblingSample
from sibling_replay.strategies.uniform import Uniform

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.__name__: strategy
    for strategy in (Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel)
}

__all__ = [
    "STRATEGIES",
    "InvalidTDErrors",
    "Law",
    "Prioritized",
    "SiblingAverage",
    "SiblingModel",
    "SiblingSample",
    "Strategy",
    "Uniform",
]

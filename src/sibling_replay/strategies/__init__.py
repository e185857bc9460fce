"""Strategies: those of the paper, and what it takes to write one."""

from sibling_replay.strategies.age_decayed import AgeDecayed
from sibling_replay.strategies.api import (
    Draw,
    InvalidTDErrors,
    Needs,
    Refresh,
    Strategy,
    Terms,
)
from sibling_replay.strategies.combined import Combined
from sibling_replay.strategies.control_variate import ControlVariate
from sibling_replay.strategies.expected_td import ExpectedTD
from sibling_replay.strategies.group_prioritized import GroupPrioritized
from sibling_replay.strategies.laber import LaBER
from sibling_replay.strategies.lap import LAP
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.prioritized import Prioritized
from sibling_replay.strategies.rank_based import RankBased
from sibling_replay.strategies.registry import find_strategy, register, registered
from sibling_replay.strategies.relo import ReLo
from sibling_replay.strategies.sibling_average import SiblingAverage
from sibling_replay.strategies.sibling_model import SiblingModel
from sibling_replay.strategies.sibling_sample import SiblingSample
from sibling_replay.strategies.stratified import Stratified
from sibling_replay.strategies.uniform import Uniform
from sibling_replay.strategies.uper import UPER
from sibling_replay.strategies.view import Stream, View

__all__ = [
    "LAP",
    "UPER",
    "AgeDecayed",
    "Combined",
    "ControlVariate",
    "Draw",
    "ExpectedTD",
    "GroupPrioritized",
    "InvalidTDErrors",
    "LaBER",
    "Law",
    "Needs",
    "Prioritized",
    "RankBased",
    "ReLo",
    "Refresh",
    "SiblingAverage",
    "SiblingModel",
    "SiblingSample",
    "Strategy",
    "Stratified",
    "Stream",
    "Terms",
    "Uniform",
    "View",
    "find_strategy",
    "register",
    "registered",
]

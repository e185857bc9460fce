"""Prioritized experience replay without within-group self-selection bias."""

# ruff: noqa: E402
from pathlib import Path as _Path

from sibling_replay.kernel_cache import drop_stale_kernels as _drop_stale_kernels

_drop_stale_kernels(_Path(__file__).parent)  # before the first is imported

import sibling_replay.first_use  # noqa: F401
from sibling_replay.buffer import ReplayBuffer
from sibling_replay.checkpoint import StateError
from sibling_replay.grouping.key_map import KeyMap
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.replay.parts import Parts
from sibling_replay.replay.payload import Field
from sibling_replay.slot_sampler import SlotSampler
from sibling_replay.strategies import (
    LAP,
    UPER,
    AgeDecayed,
    Combined,
    ControlVariate,
    Draw,
    ExpectedTD,
    GroupPrioritized,
    InvalidTDErrors,
    LaBER,
    Law,
    Needs,
    Prioritized,
    RankBased,
    Refresh,
    ReLo,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Stratified,
    Stream,
    Terms,
    Uniform,
    View,
    find_strategy,
    register,
)


def __getattr__(name: str) -> str:
    """The version, looked up when it is asked for: reading the metadata takes longer than that."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sibling-replay")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "LAP",
    "UPER",
    "AgeDecayed",
    "Batch",
    "Combined",
    "ControlVariate",
    "Draw",
    "ExpectedTD",
    "Field",
    "GroupPrioritized",
    "InvalidTDErrors",
    "KeyMap",
    "LaBER",
    "Law",
    "Needs",
    "Outcomes",
    "Parts",
    "Prioritized",
    "RankBased",
    "ReLo",
    "Refresh",
    "ReplayBuffer",
    "SiblingAverage",
    "SiblingModel",
    "SiblingSample",
    "SlotSampler",
    "StateError",
    "Strategy",
    "Stratified",
    "Stream",
    "Terms",
    "Uniform",
    "View",
    "find_strategy",
    "register",
]

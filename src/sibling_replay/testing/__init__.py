"""For whoever writes a strategy: `check_strategy` tries it against naive statements of it."""

from sibling_replay.testing.chi_square import (
    SIGNIFICANCE,
    LawRejected,
    TooLittleData,
    check_counts,
    check_draws,
)
from sibling_replay.testing.conformance import CheckFailed, SaboteurPassed, check_strategy
from sibling_replay.testing.records import (
    Entry,
    MakeSignals,
    NaiveLaw,
    NaiveRefresh,
    NaiveRule,
    NaiveSweep,
    Row,
    Update,
    WeightedBy,
)

__all__ = [
    "SIGNIFICANCE",
    "CheckFailed",
    "Entry",
    "LawRejected",
    "MakeSignals",
    "NaiveLaw",
    "NaiveRefresh",
    "NaiveRule",
    "NaiveSweep",
    "Row",
    "SaboteurPassed",
    "TooLittleData",
    "Update",
    "WeightedBy",
    "check_counts",
    "check_draws",
    "check_strategy",
]

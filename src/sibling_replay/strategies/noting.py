"""Writing what strategies say, and the priority of newcomers."""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.memory import Memory
from sibling_replay.replay.notes import (
    START_CLOCK,
    START_MASS,
    NotesForm,
    write_column,
    write_scores,
)
from sibling_replay.strategies.api import Refresh, Strategy
from sibling_replay.strategies.over_memory import assign_priorities
from sibling_replay.strategies.power import LEAST

_FADING = 0.99  # of the largest priority of late, a refresh
_MEDIAN_EVERY = 1_000  # so many entries stored, a refresh more between two medians


def notes_form(strategy: Strategy) -> NotesForm | None:
    """What a memory notes for a strategy; None if nothing."""
    needs = strategy.needs
    if not (needs.columns or needs.scores or needs.sweep or strategy.initial != "largest"):
        return None
    ranks = strategy.recipe is not None and strategy.recipe.ranked_every > 0
    return NotesForm(dict(needs.columns), needs.scores, needs.kappa, strategy.alpha, ranks)


def write_refresh(memory: Memory, refresh: Refresh, alpha: float) -> None:
    """Write a refresh that has been checked."""
    assert refresh.slots is not None
    for name, values in refresh.columns.items():
        place = memory.noted.index(name)
        write_column(memory.notes, memory.index, place, refresh.slots, values)
    if refresh.groups is not None and refresh.scores is not None:
        write_scores(memory.notes, memory.index, refresh.groups, refresh.scores)
    if refresh.priorities is not None:
        assign_priorities(memory.handle, refresh.slots, refresh.priorities, alpha)


def set_start(memory: Memory, strategy: Strategy, largest: float) -> None:
    """The mass of newcomers after a refresh whose largest priority this is, where newcomers do not
    start with the largest ever."""
    if strategy.initial == "largest":
        return
    peaks, clock = memory.notes.peaks, memory.notes.clock
    clock[START_CLOCK] += 1
    if strategy.initial == "recent":
        fading = _FADING**strategy.alpha  # masses fade as their priorities do
        peaks[START_MASS] = max(largest**strategy.alpha, peaks[START_MASS] * fading, LEAST)
    elif clock[START_CLOCK] % max(1, memory.live // _MEDIAN_EVERY) == 0 and memory.live:
        masses = memory.index.tree[memory.live_slots]
        peaks[START_MASS] = max(float(np.median(masses)), LEAST)

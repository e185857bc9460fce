"""From a strategy to what carries it out, and to what a memory must keep for it."""

from __future__ import annotations

from typing import Any

from sibling_replay.strategies.api import Strategy
from sibling_replay.strategies.compiled import CompiledReplay
from sibling_replay.strategies.noting import notes_form
from sibling_replay.strategies.recipe import ALL_AVERAGED, GROUP_MASS, LARGEST, OWN_MASS
from sibling_replay.strategies.scripted import ScriptedReplay

_FLOORS = {OWN_MASS: "slots", GROUP_MASS: "groups"}


def replay_by(strategy: Strategy, capacity: int) -> CompiledReplay | ScriptedReplay:
    """What draws and refreshes as a strategy says."""
    if strategy.recipe is not None:
        return CompiledReplay(strategy, capacity)
    return ScriptedReplay(strategy, capacity)


def kept_for(strategy: Strategy) -> dict[str, Any]:
    """What a memory must keep besides rows, masses and groups.

    min_tree: of what it must know the least mean mass, to divide weights by the largest there is.
    largest: scratch, where of several priorities for one entry the largest stays.
    notes: columns, scores, and how newcomers start.
    first: priority and mass of the first entries: no smaller than any later one can be.
    """
    recipe = strategy.recipe
    notes = notes_form(strategy)
    if recipe is None:
        return {"min_tree": None, "largest": False, "notes": notes}
    first = max(1.0, recipe.floor)
    by_buffer = strategy.normalize == "buffer"
    return {
        "min_tree": _FLOORS.get(recipe.weights) if by_buffer else None,
        "largest": recipe.refreshed in (LARGEST, ALL_AVERAGED),
        "notes": notes,
        "first": (first, first**strategy.alpha),
    }

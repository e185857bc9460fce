"""What the page of every host must show: siblings in its draws, and a file to diagnose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sibling_replay import SlotSampler
from sibling_replay.microscope.transitions import Reading, Transitions, read_transitions
from support.pages import script_of


def run_page(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(script_of(page), page, "exec"), names)
    return names


def check_siblings(sampler: SlotSampler) -> None:
    """Most draws have siblings, so that there is something to correct."""
    live = sampler.live_slots
    _, group, sizes = np.unique(sampler.groups[live], return_inverse=True, return_counts=True)
    with_siblings = sizes[group] > 1
    assert sampler.probabilities().outcome[live][with_siblings].sum() > 0.5
    assert len(live) > 100 and len(sizes) <= 16 * 4
    assert len(set(sampler.masses[live])) > 10  # and its errors came back


def check_export(
    sampler: SlotSampler, path: Path, export: Callable[[Path], None] | None = None
) -> Transitions:
    """The file holds the groups and masses of the buffer."""
    if export is not None:
        export(path)
    has_values = "q_next" in np.load(path).files
    found = read_transitions(path, Reading(gamma=0.99 if has_values else None))
    live = sampler.live_slots
    np.testing.assert_allclose(found.masses, sampler.masses[live], rtol=1e-9)
    groups = sampler.groups[live]
    for mine, theirs in ((found.groups, groups), (groups, found.groups)):
        pairs = set(zip(mine.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(mine.tolist()))
    return found

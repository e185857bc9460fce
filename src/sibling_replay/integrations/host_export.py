"""From a host with a storage of its own to `sibling-replay diagnose`: what its export writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.leaves import as_rows, row
from sibling_replay.integrations.export import write_transitions
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.replay.arrays import I64

NextValues: TypeAlias = Callable[[Any], Any]  # of arrays, or of mappings of arrays
_AT_ONCE = 4096  # observations through the network


def drawable_slots(replay: HostReplay) -> I64:
    """The slots to export, or an error that says why there are none."""
    if replay.strategy.needs.host_may_draw:
        raise ValueError(
            "a buffer drawn by Uniform has no priorities: of such a one, write the columns with "
            "sibling_replay.integrations.export.write_transitions, with td_error"
        )
    if len(replay.sampler) == 0:
        raise ValueError("the replay buffer is empty: there is nothing to export")
    return replay.sampler.live_slots


def export_columns(
    path: str | os.PathLike[str],
    replay: HostReplay,
    slots: I64,
    columns: dict[str, Any],
    next_values: NextValues | None,
) -> None:
    """Write the transitions in these slots, with their priorities, and, where there are, the groups
    of a key function and q_next. Observations of several parts are mappings here, and in the file
    one array, with the numbers of an entry in a row."""
    alpha = replay.strategy.alpha
    # With alpha = 0 every mass is one, and so would be any priority's.
    columns["priority"] = replay.sampler.masses[slots] ** (1.0 / alpha if alpha else 1.0)
    if replay.strategy.needs.groups and not replay.exact:
        columns["group"] = replay.sampler.groups[slots]
    if next_values is not None:
        obs = columns["next_obs"]
        obs = obs if isinstance(obs, Mapping) else np.asarray(obs)
        columns["q_next"] = _in_turns(next_values, obs, slots.size)
    for name in ("obs", "next_obs"):
        columns[name] = as_rows(columns[name])
    write_transitions(path, columns, alpha=alpha)


def _in_turns(next_values: NextValues, next_obs: Any, entries: int) -> NDArray[Any]:
    found = []
    for start in range(0, entries, _AT_ONCE):
        count = min(_AT_ONCE, entries - start)
        values = next_values(row(next_obs, slice(start, start + count)))
        if hasattr(values, "detach"):  # a tensor
            values = values.detach().cpu().numpy()
        values = np.asarray(values)
        if values.shape != (count,):
            raise ValueError(
                f"next_values must give one value for each of {count} observations, it gave "
                f"shape {values.shape}: the largest over actions, say"
            )
        found.append(values)
    return np.concatenate(found)

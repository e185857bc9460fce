"""From a host with a storage of its own to `sibling-replay diagnose`: what its export writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.integrations.export import write_transitions
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.replay.arrays import I64

NextValues: TypeAlias = Callable[[NDArray[Any]], Any]
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
    of a key function and q_next."""
    alpha = replay.strategy.alpha
    # With alpha = 0 every mass is one, and so would be any priority's.
    columns["priority"] = replay.sampler.masses[slots] ** (1.0 / alpha if alpha else 1.0)
    if replay.strategy.needs.groups and not replay.exact:
        columns["group"] = replay.sampler.groups[slots]
    if next_values is not None:
        columns["q_next"] = _in_parts(next_values, np.asarray(columns["next_obs"]))
    write_transitions(path, columns, alpha=alpha)


def _in_parts(next_values: NextValues, next_obs: NDArray[Any]) -> NDArray[Any]:
    found = []
    for start in range(0, len(next_obs), _AT_ONCE):
        part = next_obs[start : start + _AT_ONCE]
        values = next_values(part)
        if hasattr(values, "detach"):  # a tensor
            values = values.detach().cpu().numpy()
        values = np.asarray(values)
        if values.shape != (len(part),):
            raise ValueError(
                f"next_values must give one value for each of {len(part)} observations, it gave "
                f"shape {values.shape}: the largest over actions, say"
            )
        found.append(values)
    return np.concatenate(found)

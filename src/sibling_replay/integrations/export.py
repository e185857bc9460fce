"""From any host to `sibling-replay diagnose`: transitions as a file of columns."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sibling_replay.checkpoint import write_state
from sibling_replay.schema import TRANSITION

_TAKEN = ("header", "rows")  # members by which `diagnose` knows a buffer saved by `save`


def write_transitions(
    path: str | os.PathLike[str], columns: Mapping[str, ArrayLike], *, alpha: float | None = None
) -> None:
    """Write columns, a row per transition, to an .npz that `sibling-replay diagnose` reads.

    columns: obs, action, reward, next_obs, terminated, truncated; priority (raw) or td_error; and,
        where there are, target or q_next, group, and any others for `--group-by`.
    alpha: what `diagnose` takes for the priority exponent when `--alpha` is not given.

    The file appears under its name only when complete.
    """
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    missing = [name for name in TRANSITION if name not in arrays]
    if not {"priority", "td_error"} & set(arrays):
        missing.append("priority or td_error")
    if missing:
        raise ValueError(f"columns missing: {', '.join(missing)}")
    for name, array in arrays.items():
        if name in _TAKEN:
            raise ValueError(f"a column cannot be called {name!r}")
        if array.dtype.kind not in "biufUS" or array.ndim == 0:
            raise TypeError(
                f"column {name} must hold numbers, a row per transition; "
                f"it holds {array.dtype} of shape {array.shape}"
            )
        if len(array) != len(arrays["reward"]):
            raise ValueError(
                f"column {name} has {len(array)} rows, reward has {len(arrays['reward'])}"
            )
    if len(arrays["reward"]) == 0:
        raise ValueError("there are no transitions to write")
    write_state(path, {} if alpha is None else {"alpha": float(alpha)}, arrays)

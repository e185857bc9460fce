"""Descriptive diagnostics of a MinAtar run, averaged in windows (appendix "Other replay
diagnostics")."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay import Batch, ReplayBuffer
from sibling_replay import diagnostics as dx
from sibling_replay.checkpoint import StateError

MEASURE_EVERY = 100  # updates between measured minibatches
MEASURED = ("ess", "td_std", "ratio_mean", "ratio_std")
COLUMNS = ("step", *MEASURED, "action_l1")  # and an ACTION_GAP an action
ACTION_GAP = "action_gap_"  # and the action's number


class Windows:
    """Rows of diagnostics, a window each.

    ess, td_std: means over the window's measured minibatches. ratio_mean, ratio_std: of R_i in
    those minibatches, before priorities are refreshed; nan where the buffer keeps no groups.
    action_gap_A: the frequency of action A in behaviour minus that in replay, both cumulative up to
    the window's end; action_l1: the sum of their sizes. A window without an update is nan.
    """

    def __init__(self, buffer: ReplayBuffer, n_actions: int) -> None:
        self._buffer = buffer
        self._behaviour = np.zeros(n_actions, np.int64)
        self._replay = np.zeros(n_actions, np.int64)
        self._sums = np.zeros(1 + len(MEASURED))  # measured minibatches, then sums
        self._updates = 0
        self._rows: list[NDArray[np.float64]] = []
        self._names = (*COLUMNS, *(f"{ACTION_GAP}{action}" for action in range(n_actions)))

    def act(self, action: int) -> None:
        self._behaviour[action] += 1

    def measure(self, batch: Batch, td_errors: NDArray[Any]) -> None:
        """Note a minibatch; its priorities must be those it was drawn with."""
        self._replay += np.bincount(batch.action, minlength=self._replay.size)
        self._updates += 1
        if self._updates % MEASURE_EVERY == 0:
            ratio = self._ratio(batch)
            ess = dx.effective_sample_size(batch.weights)
            self._sums += (1.0, ess, td_errors.std(), ratio.mean(), ratio.std())

    def _ratio(self, batch: Batch) -> NDArray[np.float64]:
        """R_i of the trained slots; of a strategy without priorities all are alike."""
        groups = self._buffer.groups
        if groups[0] < 0:
            return np.full(batch.size, np.nan)
        masses = self._buffer.masses
        of_batch = groups[batch.slots]
        _, place = np.unique(of_batch, return_inverse=True)
        chosen = np.full(groups.max() + 1, -1)
        chosen[of_batch] = place
        members = chosen[groups]
        inside = members >= 0
        sizes = np.bincount(members[inside])
        sums = np.bincount(members[inside], weights=masses[inside])
        return dx.selection_ratio(masses[batch.slots], sizes[place], sums[place])

    def close(self, step: int) -> None:
        """End a window."""
        self._rows.append(self._row(step))
        self._sums[:] = 0.0

    def _row(self, step: int) -> NDArray[np.float64]:
        """The window up to a step, as far as it has gone."""
        count = self._sums[0]
        means = self._sums[1:] / count if count else np.full(len(MEASURED), np.nan)
        if not self._updates:
            return np.array([step, *means, *np.full(1 + self._replay.size, np.nan)])
        gaps = self._behaviour / self._behaviour.sum() - self._replay / self._replay.sum()
        l1 = dx.action_l1(self._behaviour, self._replay)
        return np.array([step, *means, l1, *gaps])

    def columns(self, end: int | None = None) -> dict[str, NDArray[np.float64]]:
        """Name -> [windows]; with an `end`, the window that is open at this step is the last."""
        rows = self._rows
        if end is not None and not (rows and rows[-1][0] == end):
            rows = [*rows, self._row(end)]
        table = np.array(rows).reshape(-1, len(self._names))
        return {name: table[:, place].copy() for place, name in enumerate(self._names)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return {
            "behaviour": self._behaviour,
            "replay": self._replay,
            "sums": self._sums,
            "updates": np.array(self._updates),
            "rows": np.array(self._rows).reshape(-1, len(self._names)),
        }

    def refuse_other_columns(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays of a version that measured something else."""
        if arrays["rows"].shape[1:] != (len(self._names),):
            raise StateError("the state was written by an older version, with other diagnostics")

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._behaviour = np.array(arrays["behaviour"])
        self._replay = np.array(arrays["replay"])
        self._sums = np.array(arrays["sums"])
        self._updates = int(arrays["updates"])
        self._rows = list(np.array(arrays["rows"]))

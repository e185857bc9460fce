"""What the bench records of a run beside its returns: values against the exact ones, and what was
replayed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sibling_replay.training.tabular.loop import TabularRun
from sibling_replay.training.tabular.network import all_values


def bench_measure(optimal: NDArray[np.float64]) -> Callable[[TabularRun], dict[str, float]]:
    """For `train_tabular`, given Q* [S, A].

    value_error: root mean square of Q - Q* over the (s, a) that have been acted in.
    entropy: of the replays so far over these groups, as a share of the largest there is.
    tilt: total variation, within groups, between the outcomes replayed so far and those that came,
        averaged over groups by their replays.
    """

    def measure(run: TabularRun) -> dict[str, float]:
        values = np.empty_like(run.network.target)
        all_values(run.network, values)
        acted = run.visits[0] > 0
        apart = values.ravel()[acted] - optimal.ravel()[acted]
        replays = run.visits[1][acted] / max(run.visits[1].sum(), 1)
        some = replays[replays > 0]
        most = np.log(max(int(np.count_nonzero(acted)), 2))
        return {
            "value_error": float(np.sqrt(np.mean(apart**2))),
            "entropy": float(-(some * np.log(some)).sum() / most),
            "tilt": outcome_tilt(run.outcome_visits, run.visits.shape[1]),
        }

    return measure


def outcome_tilt(visits: NDArray[np.float64], n_groups: int) -> float:
    """Of outcomes that came and were replayed, [2, groups * width]; nan before any replay."""
    came, replayed = visits.reshape(2, n_groups, -1)
    total = replayed.sum(axis=1)
    there = total > 0
    if not there.any():
        return float("nan")
    stored = came[there] / came[there].sum(axis=1, keepdims=True)
    shares = replayed[there] / total[there, None]
    apart = 0.5 * np.abs(shares - stored).sum(axis=1)
    return float((apart * total[there]).sum() / total.sum())

"""OutlierBandit's rare reward: how often it is stored and replayed at each checkpoint of a run."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from sibling_replay.artefacts.summaries import F64, series
from sibling_replay.running.store import DIAGNOSTIC
from sibling_replay.training.tabular.trainer import tabular_model


class RareOutcome(NamedTuple):
    """Bandit's rare reward at each checkpoint of a run."""

    step: F64
    frequency: F64  # f_g(100)
    probability: F64  # q_g(100)
    effective: F64  # its share under unnormalised IS (eq. 6)
    reward: float

    @property
    def shift_before_is(self) -> F64:
        return self.reward * (self.probability - self.frequency)

    @property
    def shift_after_is(self) -> F64:
        return self.reward * (self.effective - self.frequency)


def rare_outcome(row: dict[str, object]) -> RareOutcome:
    """How a run of OutlierBandit met and replayed its rare reward. The other outcome of the arm is
    0, so the outcome TV distance of the arm is |q - f| and its target shift reward * (q - f)."""
    group, rare, reward = _rare_cell(str(row["env"]))

    def share(name: str) -> F64:
        cells = {
            key.removeprefix(DIAGNOSTIC): series(row, key.removeprefix(DIAGNOSTIC))
            for key in row
            if key.startswith(f"{DIAGNOSTIC}{name}/g{group}/")
        }
        return np.asarray(cells[f"{name}/g{group}/o{rare}"] / sum(cells.values()))

    step = series(row, "step")
    return RareOutcome(step, share("count"), share("mass"), share("corrected"), reward)


@cache
def _rare_cell(env: str) -> tuple[int, int, float]:
    """Group, outcome (numbered as the trainer does) and reward of the largest reward there is."""
    model = tabular_model(env)
    state, action, listed = np.unravel_index(model.reward.argmax(), model.reward.shape)
    outcome = 2 * int(model.outcome_id[state, action, listed])
    reward = float(model.reward[state, action, listed])
    return int(state) * model.n_actions + int(action), outcome, reward

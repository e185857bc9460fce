"""The paper's analytic FrozenLake shifts, and what they depend on."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay.envs import optimal_values
from sibling_replay.studies.frozen_lake_shift import VISITED, expected_visits, target_shifts
from sibling_replay.training.tabular.trainer import tabular_model


@pytest.mark.parametrize(
    ("env", "published", "reachable"),
    [("FrozenLake-H100/H300", -50.4, -50.401), ("FrozenLake-H50", -15.3, -18.867)],
)
def test_largest_downward_shift(env: str, published: float, reachable: float) -> None:
    model = tabular_model(env)
    assert target_shifts(model)[0].shift == pytest.approx(published, abs=0.05)
    assert target_shifts(model, visited=1e-30)[0].shift == pytest.approx(reachable, abs=5e-4)
    assert target_shifts(model, alpha=0.0)[0].shift == pytest.approx(0.0, abs=1e-9)


def test_optimal_values_satisfy_bellman_and_visits_balance() -> None:
    model = tabular_model("FrozenLake-H50")
    q = optimal_values(model, 0.99)
    best = q.max(axis=1)
    backed_up = (
        model.probability * (model.reward + 0.99 * ~model.terminated * best[model.next_state])
    ).sum(axis=2)
    np.testing.assert_allclose(q, backed_up, atol=1e-10)
    actions = q.argmax(axis=1)
    visits = expected_visits(model, actions)
    states = np.arange(model.n_states)
    ending = (model.probability * model.terminated)[states, actions].sum(axis=1)
    assert visits @ ending == pytest.approx(1.0)  # every episode ends once
    assert visits[0] >= 1.0 and (visits >= -1e-12).all()
    # no greedy action of a visited state is nearly tied, so rounding decides nothing
    second = np.sort(q, axis=1)[:, -2]
    assert (best - second)[visits > VISITED].min() > 1e-4

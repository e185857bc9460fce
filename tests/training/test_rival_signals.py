"""What learners tell strategies beside TD errors: computed by hand here."""

from __future__ import annotations

import numpy as np
import pytest
from test_vector_learner import SETTINGS, Plan, parts

from sibling_replay import ReLo

pytest.importorskip("torch")


@pytest.mark.parametrize("learner", ("compiled", "torch"))
def test_target_error_is_against_the_target_networks_own_value(learner: str) -> None:
    plan = Plan(**SETTINGS)
    env, made, buffer, rng = parts("CartPole-v1", ReLo(), None, plan, learner, np.float64)
    obs, _ = env.reset(seed=1)
    for _ in range(40):
        action = int(rng.integers(2))
        after, reward, ended, _, _ = env.step(action)
        buffer.add(obs, action, reward, after, ended, False)
        obs = env.reset()[0] if ended else after
    before = made.values(buffer.transitions()["obs"])  # of both networks, still
    for turn in range(3):
        batch = buffer.sample(16, 0.5)
        errors = made.update(batch)
        signals = made.signals_for(buffer, batch)
        assert list(signals) == ["target_error"]
        values = before[batch.slots, batch.action]
        if turn == 0:
            np.testing.assert_allclose(signals["target_error"], errors, rtol=1e-9, atol=1e-12)
        else:  # the target network has not moved, the other one has
            own = made._last[0] if learner == "compiled" else made.signals["target"].numpy()
            np.testing.assert_allclose(signals["target_error"], own - values, rtol=1e-9)
            assert np.abs(signals["target_error"] - errors).max() > 1e-4
        buffer.update_priorities(batch, errors, **signals)
        drop = np.maximum(errors**2 - signals["target_error"] ** 2, 0.0) + 1e-5
        expected = dict(zip(batch.slots.tolist(), drop**0.6, strict=True))
        np.testing.assert_allclose(
            buffer.masses[list(expected)], list(expected.values()), rtol=1e-6
        )
    pairs = made.values_of(buffer.transitions()["obs"], buffer.transitions()["action"])
    expected = made.values(buffer.transitions()["obs"])
    np.testing.assert_allclose(pairs, expected[np.arange(40), buffer.transitions()["action"]])

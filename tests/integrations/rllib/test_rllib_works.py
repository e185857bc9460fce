"""docs/works.md, the row of RLlib."""

from __future__ import annotations

import numpy as np
import pytest
from rllib_kit import bandit_config

from sibling_replay.integrations.rllib import BUFFER
from support.works import check_row, learnt

pytestmark = pytest.mark.usefixtures("local_ray")


def test_dqn():
    """Its bandit's episodes have one step, so CartPole's stand in where outcomes have several."""

    def trial(strategy, variant):
        n_step = 3 if variant == "N" else 1
        buffer = {"type": BUFFER, "capacity": 500, "strategy": strategy, "seed": 0}
        config = bandit_config(0, buffer | {"n_step": n_step}, n_step=n_step,
                               num_steps_sampled_before_learning_starts=16)  # fmt: skip
        config.env_runners(num_envs_per_env_runner=8 if variant == "V" else 1)
        if variant == "N":
            config.environment("CartPole-v1")
        dqn = config.build_algo()
        try:
            before = weights(dqn)
            for _ in range(30):
                dqn.training_step()
            learnt(before, weights(dqn))
            if not strategy.needs.host_may_draw:
                slots = dqn.local_replay_buffer.replay.sampler
                assert np.unique(slots.masses[slots.live_slots]).size > 2
        finally:
            dqn.stop()

    check_row("RLlib `DQN`", trial, "1NV")


def weights(dqn):
    module = dqn.learner_group._learner.module["default_policy"]
    return np.concatenate([each.detach().numpy().ravel() for each in module.parameters()])

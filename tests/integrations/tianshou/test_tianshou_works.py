"""docs/works.md, the row of Tianshou."""

from __future__ import annotations

import numpy as np
import test_tianshou_dict as parts
import torch
from tianshou.env import DummyVectorEnv
from tianshou_kit import make_dqn, make_env, run_training

from sibling_replay.integrations.tianshou import SiblingVectorReplayBuffer
from support.works import check_row, learnt


def train(strategy, variant):
    envs = 2 if variant == "V" else 1
    buffer = SiblingVectorReplayBuffer(500, parts.ENVS if variant == "D" else envs, strategy)
    if variant == "D":
        torch.manual_seed(0)
        before = parts.Values().linear.weight.detach().numpy()
        learnt(before, parts.train(buffer).linear.weight.detach().numpy())
        return
    dqn = make_dqn(0, n_step_return_horizon=3 if variant == "N" else 1)
    before = next(dqn.policy.model.parameters()).detach().numpy().copy()
    vector = DummyVectorEnv([make_env for _ in range(envs)])
    run_training(dqn, vector, buffer, 60, batch=8)
    learnt(before, next(dqn.policy.model.parameters()).detach().numpy())
    if not strategy.needs.host_may_draw:
        live = buffer.replay.sampler.live_slots
        assert np.unique(buffer.replay.sampler.masses[live]).size > 2  # refreshed


def test_what_trains():
    check_row("Tianshou `DQN`", train)

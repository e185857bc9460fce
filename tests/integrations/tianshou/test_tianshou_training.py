"""Tianshou's DQN and trainer on the paper's bandit, with its buffers and with ours."""

from __future__ import annotations

import numpy as np
import pytest
from bandit_effect import RISKY, SAFE, learnt_by_both
from page_lake import check_export, check_siblings, run_page
from tianshou.data import VectorReplayBuffer
from tianshou_kit import ENVS, make_dqn, train

from sibling_replay import Prioritized, Uniform
from sibling_replay.integrations.tianshou import SiblingVectorReplayBuffer

SEEDS = range(3)
STEPS = 2_000


def learnt(strategy, seed: int):
    """Action values, averaged over the second half of a run: each draw of the 100 moves them."""
    buffer = SiblingVectorReplayBuffer(2 * STEPS, ENVS, strategy, random_seed=seed)
    values = train(make_dqn(seed), buffer, seed, STEPS)
    return values[len(values) // 2 :].mean(axis=0)


def test_the_papers_effect():
    """PER even prefers the risky arm, on average over seeds."""
    per, _ = learnt_by_both(learnt, SEEDS, safe_within=0.1)
    assert per[:, RISKY].mean() > 2.5


def test_uniform_is_the_stock_buffer():
    """The same seed, the same learning curve, bit for bit."""
    curves = []
    for make in (
        lambda: VectorReplayBuffer(1_000, ENVS, random_seed=5),
        lambda: SiblingVectorReplayBuffer(1_000, ENVS, Uniform(), random_seed=5),
    ):
        curves.append(train(make_dqn(5), make(), 5, 400))
    assert len(curves[0]) == 20 and np.ptp(curves[0][:, SAFE]) > 0.1
    assert np.array_equal(*curves)


def test_the_huber_loss_that_drops_weights_is_refused():
    buffer = SiblingVectorReplayBuffer(400, ENVS, Prioritized(), random_seed=0)
    with pytest.raises(ValueError, match="huber_loss_delta"):
        train(make_dqn(0, huber_loss_delta=1.0), buffer, 0, 400)
    uniform = SiblingVectorReplayBuffer(400, ENVS, Uniform(), random_seed=0)
    train(make_dqn(0, huber_loss_delta=1.0), uniform, 0, 100)  # nothing to drop


def test_the_page(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("use/tianshou.md")
    sampler = names["buffer"].replay.sampler
    check_siblings(sampler)
    found = check_export(sampler, tmp_path / "lake.npz")
    assert found.targets is not None and np.ptp(found.targets) > 0

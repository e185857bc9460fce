"""TorchRL's collector, loss and buffer on the paper's bandit, with its sampler and with ours."""

from __future__ import annotations

import numpy as np
from bandit_effect import RISKY, SAFE, learnt_by_both
from page_lake import check_export, check_siblings, run_page
from torchrl.data.replay_buffers.samplers import RandomSampler
from torchrl_kit import train

from sibling_replay import Uniform
from sibling_replay.integrations.torchrl import SiblingSampler

SEEDS = range(3)
STEPS = 2_000


def learnt(strategy, seed: int):
    """Action values, averaged over the second half of a run: each draw of the 100 moves them."""
    values = train(SiblingSampler(STEPS, strategy, seed=seed, errors="squared"), seed, STEPS)
    return values[len(values) // 2 :].mean(axis=0)


def test_the_papers_effect():
    """PER even prefers the risky arm, on average over seeds."""
    per, _ = learnt_by_both(learnt, SEEDS, safe_within=0.1)
    assert per[:, RISKY].mean() > 2.5


def test_uniform_is_the_stock_sampler():
    """The same seed, the same learning curve, bit for bit."""
    ours = train(SiblingSampler(400, Uniform()), 5, 400)
    stock = train(RandomSampler(), 5, 400)
    assert len(ours) == 20 and np.ptp(ours[:, SAFE]) > 0.1
    assert np.array_equal(ours, stock)


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("use/torchrl.md")
    sampler = names["sampler"].replay.sampler
    check_siblings(sampler)
    found = check_export(sampler, tmp_path / "lake.npz")
    assert found.targets is not None and np.ptp(found.targets) > 0

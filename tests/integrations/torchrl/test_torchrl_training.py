"""TorchRL's collector, loss and buffer on the paper's bandit, with its sampler and with ours."""

from __future__ import annotations

import numpy as np
from readme_blocks import code_below
from torchrl.data.replay_buffers.samplers import RandomSampler
from torchrl_kit import RISKY, SAFE, train

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.integrations.torchrl import SiblingSampler

SEEDS = range(3)
STEPS = 2_000


def learnt(strategy, seed: int):
    """Action values, averaged over the second half of a run: each draw of the 100 moves them."""
    values = train(SiblingSampler(STEPS, strategy, seed=seed), seed, STEPS)
    return values[len(values) // 2 :].mean(axis=0)


def test_the_papers_effect():
    """The risky arm pays 1 on average and the safe one 2. PER overrates the rare 100 and prefers
    the risky arm; with SAMPLE the same training prefers the safe one, with every seed."""
    per = np.array([learnt(Prioritized(alpha=0.6), seed) for seed in SEEDS])
    sample = np.array([learnt(SiblingSample(alpha=0.6), seed) for seed in SEEDS])
    np.testing.assert_allclose(per[:, SAFE], 2.0, atol=0.1)
    np.testing.assert_allclose(sample[:, SAFE], 2.0, atol=0.1)
    assert per[:, RISKY].mean() > 2.5
    assert (sample[:, RISKY] < sample[:, SAFE]).all()
    assert (per[:, RISKY] > sample[:, RISKY] + 1.0).all()


def test_uniform_is_the_stock_sampler():
    """The same seed, the same learning curve, bit for bit."""
    ours = train(SiblingSampler(400, Uniform()), 5, 400)
    stock = train(RandomSampler(), 5, 400)
    assert len(ours) == 20 and np.ptp(ours[:, SAFE]) > 0.1
    assert np.array_equal(ours, stock)


def test_the_readme():
    exec(compile(code_below("TorchRL"), "README.md", "exec"), {})

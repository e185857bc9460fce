"""TorchRL's collector, loss and buffer on the paper's bandit, with its sampler and with ours."""

from __future__ import annotations

import numpy as np
import pytest
from torchrl.data.replay_buffers.samplers import RandomSampler
from torchrl_kit import RISKY, SAFE, train

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.integrations.torchrl import SiblingSampler
from support.host_draws import readme_block

SEEDS = range(3)
STEPS = 2_000


def learnt(strategy, seed: int):
    """Action values, averaged over the second half of a run: each draw of the 100 moves them."""
    values = train(SiblingSampler(STEPS, strategy, seed=seed), seed, STEPS)
    return values[len(values) // 2 :].mean(axis=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_papers_effect(seed):
    """The risky arm pays 1 on average and the safe one 2. PER overrates the rare 100; with SAMPLE
    the same loop learns what the arms pay."""
    per, sample = learnt(Prioritized(alpha=0.6), seed), learnt(SiblingSample(alpha=0.6), seed)
    assert per[RISKY] > per[SAFE]
    assert sample[SAFE] > sample[RISKY]
    assert abs(per[SAFE] - 2.0) < 0.1 and abs(sample[SAFE] - 2.0) < 0.1


def test_uniform_is_the_stock_sampler():
    """The same seed, the same learning curve, bit for bit."""
    ours = train(SiblingSampler(400, Uniform()), 5, 400)
    stock = train(RandomSampler(), 5, 400)
    assert len(ours) == 20 and np.ptp(ours[:, SAFE]) > 0.1
    assert np.array_equal(ours, stock)


def test_the_readme():
    exec(compile(readme_block("TorchRL"), "README.md", "exec"), {})

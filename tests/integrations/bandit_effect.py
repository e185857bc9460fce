"""The paper's effect on OutlierBandit, as every host that reports action values must show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from sibling_replay import Prioritized, SiblingSample, Strategy

SAFE, RISKY = 0, 1


def learnt_by_both(
    learnt: Callable[[Strategy, int], np.ndarray], seeds: Iterable[int], safe_within: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values that `learnt(strategy, seed)` gives with PER and with SAMPLE: [seeds, arms] each.

    The risky arm pays 1 on average and the safe one 2. PER overrates the rare 100; with SAMPLE the
    same training prefers the safe arm, with every seed.
    """
    seeds = list(seeds)
    per = np.array([learnt(Prioritized(alpha=0.6), seed) for seed in seeds])
    sample = np.array([learnt(SiblingSample(alpha=0.6), seed) for seed in seeds])
    for values in (per, sample):
        np.testing.assert_allclose(values[:, SAFE], 2.0, atol=safe_within)
    assert (sample[:, RISKY] < sample[:, SAFE]).all()
    assert (per[:, RISKY] > sample[:, RISKY] + 1.0).all()
    return per, sample

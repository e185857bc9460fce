"""How well a code supports sibling groups: the columns of the paper's table `tab:vqvae`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SUPPORTED = 100  # transitions in a bucket that the paper calls sufficiently supported
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class CodeSupport:
    """Statistics of buckets (phi(s), a) over a sample of transitions."""

    transitions: int
    perplexity: float  # exponentiated entropy of code use, over all cells of the grid
    pair_coverage: float  # part of the possible buckets that occur
    median_bucket: float  # transitions in the median occupied bucket
    fraction_supported: float  # transitions in buckets of at least SUPPORTED
    bucket_quantiles: tuple[float, ...]  # sizes of occupied buckets at QUANTILES
    used_codes: int  # of K
    used_keys: int  # different phi(s); with one, a group is all that an action did


def code_support(
    codes: NDArray[np.int64],
    packed: NDArray[np.int64],
    action: NDArray[np.int64],
    *,
    n_codes: int,
    n_actions: int,
) -> CodeSupport:
    """Of transitions with `codes` [N, cells], packed [N], and actions [N]."""
    use = np.bincount(codes.ravel(), minlength=n_codes) / codes.size
    used = use[use > 0]
    sizes = bucket_sizes(packed, action)
    return CodeSupport(
        transitions=len(packed),
        perplexity=float(np.exp(-(used * np.log(used)).sum())),
        pair_coverage=len(sizes) / (n_codes ** codes.shape[1] * n_actions),
        median_bucket=float(np.median(sizes)),
        fraction_supported=float(sizes[sizes >= SUPPORTED].sum() / len(packed)),
        bucket_quantiles=tuple(np.quantile(sizes, QUANTILES).tolist()),
        used_codes=len(used),
        used_keys=len(np.unique(packed)),
    )


def bucket_sizes(packed: NDArray[np.int64], action: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many transitions each bucket (phi(s), a) that occurs has."""
    sizes: NDArray[np.int64]
    _, sizes = np.unique(packed * (action.max() + 1) + action, return_counts=True)
    return sizes

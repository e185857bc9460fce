"""Observations to map."""

from __future__ import annotations

from typing import Any

import numpy as np


def normal(count: int, dims: int = 4, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)


def images(count: int, shape: tuple[int, ...] = (21, 17, 3), seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(256, size=(count, *shape), dtype=np.uint8)


def refines(fine: Any, coarse: Any) -> bool:
    """Whether entries of one fine group are in one coarse group."""
    pairs = {
        (np.array(f).tobytes(), np.array(c).tobytes()) for f, c in zip(fine, coarse, strict=True)
    }
    return len(pairs) == len({fine for fine, _ in pairs})

"""What a run leaves behind: its evaluation curve, in the order it was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.training.config import RunConfig


@dataclass(frozen=True)
class RunResult:
    """Evaluations e = 0..E-1 and what was observed on the way. Arrays are read-only."""

    config: RunConfig
    eval_step: NDArray[np.int64]  # [E] environment steps taken before the evaluation
    eval_episode: NDArray[np.int64]  # [E] training episodes finished before it
    eval_return: NDArray[np.float64]  # [E] mean undiscounted return
    eval_success: NDArray[np.float64]  # [E] share of episodes with a success; nan: has none
    episodes: int  # training episodes finished
    updates: int  # optimizer steps taken
    diagnostics: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("eval_step", "eval_episode", "eval_return", "eval_success"):
            getattr(self, name).flags.writeable = False

"""A run of the compiled trainer as a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sibling_replay.training.config import RunConfig, paper_config
from sibling_replay.training.results import RunResult

# every part of the trainer once, in a few milliseconds
_TINY = {
    "steps": 20,
    "learning_starts": 5,
    "capacity": 10,
    "batch_size": 2,
    "hidden": 2,
    "eval_episodes": 1,
    "eval_interval": 1,
    "diagnostics_every": 10,
}


@dataclass(frozen=True)
class TabularJob:
    """What a worker calls with a config."""

    def __call__(self, config: RunConfig) -> RunResult:
        from sibling_replay.training.tabular import train  # slow to import: by workers only

        return train(config)

    def prepare(self) -> None:
        """Compile the trainer's kernels, or load them from disk, so that the first run is timed as
        all others are."""
        _compile()


@cache
def _compile() -> None:
    TabularJob()(paper_config("OutlierBandit", "AVG", seed=0, **_TINY))

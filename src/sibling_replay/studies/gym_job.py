"""A run on any Gymnasium environment as a job: by the learner that its config names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.running.runs import Run
from sibling_replay.studies.own_code import code_of
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.results import RunResult


@dataclass(frozen=True)
class GymJob:
    """What a worker calls with a config. A run of `DQN` goes on from its checkpoint; one of SB3,
    which takes a minute or two, begins anew."""

    checkpoints: Path | None = None  # directory; None: nothing is kept

    def __call__(self, config: GymConfig) -> RunResult:
        if config.learner == "sb3":
            from sibling_replay.integrations.sb3_run import train_sb3  # torch: slow to import

            return train_sb3(config)
        from sibling_replay.training.gym_run import train_gym

        place = self.place(config)
        return train_gym(config, checkpoint=place)

    def place(self, config: GymConfig) -> Path | None:
        """Readable, and made unique by all of the config and the code of what is one's own: what
        other code has begun is not gone on with."""
        if self.checkpoints is None:
            return None
        whole = "".join([repr(config), *code_of(config.env, config.method)])
        digest = hashlib.blake2b(whole.encode(), digest_size=6).hexdigest()
        return self.checkpoints / f"{config.label}-{digest}"

    def steps_done(self, run: Run) -> int:
        """Steps that an unfinished run has taken: it leaves no notes."""
        return 0

    def forget(self, run: Run) -> None:
        """Delete the checkpoints of a run whose result is stored."""
        place = self.place(run.config) if isinstance(run.config, GymConfig) else None
        if place is not None:
            RollingCheckpoint(place).remove()

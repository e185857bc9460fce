"""A MinAtar job whose first worker is killed by the system in mid-run. Workers import this file."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from sibling_replay.experiments.minatar_job import MinAtarJob
from sibling_replay.training.minatar_config import MinAtarConfig
from sibling_replay.training.results import RunResult


@dataclass(frozen=True)
class KilledOnce:
    job: MinAtarJob
    notes: Path

    def __call__(self, config: MinAtarConfig) -> RunResult:
        from sibling_replay.training.torch_minatar import Session, train

        def observe(session: Session) -> None:
            if session.position.number >= 200 and not (self.notes / "killed").exists():
                (self.notes / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)

        checkpoint = self.job.checkpoint(config)
        state = checkpoint.load()
        (self.notes / "resumed_at").write_text(str(0 if state is None else state[0]["number"]))
        return train(config, checkpoint=checkpoint, checkpoint_seconds=0.0, observe=observe)


def killed_once(job: MinAtarJob, notes: Path) -> KilledOnce:
    return KilledOnce(job, notes)

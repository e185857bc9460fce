"""A MinAtar job whose first worker is killed in mid-run. Workers import this file."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sibling_replay.running.runs import Run
from sibling_replay.studies.minatar.job import MinAtarJob
from sibling_replay.studies.minatar.runs import minatar_config, minatar_run
from sibling_replay.training.minatar.config import MinAtarConfig
from sibling_replay.training.results import RunResult


def small_run() -> Run:
    """400 steps, with evictions, updates and evaluations."""
    config = minatar_config(
        "Breakout", "PER", "mp-tail", 0, steps=400, learning_starts=64, capacity=200,
        eval_every_steps=200, eval_episodes=2, max_episode_steps=50, diagnostics_every=100,
    )  # fmt: skip
    return minatar_run("minatar", config)


@dataclass(frozen=True)
class KilledOnce:
    """At step 200 of the first attempt the worker kills itself, or waits for somebody to do it,
    with its process id in the file `killed`. `resumed_at` tells where the last attempt began."""

    job: MinAtarJob
    notes: Path
    by_itself: bool

    def __call__(self, config: MinAtarConfig) -> RunResult:
        from sibling_replay.training.minatar.session import Session, train_game

        def observe(session: Session) -> None:
            if session.position.number >= 200 and not (self.notes / "killed").exists():
                (self.notes / "writing").write_text(str(os.getpid()))
                (self.notes / "writing").rename(self.notes / "killed")
                if self.by_itself:
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(300)
                raise TimeoutError("nobody killed this job")

        checkpoint = self.job.checkpoint(config)
        state = checkpoint.load()
        (self.notes / "resumed_at").write_text(str(0 if state is None else state[0]["number"]))
        return train_game(config, checkpoint=checkpoint, checkpoint_seconds=0.0, observe=observe)

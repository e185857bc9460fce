"""Real kills: a process is started again and again until its output is there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

LATEST = 0.3  # seconds after a sign of progress


def run_killed(command: list[str], output: Path, kills: int, seed: int) -> None:
    """Run a command that prints as it makes progress, killing it `kills` times with SIGKILL, each
    at a random moment after its first line; then let it finish."""
    rng = np.random.default_rng(seed)
    killed = 0
    while not output.exists():
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            if killed < kills:
                assert run.stdout.readline(), "it ended by itself"
                time.sleep(rng.uniform(0.0, LATEST))
                os.kill(run.pid, signal.SIGKILL)
                killed += 1
            run.stdout.read()
            assert run.wait() in (0, -signal.SIGKILL)
    assert killed == kills

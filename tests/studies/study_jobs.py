"""Train-shaped functions for the runner's tests, and a runner to be killed.

`fake_train` is a pure function of the config, like the real one, but instant. Its misbehaving
relatives are told apart by what is wrong with them. As a script, this file runs a study the way
the command does, so that a test can kill it from outside.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import TabularConfig
from sibling_replay.training.results import RunResult

FLAG = "SIBLING_REPLAY_TEST_DIR"  # where misbehaving jobs leave marks
RELEASED = "released"  # the mark that lets held jobs go on
SLOW = 0.25  # seconds a slow job takes, long enough to be killed in


def fake_train(config: TabularConfig) -> RunResult:
    key = [config.seed, int(config.alpha * 10), len(config.env), len(config.method)]
    rng = np.random.default_rng(key)
    points = 20 + config.seed
    step = np.linspace(config.steps / points, config.steps, points).astype(np.int64)
    return RunResult(
        config=config,
        eval_step=step,
        eval_episode=step // 7,
        eval_return=rng.normal(size=points),
        eval_success=rng.random(points),
        episodes=int(step[-1] // 7),
        updates=config.steps - config.learning_starts,
        diagnostics={"shift": rng.normal(size=5)} if config.method == "PER" else {},
    )


def slow_train(config: TabularConfig) -> RunResult:
    """Marks each attempt in a file named after its worker, so a test knows whom to kill, when."""
    with open(Path(os.environ[FLAG]) / f"{os.getpid()}.pid", "a") as mark:
        mark.write(f"{config.seed}\n")
    time.sleep(SLOW)
    return fake_train(config)


def held_train(config: TabularConfig) -> RunResult:
    """As `slow_train`, but from seed 2 on it goes on only once the test has released it: whatever
    is killed until then is killed in mid-run, however slow the machine."""
    marks = Path(os.environ[FLAG])
    with open(marks / f"{os.getpid()}.pid", "a") as mark:
        mark.write(f"{config.seed}\n")
    end = time.monotonic() + 300
    while config.seed >= 2 and not (marks / RELEASED).exists():
        if time.monotonic() > end:
            raise TimeoutError("nobody released this job")
        time.sleep(0.01)
    return fake_train(config)


class PreparedTrain:
    """Has to be prepared, which takes a second once in a process, and leaves a mark before and one
    after."""

    def __call__(self, config: TabularConfig) -> RunResult:
        return fake_train(config)

    def prepare(self) -> None:
        marks = Path(os.environ[FLAG])
        if not (marks / f"{os.getpid()}.after").exists():
            (marks / f"{os.getpid()}.before").touch()
            time.sleep(1.0)
            (marks / f"{os.getpid()}.after").touch()


def gpu_train(config: TabularConfig) -> RunResult:
    """Tells which GPUs it was given, in a file named after its seed."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    (Path(os.environ[FLAG]) / f"{config.seed}.gpus").write_text(given)
    return fake_train(config)


def attempts(marks: Path) -> list[str]:
    """The seeds of all attempts of `slow_train` or `held_train` so far."""
    return [line for path in marks.glob("*.pid") for line in path.read_text().split()]


def held(marks: Path) -> set[int]:
    """The workers that `held_train` holds, or held when they were killed."""
    last = {int(path.stem): path.read_text().split()[-1:] for path in marks.glob("*.pid")}
    return {pid for pid, seed in last.items() if seed and int(seed[0]) >= 2}


def raising_train(config: TabularConfig) -> RunResult:
    if config.seed == 1:
        raise ArithmeticError(f"seed {config.seed} does not like you")
    return fake_train(config)


def dies_once_train(config: TabularConfig) -> RunResult:
    """Kills its own worker with SIGKILL the first time it meets seed 1, then behaves."""
    mark = Path(os.environ[FLAG]) / "died"
    if config.seed == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
    return fake_train(config)


def deadly_train(config: TabularConfig) -> RunResult:
    if config.seed == 1:
        os.kill(os.getpid(), 9)
    return fake_train(config)


def small_study(count: int = 8) -> tuple[Run, ...]:
    """The first runs of the real sweep's OutlierBandit: seeds 0, 1, 2, ... of one cell."""
    return study_named("grid").runs(Choice())[:count]


if __name__ == "__main__":
    from sibling_replay.running.local import LocalBackend
    from sibling_replay.running.runner import run_study

    root, workers, train = Path(sys.argv[1]), int(sys.argv[2]), globals()[sys.argv[3]]
    report = run_study(
        small_study(),
        root,
        LocalBackend(train, workers),
        lambda progress: print("done", progress.done, flush=True),
    )
    sys.exit(1 if report.failures else 0)

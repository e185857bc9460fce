"""What a run says while it learns: a line on the terminal, scalars for TensorBoard."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, NamedTuple

_EVERY = 0.5  # seconds between two lines on a terminal
_EVERY_ELSEWHERE = 10.0  # in a pipe or a file, where lines stay
LOOK_EVERY = 100  # steps between two looks at the clock
_WRITE_EVERY = 1_000  # steps between two points of TensorBoard


class Progress(NamedTuple):
    """Where a run is."""

    step: int
    episodes: int
    updates: int
    mean_return: float  # of the last episodes
    mean_length: float
    loss: float
    epsilon: float
    beta: float
    learning_rate: float
    groups_per_entry: float | None  # None: the buffer keeps no groups

    def scalars(self) -> dict[str, float]:
        """Under the names that SB3 has for them; what it does not have is under `replay/`."""
        found = {
            "rollout/ep_rew_mean": self.mean_return,
            "rollout/ep_len_mean": self.mean_length,
            "rollout/exploration_rate": self.epsilon,
            "time/episodes": self.episodes,
            "train/loss": self.loss,
            "train/learning_rate": self.learning_rate,
            "train/n_updates": self.updates,
            "replay/beta": self.beta,
        }
        if self.groups_per_entry is not None:
            found["replay/groups_per_entry"] = self.groups_per_entry
        return found


class Reporter:
    """Shows and logs, from one step to another. Use it in a `with` block."""

    def __init__(
        self,
        begin: int,
        end: int,
        progress_bar: bool,
        tensorboard: str | os.PathLike[str] | None,
    ) -> None:
        self._begin, self._end = begin, end
        self._shows = progress_bar
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._score: float | None = None  # of the last evaluation
        self._writer: Any = None
        if tensorboard is not None:
            try:
                from tensorboard.summary import Writer
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(
                    f"{error}: pip install tensorboard, or leave tensorboard= out"
                ) from error
            self._writer = Writer(os.fspath(tensorboard))

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shows and self._terminal:
            sys.stderr.write("\n")
        if self._writer is not None:
            self._writer.close()

    def due(self, step: int) -> bool:
        """Whether `report` is to be called after a step."""
        if step == self._end:
            return True
        if self._writer is not None and step % _WRITE_EVERY == 0:
            return True
        if not self._shows or step % LOOK_EVERY:
            return False
        patience = _EVERY if self._terminal else _EVERY_ELSEWHERE
        return time.monotonic() - self._shown >= patience

    def report(self, progress: Progress) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        speed = (progress.step - self._begin) / seconds
        if self._writer is not None:
            for name, value in {**progress.scalars(), "time/fps": speed}.items():
                self._writer.add_scalar(name, value, progress.step)
        if self._shows:
            self._shown = time.monotonic()
            text = self._line(progress, speed)
            sys.stderr.write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")
            sys.stderr.flush()

    def _line(self, progress: Progress, speed: float) -> str:
        left = (self._end - progress.step) / speed if speed else float("inf")
        evaluated = "" if self._score is None else f"  evaluated {self._score:.1f}"
        return (
            f"{progress.step:,} of {self._end:,} steps  return {progress.mean_return:.1f}"
            f"{evaluated}  loss {progress.loss:.3g}  epsilon {progress.epsilon:.2f}  "
            f"beta {progress.beta:.2f}  {speed:,.0f} steps/s  {left:.0f} s left"
        )

    def evaluated(self, step: int, score: float) -> None:
        """Note an evaluation."""
        self._score = score
        if self._writer is not None:
            self._writer.add_scalar("eval/mean_reward", score, step)

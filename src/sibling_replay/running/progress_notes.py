"""How far unfinished runs are: each notes it beside its checkpoints every few seconds.

A note is for people; nothing is computed from it. A run that is killed goes on from its checkpoint,
which may be some minutes behind its last note.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sibling_replay.files import write_whole
from sibling_replay.training.config import RunConfig


class Session(Protocol):
    """A run in progress, as far as notes tell."""

    position: Any  # its `number` is the step
    curve: list[tuple[int, int, float]]  # step, episodes, mean return

    @property
    def config(self) -> RunConfig: ...


NOTE = "progress.json"
EVERY = 5.0  # seconds between two notes of a run


@dataclass(frozen=True)
class ProgressNote:
    """What a run has noted."""

    step: int
    steps: int  # of the whole run
    score: float | None  # mean return of the last evaluation, if there was one
    seconds_ago: float


class ProgressNotes:
    """Writes a run's notes: an observer of its training."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NOTE
        self._due = 0.0

    def __call__(self, session: Session) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        note = {
            "step": session.position.number,
            "steps": session.config.steps,
            "score": session.curve[-1][2] if session.curve else None,
        }
        with suppress(OSError):  # a run does not fail for want of a note
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(note).encode())


def last_note(directory: Path) -> ProgressNote | None:
    """A run's last note; None if there is none that can be read."""
    path = directory / NOTE
    try:
        return ProgressNote(
            **json.loads(path.read_text()), seconds_ago=time.time() - path.stat().st_mtime
        )
    except (OSError, ValueError, TypeError):
        return None

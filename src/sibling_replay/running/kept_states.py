"""The last states of finished runs: where a longer run of the same settings goes on.

`<runs>/states/<run, without its length>/<steps>.npz`, as large as a checkpoint. No result
depends on them; whoever deletes one has longer runs start from zero.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sibling_replay.training.config import RunConfig

STATES = "states"  # directory below that of the runs


@dataclass(frozen=True)
class KeptStates:
    """The states below a directory, of runs on one device: learners of another kind differ."""

    directory: Path
    device: str = "cpu"

    def path(self, config: RunConfig) -> Path:
        """Where the last state of a run is, or would be."""
        return self._place(config) / f"{config.steps}.npz"

    def furthest(self, config: RunConfig) -> int:
        """The step of the last state that a run can begin from; 0 if there is none."""
        kept = (int(path.stem) for path in self._place(config).glob("*.npz") if _is_step(path.stem))
        return max((step for step in kept if step <= config.steps), default=0)

    def earlier(self, config: RunConfig) -> Path | None:
        """The state that a run can begin from."""
        step = self.furthest(config)
        return self._place(config) / f"{step}.npz" if step else None

    def _place(self, config: RunConfig) -> Path:
        kind = "" if self.device == "cpu" else f"-{self.device.partition(':')[0]}"
        return self.directory / f"{name_without_length(config)}{kind}"


def name_without_length(config: RunConfig) -> str:
    """What runs share that differ in their length alone."""
    settings = {name: value for name, value in config.written().items() if name != "steps"}
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=6).hexdigest()
    return f"{config.label}-{digest}"


def size_of(root: Path) -> tuple[int, int]:
    """How many states are kept below the directory of the runs, and their bytes."""
    sizes = [path.stat().st_size for path in (root / STATES).glob("*/*.npz")]
    return len(sizes), sum(sizes)


def _is_step(name: str) -> bool:
    return name.isascii() and name.isdecimal()

"""A MinAtar run as a job: with the encoder its config names, from its last checkpoint."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.envs import GAMES, MinAtarEnv
from sibling_replay.grouping.vqvae.files import find_encoder
from sibling_replay.running.kept_states import KeptStates
from sibling_replay.running.progress_notes import ProgressNotes, last_note
from sibling_replay.running.runs import Run
from sibling_replay.training.minatar.config import MinAtarConfig
from sibling_replay.training.results import RunResult


@dataclass(frozen=True)
class MinAtarJob:
    """What a worker calls with a config. Whoever takes over a run goes on from its checkpoint, so
    on a cluster `checkpoints` and `states` should be directories that all nodes see."""

    checkpoints: Path
    encoders: Path | None = None  # encoder file, or directory of them, before the package's
    checkpoint_seconds: float = 300.0
    device: str = "cpu"
    states: Path | None = None  # keeps the last states of finished runs; None: they are deleted

    def __post_init__(self) -> None:
        if not 0.0 < self.checkpoint_seconds < math.inf:
            minutes = self.checkpoint_seconds / 60.0
            raise ValueError(f"--checkpoint-minutes must be positive and finite, got {minutes:g}")
        if not re.fullmatch(r"(cpu|cuda)(:\d+)?", self.device):
            raise ValueError(f"--device must be cpu or cuda, got {self.device!r}")

    def __call__(self, config: MinAtarConfig) -> RunResult:
        from sibling_replay.training.minatar.session import train_game  # torch: slow to import

        encoder = find_encoder(self.encoders, config.encoder) if config.encoder else None
        checkpoint, kept = self.checkpoint(config), self._kept
        with checkpoint.owned():
            result = train_game(
                config,
                encoder,
                checkpoint=checkpoint,
                earlier=None if kept is None else kept.earlier(config),
                checkpoint_seconds=self.checkpoint_seconds,
                device=self.device,
                observe=ProgressNotes(checkpoint.directory),
            )
            if kept is not None and not kept.path(config).exists():
                checkpoint.keep(kept.path(config))
        return result

    def check(self) -> None:
        """Refuse here and now what would fail every run: the games, torch or its device are not
        there."""
        MinAtarEnv(next(iter(GAMES)))  # says what to install
        try:
            from sibling_replay.training.minatar.session import check_device
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{error}: MinAtar runs need PyTorch and an extra, "
                "pip install torch==2.13.0 'sibling-replay[minatar]'"
            ) from error
        check_device(self.device)

    def checkpoint(self, config: MinAtarConfig) -> RollingCheckpoint:
        """Where a run's states are."""
        return RollingCheckpoint(self.checkpoints / checkpoint_name(config))

    @property
    def _kept(self) -> KeptStates | None:
        return None if self.states is None else KeptStates(self.states, self.device)

    def begins_at(self, config: MinAtarConfig) -> int:
        """The step of the kept state that a run begins from; 0 if there is none."""
        return 0 if self._kept is None else self._kept.furthest(config)

    def steps_done(self, run: Run) -> int:
        """Steps that an unfinished run has taken, by its last note or the state it begins from."""
        if not isinstance(run.config, MinAtarConfig):
            return 0
        noted = last_note(self.checkpoint(run.config).directory)
        return max(self.begins_at(run.config), 0 if noted is None else noted.step)

    def forget(self, run: Run) -> None:
        """Delete the checkpoints and notes of a run whose result is stored."""
        if isinstance(run.config, MinAtarConfig):
            self.checkpoint(run.config).remove()


def checkpoint_name(config: MinAtarConfig) -> str:
    """Readable, and made unique by all of the config."""
    written = ", ".join(f"{name}={value!r}" for name, value in config.written().items())
    digest = hashlib.blake2b(f"MinAtarConfig({written})".encode(), digest_size=6).hexdigest()
    return f"{config.label}-{digest}"

"""A `DQN` as files have it: saved and loaded, kept in checkpoints and taken up from them."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sibling_replay import ReplayBuffer, Strategy
from sibling_replay.checkpoint import StateError, write_state
from sibling_replay.training.made import Made
from sibling_replay.training.model_state import (
    Arrays,
    part_of,
    refuse_other_end,
    refuse_other_model,
    under,
)
from sibling_replay.training.settings import NetworkSettings
from sibling_replay.training.worlds import Episode

VERSION = 3  # of the files
OBJECT = "object"  # in the place of a key that is no text
_CHANGING = (  # of a header, while a model learns
    "steps", "updates", "episodes", "begun", "late", "notes", "explore", "evaluate", "settings",
)  # fmt: skip


class SavedDQN:
    """What `DQN` does with files."""

    settings: NetworkSettings
    strategy: Strategy
    learner_kind: str
    learner: Any
    made: Made
    buffer: ReplayBuffer
    seed: int
    steps: int
    updates: int
    episodes: int
    late: deque[Episode]
    notes: list[Any]
    _open: set[str]  # settings that the first `learn` says
    _key_text: str | None
    _explore: np.random.Generator
    _evaluate_from: np.random.Generator

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the model: networks, optimizer and settings; with `replay` the buffer, too.

        A file holds numbers and names, no code.
        """
        header, arrays = self._model_state()
        if replay:
            header["buffer"], more = self._buffer_state()
            arrays |= more
        write_state(path, header, arrays)

    def _model_state(self) -> tuple[dict[str, Any], Arrays]:
        header = {
            "dqn": VERSION,
            "env": self.made.id,
            "env_form": self.made.form,
            "n_envs": self.made.size,
            "learner": self.learner_kind,
            "strategy": self.strategy.name,
            "options": self.strategy.options(),
            "key": self._key_text,
            "settings": asdict(self.settings),
            "seed": self.seed,
            "steps": self.steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "begun": self.made.episodes,
            "late": [list(episode) for episode in self.late],
            "notes": self.notes,
            "explore": self._explore.bit_generator.state,
            "evaluate": self._evaluate_from.bit_generator.state,
        }
        return header, under("learner", self.learner.arrays())

    def _load_model(self, header: dict[str, Any], arrays: Arrays) -> None:
        learnt, own = part_of("learner", arrays), self.learner.arrays()
        if {name: x.shape for name, x in learnt.items()} != {n: x.shape for n, x in own.items()}:
            raise StateError(
                f"the network in the file does not fit the observations and actions of "
                f"{self.made.name}: {' and '.join(map(str, self.made.spaces))}"
            )
        self.settings, self._open = NetworkSettings(**header["settings"]), set()
        self.learner.load_arrays(learnt)
        self.steps, self.updates = header["steps"], header["updates"]
        self.episodes = header["episodes"]
        self.made.go_on_after(self.steps, header["begun"])
        self.late = deque((Episode(*each) for each in header["late"]), self.late.maxlen)
        self.notes = header["notes"]
        self._explore.bit_generator.state = header["explore"]
        self._evaluate_from.bit_generator.state = header["evaluate"]

    def _buffer_state(self) -> tuple[dict[str, Any], Arrays]:
        state = self.buffer.state_dict()
        return state.pop("header"), under("buffer", state)

    def _load_buffer(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.buffer.load_state_dict({"header": header, **part_of("buffer", arrays)})

    def _state(self, until: int, stopped: bool = False) -> tuple[dict[str, Any], Arrays]:
        """All there is, for a checkpoint. stopped: by a callback."""
        header, arrays = self._model_state()
        header["buffer"], of_buffer = self._buffer_state()
        header["world"], of_world = self.made.state()
        return {**header, "until": until, "stopped": stopped}, {
            **arrays,
            **of_buffer,
            **under("world", of_world),
        }

    def _take_up(self, header: dict[str, Any], arrays: Arrays, until: int, file: Path) -> bool:
        """Go on from the checkpoint in a file, unless that is where this model is. Returns whether
        a callback stopped the run there."""
        own, _ = self._model_state()
        refuse_other_model(header, own, _CHANGING, own["settings"].keys() - self._open)
        if header["steps"] == self.steps:
            return False
        refuse_other_end(header, self.steps, until)
        try:
            self.made.load_state(header["world"], part_of("world", arrays))
        except StateError as error:
            raise StateError(
                f"{error} DQN.load({str(file)!r}) goes on with new episodes; another directory "
                "begins anew"
            ) from error
        self._load_buffer(header["buffer"], arrays)
        self._load_model(header, arrays)
        return bool(header["stopped"])

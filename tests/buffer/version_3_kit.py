"""The buffers whose files of schema version 3 lie in `version_3/`, and what they do next.

The files were written by `write`, with the package as of schema version 3, before keys of functions
had the action added to them. Beside each is what version 3 did next: the draws of `go_on`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from buffer_kit import schema

from sibling_replay import (
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)

FOLDER = Path(__file__).parent / "version_3"
CAPACITY = 13


def with_action(obs: Any, action: Any) -> Any:
    """A key that never mixes actions."""
    return np.array([int(obs[0]) // 2, action], dtype=np.int16)


def without_action(obs: Any, action: Any) -> Any:
    """A key that mixes them."""
    return int(obs[0]) // 2


STRATEGIES: dict[str, Strategy] = {
    "uniform": Uniform(),
    "prioritized": Prioritized(),
    "sample": SiblingSample(),
    "sample-buffer": SiblingSample(normalize="buffer"),
    "model": SiblingModel(),
    "average": SiblingAverage(update_all_siblings=True),
    "average-2": SiblingAverage(max_siblings=2),
}
KEYS: dict[str, Any] = {
    "none": None,
    "exact": "exact",
    "given": "given",
    "with-action": with_action,
    "without-action": without_action,
}
GROUPED = [key for key in KEYS if key != "none"]
SCENES = [
    ("uniform", "none"),
    ("prioritized", "none"),
    ("prioritized", "with-action"),
    *(("sample", key) for key in GROUPED),
    ("sample-buffer", "with-action"),
    ("sample-buffer", "without-action"),
    *(("model", key) for key in GROUPED),
    *(("average", key) for key in GROUPED),
    ("average-2", "with-action"),
    ("average-2", "without-action"),
]


def new(strategy: str, key: str) -> ReplayBuffer:
    """Fields of odd widths, so that the rows of a layout have gaps, and one of the user's own."""
    fields = schema(Field(np.uint8, (3,)), Field(np.int8), tag=Field(np.float16))
    return ReplayBuffer(fields, CAPACITY, STRATEGIES[strategy], key=KEYS[key], seed=7)


def step(buffer: ReplayBuffer, rng: np.random.Generator, given: bool) -> None:
    obs, action = int(rng.integers(4)), int(rng.integers(-1, 2))
    extra = {"group": 10 * (obs // 2) + action} if given else {}
    buffer.add(
        np.array([obs, 0, 1], np.uint8),
        action,
        float(rng.integers(2)),
        np.array([int(rng.integers(2)), 0, 0], np.uint8),
        bool(rng.random() < 0.2),
        False,
        tag=float(rng.integers(9)),
        **extra,
    )


def train(buffer: ReplayBuffer, rng: np.random.Generator) -> list[list[Any]]:
    """A draw and its refresh. Returns what was drawn; floats as exact text."""
    batch = buffer.sample(8, beta=0.5)
    means = batch.average(batch.outcomes.reward.astype(np.float64))
    found = [
        *(getattr(batch, name).tolist() for name in ("slots", "anchors", "outcome_slots")),
        *(batch.groups.tolist(), batch.group_sizes.tolist(), batch.obs.tolist()),
        [value.hex() for value in batch.weights.astype(np.float64).tolist()],
        [value.hex() for value in np.asarray(means, np.float64).tolist()],
    ]
    buffer.update_priorities(batch, 3.0 * rng.random(8))
    return found


def churned(strategy: str, key: str) -> ReplayBuffer:
    """A buffer that has wrapped around several times, in the middle of a round."""
    buffer, rng = new(strategy, key), np.random.default_rng(11)
    for _ in range(5):
        for _ in range(CAPACITY - 2):
            step(buffer, rng, key == "given")
        train(buffer, rng)
    return buffer


def go_on(buffer: ReplayBuffer, key: str) -> list[Any]:
    """What a buffer does next, for a while."""
    rng = np.random.default_rng(12)
    found: list[Any] = []
    for _ in range(6):
        found.append(train(buffer, rng))
        for _ in range(5):
            step(buffer, rng, key == "given")
    return found


def write(folder: Path = FOLDER) -> None:
    for strategy, key in SCENES:
        buffer = churned(strategy, key)
        buffer.save(folder / f"{strategy}.{key}.npz")
        (folder / f"{strategy}.{key}.json").write_text(json.dumps(go_on(buffer, key)))

"""A state taken from a buffer and put back must go on bit for bit."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.strategies import Strategy, registered
from sibling_replay.testing.twin import Twin


def state_bytes(state: dict[str, Any]) -> dict[str, bytes]:
    """A state as bytes, to be compared."""
    header = json.dumps(state["header"], sort_keys=True, default=str).encode()
    arrays = {name: value.tobytes() for name, value in state.items() if name != "header"}
    return {"header": header, **arrays}


def check_states(twin: Twin, rng: np.random.Generator) -> None:
    """By `state_dict`, `copy`, `pickle` and a file: the same draws, weights and masses follow.

    Pickles need a strategy whose class can be imported, and files one that is registered: for
    others these two ways are left out.
    """
    seed = int(rng.integers(2**31))
    restored = {way: twin.beside(container) for way, container in _restored(twin)}
    expected, end = _go_on(twin, seed)
    for way, other_twin in restored.items():
        found, end_found = _go_on(other_twin, seed)
        for turn, (first, second) in enumerate(zip(expected, found, strict=True)):
            for name, one, other in zip(("slots", "weights"), first, second, strict=True):
                assert np.array_equal(one, other), (
                    f"restored by {way}, draw {turn} has other {name} than the original: "
                    f"{other.tolist()}, expected {one.tolist()}"
                )
        for name, stored in end.items():
            assert stored == end_found[name], f"restored by {way}, `{name}` of the state differs"


def _restored(twin: Twin) -> Iterator[tuple[str, Any]]:
    fresh = twin.new_sampling(seed=999)
    fresh.load_state_dict(twin.sampling.state_dict())
    yield "state_dict", fresh
    yield "copy", copy.deepcopy(twin.sampling)
    if _importable(type(twin.strategy)):
        yield "pickle", pickle.loads(pickle.dumps(twin.sampling))
    kind = registered().get(twin.strategy.name)
    if isinstance(twin.sampling, ReplayBuffer) and kind is type(twin.strategy):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "state"
            twin.sampling.save(path)
            loaded = ReplayBuffer.load(path)
        assert loaded.strategy == twin.strategy, (
            f"a file gives {loaded.strategy}, expected {twin.strategy}"
        )
        yield "file", loaded


def _importable(kind: type[Strategy]) -> bool:
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _go_on(twin: Twin, seed: int) -> tuple[list[tuple[Any, Any]], dict[str, bytes]]:
    """Slots and weights of some draws with refreshes between them, and the state at the end."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(6):
        drawn = twin.draw(8)
        seen.append((drawn.batch.slots.copy(), drawn.batch.weights.copy()))
        twin.add(rng.integers(0, 5, 2), rng.integers(0, 4, 2))
        twin.refresh(drawn, twin.errors(rng, 8), twin.signals(rng, 8))
    return seen, state_bytes(twin.sampling.state_dict())

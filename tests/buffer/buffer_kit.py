"""What the buffer tests share: schemas, every strategy, seeded traffic, comparison of states."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sibling_replay import (
    Batch,
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    SlotSampler,
    Strategy,
    Uniform,
)
from support.averaging import averaged

STRATEGIES: dict[str, Strategy] = {
    "uniform": Uniform(),
    "prioritized": Prioritized(),
    "prioritized-buffer": Prioritized(alpha=0.9, normalize="buffer"),
    "sample": SiblingSample(),
    "sample-buffer": SiblingSample(alpha=0.3, normalize="buffer"),
    "model": SiblingModel(normalize=None),
    "average": SiblingAverage(),
    "average-2": SiblingAverage(max_siblings=2),
    "average-all": SiblingAverage(update_all_siblings=True),
    "average-2-all": SiblingAverage(max_siblings=2, update_all_siblings=True),
}
REFRESHING = {name: s for name, s in STRATEGIES.items() if name != "uniform"}
GROUPED = {name: s for name, s in STRATEGIES.items() if s.needs.groups}

USED = 64  # where a partition's `heads` says how much of its pool is in use


def schema(
    obs: Field | None = None, action: Field | None = None, **extra: Field
) -> dict[str, Field]:
    """The fields of a transition; by default of a tabular environment."""
    obs = obs or Field(np.dtype(np.int64))
    return {
        "obs": obs,
        "action": action or Field(np.dtype(np.int64)),
        "reward": Field(np.dtype(np.float32)),
        "next_obs": obs,
        "terminated": Field(np.dtype(np.bool_)),
        "truncated": Field(np.dtype(np.bool_)),
        **extra,
    }


def tabular(strategy: Strategy, capacity: int = 16, seed: int = 0, **options: Any) -> ReplayBuffer:
    return ReplayBuffer(schema(), capacity, strategy, seed=seed, **options)


def add_some(buffer: ReplayBuffer, count: int, seed: int = 0) -> None:
    """Tabular transitions with few states, so that groups have members and outcomes repeat."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        buffer.add(
            int(rng.integers(3)),
            int(rng.integers(2)),
            float(rng.integers(2)),
            int(rng.integers(2)),
            bool(rng.random() < 0.2),
            bool(rng.random() < 0.2),
        )


def churned(strategy: Strategy, capacity: int = 16, seed: int = 0, **options: Any) -> ReplayBuffer:
    """A buffer that has wrapped several times, with refreshed priorities."""
    buffer = tabular(strategy, capacity, seed, **options)
    rng = np.random.default_rng(seed)
    for chunk in range(5):
        add_some(buffer, capacity - 1, seed=seed + chunk)
        buffer.update_priorities(averaged(buffer.sample(8)), 3.0 * rng.random(8))
    return buffer


def columns(batch: Batch) -> dict[str, bytes]:
    """All that a batch gives, as bytes."""
    found = {name: getattr(batch, name).tobytes() for name in batch.columns}
    found["added"] = str(batch.added).encode()
    if batch.outcomes is not batch:
        outcomes = batch.outcomes
        for name in ("slots", "shares", "starts", *outcomes.columns):
            found[f"outcomes.{name}"] = getattr(outcomes, name).tobytes()
    return found


def snapshot(state: ReplayBuffer | SlotSampler | Mapping[str, Any]) -> dict[str, bytes]:
    """A state as bytes. The unused end of a pool holds nothing and is left out."""
    if isinstance(state, (ReplayBuffer, SlotSampler)):
        state = state.state_dict()
    taken = {"header": json.dumps(state["header"], sort_keys=True).encode()}
    for name, array in state.items():
        if name == "header":
            continue
        if name.endswith(".pool"):
            array = array[: state[name.removesuffix("pool") + "heads"][USED]]
        taken[name] = array.tobytes()
    return taken


def assert_valid(buffer: ReplayBuffer) -> None:
    ok, why = buffer.check_valid()
    assert ok, why


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return [name for name in before if before[name] != after.get(name)]


def assert_refused(
    buffer: ReplayBuffer, call: Callable[[], Any], match: str, kinds: Any = (TypeError, ValueError)
) -> None:
    """The call raises one of `kinds` with a text that matches, and leaves no trace."""
    import pytest

    before = snapshot(buffer)
    with pytest.raises(kinds, match=match):
        call()
    assert differences(before, snapshot(buffer)) == []
    assert_valid(buffer)


def assert_same_partition(labels: list[Any], groups: np.ndarray) -> None:
    """Equal labels exactly where equal groups."""
    pairs = set(zip(labels, groups.tolist(), strict=True))
    assert len(pairs) == len(set(labels)) == len(set(groups.tolist()))


class Stubborn:
    """An object that fails on its way to an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no array here")

    def __bool__(self) -> bool:
        return True

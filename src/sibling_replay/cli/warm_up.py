"""Compile ahead: what a first use would wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.first_use import NOTICE
from sibling_replay.grouping import Auto, Downscale, FittableMap, Grid, KMeans, SimHash
from sibling_replay.replay.arrays import F64
from sibling_replay.replay.memory import append
from sibling_replay.replay.payload import Field
from sibling_replay.running.display import duration
from sibling_replay.slot_sampler import SlotSampler
from sibling_replay.strategies import (
    ControlVariate,
    GroupPrioritized,
    Prioritized,
    RankBased,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.studies.tabular import TabularJob
from sibling_replay.terminal import new_console
from sibling_replay.training import DQN

# A kernel may depend on what a strategy keeps, or on what it averages: one of each kind.
_STRATEGIES: dict[str, Strategy] = {
    "Prioritized": Prioritized(),
    "RankBased": RankBased(every=1),
    "Uniform": Uniform(),
    "SiblingSample": SiblingSample(),
    "SiblingModel": SiblingModel(),
    "SiblingAverage": SiblingAverage(),
    "SiblingAverage, every sibling": SiblingAverage(update_all_siblings=True),
    "SiblingAverage of two": SiblingAverage(max_siblings=2),
    "SiblingAverage of two, both": SiblingAverage(max_siblings=2, update_all_siblings=True),
    # Those in NumPy share the kernels behind a view, and these use all of them.
    "ControlVariate": ControlVariate(alpha=0.6),
    "GroupPrioritized, averages": GroupPrioritized(trains="average"),
}
_MAPS: dict[str, FittableMap] = {
    "Grid": Grid(2),
    "SimHash": SimHash(4),
    "KMeans": KMeans(2),
    "Downscale": Downscale((2, 2), then=KMeans(2)),
    "Auto": Auto(),
}
_SIZE = 4  # of batches


def warm_up() -> int:
    """Compile the kernels now and keep them on disk, so that no first use waits for them.

    Of the buffer, the slot sampler, all built-in strategies, the key maps, DQN and the tabular
    trainer: two or three minutes, once on a machine. A second time there is nothing left to do.
    """
    console = new_console()
    NOTICE.silent = True  # this is what its line advises
    began, before = time.monotonic(), NOTICE.kernels
    for name, use in _uses():
        start, compiled = time.monotonic(), NOTICE.kernels
        use()
        compiled = NOTICE.kernels - compiled
        took = f"compiled {compiled}, {duration(time.monotonic() - start)}" if compiled else "there"
        console.print(f"{name:<44} {took}", markup=False, highlight=False)
    compiled, where = NOTICE.kernels - before, kept_in()
    if compiled:
        took = duration(time.monotonic() - began)
        said = f"compiled {compiled} kernels in {took}; the next time this takes nothing"
    else:
        said = "nothing to compile: all kernels were there"
    console.print(f"{said}\nkept in {where}", markup=False, highlight=False, soft_wrap=True)
    package = Path(__file__).parents[1]
    if package not in where.parents:
        console.print(
            "not beside the package: its own folder cannot be written, or NUMBA_CACHE_DIR names "
            "another. Whoever runs as another user or on another machine compiles again.",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    return 0


def kept_in() -> Path:
    """The folder in which Numba keeps the kernels of memory.py, the others beside it."""
    return Path(str(append.stats.cache_path))


def _uses() -> Iterator[tuple[str, Callable[[], None]]]:
    """What compiles every kernel that is called from Python on an ordinary day."""
    for name, strategy in _STRATEGIES.items():
        yield f"buffer, {name}", partial(_use_buffer, strategy)
    for name, strategy in _STRATEGIES.items():
        yield f"slot sampler, {name}", partial(_use_sampler, strategy)
    for name in ("Prioritized", "SiblingAverage"):  # without and with outcomes that are counted
        yield f"n steps, {name}", partial(_use_buffer, _STRATEGIES[name], n_steps=2)
    for name, key in _MAPS.items():
        yield f"key map, {name}", partial(_use_map, key)
    for name in ("SiblingSample", "SiblingAverage"):
        yield f"DQN, {name}", partial(_use_dqn, _STRATEGIES[name])
    yield "tabular trainer", TabularJob().prepare


def _use_buffer(strategy: Strategy, n_steps: int = 1) -> None:
    number, truth = Field(np.dtype(np.int64)), Field(np.dtype(np.bool_))
    fields = {
        "obs": number,
        "action": number,
        "reward": Field(np.dtype(np.float32)),
        "next_obs": number,
        "terminated": truth,
        "truncated": truth,
    }
    buffer = ReplayBuffer(fields, 8, strategy, seed=0, n_steps=n_steps, gamma=0.9)
    for step in range(10):  # past the end of the ring
        buffer.add(step % 2, 0, 0.0, step % 3, False, False)
    batch = buffer.sample(_SIZE, 0.4)
    batch.average(batch.outcomes.reward)
    buffer.update_priorities(batch, np.ones(_SIZE), **_signals(strategy))
    buffer.check_valid()
    buffer.load_state_dict(buffer.state_dict())


def _use_dqn(strategy: Strategy) -> None:
    model = DQN("CartPole-v1", strategy=strategy, key="exact", learning_starts=8, seed=0)
    model.learn(20)
    model.learner.move_target()
    model.evaluate(1)


def _signals(strategy: Strategy) -> dict[str, F64]:
    return {name: np.ones(_SIZE) for name in strategy.needs.signals}


def _use_sampler(strategy: Strategy) -> None:
    sampler = SlotSampler(8, strategy, seed=0)
    slots = np.arange(6)
    needs = strategy.needs
    sampler.put(slots, slots % 2 if needs.groups else None, slots % 3 if needs.outcomes else None)
    sampler.remove(slots[:1])
    batch = sampler.sample(_SIZE, 0.4)
    if strategy.needs.averages:
        batch.average(np.ones(batch.outcomes.slots.size))
    sampler.update_priorities(batch, np.ones(_SIZE), **_signals(strategy))
    if not (strategy.needs.averages or strategy.needs.signals):
        sampler.update_slots(batch.slots, np.ones(_SIZE), sampler.clock)


def _use_map(key: FittableMap) -> None:
    """A buffer that fits it to its first entries, of the numbers that observations mostly are."""
    shape = (6, 5, 2) if isinstance(key, Downscale) else (3,)
    for dtype in (np.float32, np.float64, np.uint8):
        obs, truth = Field(np.dtype(dtype), shape), Field(np.dtype(np.bool_))
        fields = {
            "obs": obs,
            "action": Field(np.dtype(np.int64)),
            "reward": Field(np.dtype(np.float32)),
            "next_obs": obs,
            "terminated": truth,
            "truncated": truth,
        }
        seen = np.random.default_rng(0).integers(99, size=(10, *shape)).astype(dtype)
        buffer = ReplayBuffer(fields, len(seen), SiblingSample(), key=key.unfitted(), seed=0)
        for step in (*seen, *seen[:2]):  # fitted when it is full
            buffer.add(step, 0, 0.0, step, False, False)
        no, never = np.zeros(len(seen), dtype=np.int64), np.zeros(len(seen), dtype=np.bool_)
        buffer.extend(seen, no, no, seen, never, never)
        buffer.support()

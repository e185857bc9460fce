"""Randomness: one seed becomes named, independent Generators, and uniforms are drawn in blocks.

Every random number of a run comes from one of five streams. They are children of the run's seed,
keyed by name, so what one part of a run consumes never shifts what another part sees: two methods
with the same seed meet the same exploration noise, and evaluating more often changes no training
step.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

# The spawn key of each stream. A number, once given, is never reused or changed: recorded runs
# depend on it. A new stream takes the next free number and leaves the others as they are.
_SPAWN_KEYS = {"env": 0, "explore": 1, "replay": 2, "init": 3, "eval": 4}

SEED_BOUND = 2**31  # environments are seeded with integers below this

_BLOCK = 4096  # doubles drawn at once: 32 KiB, a refill every 128 batches of 32
_STATE_VERSION = 1


@dataclass(frozen=True)
class Streams:
    """The random streams of one run, each owned by the part of the run it is named after."""

    env: np.random.Generator  # seeds the training environment
    explore: np.random.Generator  # epsilon-greedy: two uniforms per environment step
    replay: np.random.Generator  # anchors and siblings
    init: np.random.Generator  # initial network parameters
    eval: np.random.Generator  # seeds the evaluation environment


def streams(seed: SupportsIndex) -> Streams:
    """The named Generators of the run with this seed (a non-negative integer)."""
    if isinstance(seed, bool):
        raise TypeError("seed must be an integer, not a bool")
    entropy = operator.index(seed)
    if entropy < 0:
        raise ValueError(f"seed must not be negative, got {entropy}")
    return Streams(
        **{
            name: np.random.Generator(
                np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(key,)))
            )
            for name, key in _SPAWN_KEYS.items()
        }
    )


def own_generator(seed: Any) -> np.random.Generator:
    """A Generator from whatever NumPy takes for a seed. A Generator is copied: its owner may go on
    drawing from it without a hole in our stream, or a turn in theirs."""
    return np.random.default_rng(copy.deepcopy(seed))


class Uniforms:
    """Uniform doubles in [0, 1), in exactly the order `generator.random()` would give them.

    Asking a Generator for 32 numbers costs several times what the numbers cost. This stream draws
    them in blocks and hands out slices, so a draw of a replay batch pays for a slice only. How the
    stream is cut into takes does not change its values.

    It owns the generator from construction on: the generator runs ahead of what was handed out, and
    a draw from it elsewhere would be a hole in this stream.

    Invariant: `_block` holds the `len(_block)` doubles that follow the bit-generator state
    `_before`, of which the first `_cursor` have been handed out. That is all a checkpoint needs.
    """

    __slots__ = ("_before", "_block", "_cursor", "_generator", "_size")

    def __init__(self, generator: np.random.Generator, block_size: int = _BLOCK) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        self._generator = generator
        self._cursor = 0
        self._allocate(block_size)
        self._refill()

    def take(self, n: int) -> NDArray[np.float64]:
        """The next n uniforms, contiguous; the array is valid until the next take."""
        start = self._cursor
        stop = start + n
        if start <= stop <= self._size:
            view = self._block[start:stop]
            self._cursor = stop
            return view
        return self._take_across(n)

    def reserve(self, n: int) -> tuple[NDArray[np.float64], int]:
        """The same as an array and the place in it where they begin: no slice is made."""
        start = self._cursor
        if type(n) is int and 0 <= n <= self._size - start:
            self._cursor = start + n
            return self._block, start
        return self.take(n), 0

    def _take_across(self, n: int) -> NDArray[np.float64]:
        """A take past the end of the block: its rest, then whole blocks, then part of a new one."""
        if n < 0:
            raise ValueError(f"cannot take {n} uniforms")
        out = np.empty(n)
        left = self._size - self._cursor
        out[:left] = self._block[self._cursor :]
        rest = (n - left) % self._size
        if left < n - rest:
            self._generator.random(out=out[left : n - rest])
        self._refill()
        out[n - rest :] = self._block[:rest]
        self._cursor = rest
        return out

    def _allocate(self, size: int) -> None:
        self._size = size
        self._block = np.empty(size)

    def _refill(self) -> None:
        self._before = self._generator.bit_generator.state
        self._generator.random(out=self._block)
        self._cursor = 0

    def check_valid(self) -> tuple[bool, str]:
        """Whether the block is what the remembered generator state produces, and why not."""
        twin = np.random.Generator(type(self._generator.bit_generator)())
        twin.bit_generator.state = self._before
        if not 0 <= self._cursor <= self._size == len(self._block):
            return False, f"cursor {self._cursor} outside a block of {len(self._block)}"
        if not np.array_equal(twin.random(self._size), self._block):
            return False, "the block does not follow from the generator state before it"
        if _plain(twin.bit_generator.state) != _plain(self._generator.bit_generator.state):
            return False, "the generator was used outside this stream"
        return True, ""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to continue bit for bit: numbers, strings, lists (JSON)."""
        return {
            "version": _STATE_VERSION,
            "bit_generator": _plain(self._before),
            "cursor": self._cursor,
            "block_size": self._size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken. Nothing is changed if the state is refused."""
        if state.get("version") != _STATE_VERSION:
            raise ValueError(
                f"Uniforms state version {state.get('version')!r}, expected {_STATE_VERSION}"
            )
        saved, size, cursor = state["bit_generator"], state["block_size"], state["cursor"]
        own = self._generator.bit_generator.state["bit_generator"]
        if saved["bit_generator"] != own:
            raise ValueError(f"state is of a {saved['bit_generator']}, this stream's is {own}")
        if size < 1 or not 0 <= cursor <= size:
            raise ValueError(f"cursor {cursor} is outside a block of {size}")
        self._generator.bit_generator.state = saved
        self._allocate(size)
        self._refill()
        self._cursor = cursor


def _plain(state: Any) -> Any:
    """A bit-generator state with its arrays as lists (PCG64 has none, MT19937 and others do)."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state

"""What a draw hands out: the drawn columns, opened when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import F32, F64, I64, U8
from sibling_replay.replay.payload import Layout

Columns: TypeAlias = dict[str, tuple[tuple[int, ...], np.dtype[Any], int]]

# Before its transitions a block holds six columns of 8 bytes an entry (weights use half of theirs).
HEADER = ("slots", "anchors", "outcome_slots", "groups", "group_sizes", "weights")
HEADER_BYTES = 8 * len(HEADER)


def batch_columns(layout: Layout, size: int) -> tuple[Columns, int]:
    """Where each column of a batch lies in its block, and the block's bytes."""
    fields, field_bytes = layout.columns(size)
    places: Columns = {}
    for i, name in enumerate(HEADER):
        dtype = np.dtype(np.float32 if name == "weights" else np.int64)
        places[name] = ((size,), dtype, 8 * size * i)
    for name, (shape, dtype, offset) in fields.items():
        places[name] = (shape, dtype, offset + HEADER_BYTES * size)
    return places, field_bytes + HEADER_BYTES * size


class Block:
    """Columns over one piece of memory. A column becomes an array when first asked for."""

    if TYPE_CHECKING:  # the columns every transition has
        obs: NDArray[Any]  # [size, ...]
        action: NDArray[Any]  # [size, ...]
        reward: F32  # [size]
        next_obs: NDArray[Any]  # [size, ...]
        terminated: NDArray[np.bool_]  # [size]
        truncated: NDArray[np.bool_]  # [size]

    def __init__(self, block: U8, columns: Columns, size: int) -> None:
        self._block = block
        self._columns = columns
        self.size = size

    def __getattr__(self, name: str) -> NDArray[Any]:
        try:
            shape, dtype, offset = self.__dict__["_columns"][name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no column {name!r}; "
                f"it has {', '.join(self.__dict__.get('_columns', ()))}"
            ) from None
        array: NDArray[Any] = np.ndarray(shape, dtype, self._block, offset)
        self.__dict__[name] = array
        return array

    def __len__(self) -> int:
        return self.size

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]


class Outcomes(Block):
    """The outcomes whose mean target a batch is trained on, all batch entries' one after the other.

    Entry b owns outcomes `starts[b]` up to `starts[b + 1]`; their shares add up to one.
    """

    def __init__(
        self, block: U8, columns: Columns, size: int, slots: I64, shares: F64, starts: I64
    ) -> None:
        super().__init__(block, columns, size)
        self.slots = slots  # [size]: a slot that holds the outcome
        self.shares = shares  # [size]
        self.starts = starts  # [batch + 1]


class Batch(Block):
    """A drawn minibatch: the transitions, their weights, and where they came from."""

    if TYPE_CHECKING:
        slots: I64  # [size]: the slot whose observation and action are trained
        anchors: I64  # [size]: the slot that priority drew
        outcome_slots: I64  # [size]: the slot whose outcome is trained toward
        groups: I64  # [size]: the anchor's group, -1 if the buffer keeps no groups
        group_sizes: I64  # [size]: members of that group when drawn
        weights: F32  # [size]: importance weights

    def __init__(
        self, block: U8, columns: Columns, size: int, added: int, source: object
    ) -> None:
        self._block = block
        self._columns = columns
        self.size = size
        self.added = added  # entries written when this was drawn: dates every slot in it
        self.source = source  # the memory it was drawn from
        self._outcomes: Outcomes | None = None

    @property
    def outcomes(self) -> Batch | Outcomes:
        """What to compute targets from: `reward`, `next_obs`, `terminated`, `truncated`.

        One row an entry, except for sibling averages, where an entry has several. Whatever the
        strategy, `average(targets of these rows)` is the target of each entry.
        """
        return self if self._outcomes is None else self._outcomes

    def set_outcomes(self, outcomes: Outcomes) -> None:
        """Make the targets means over several outcomes an entry."""
        self._outcomes = outcomes

    def average(self, targets: Any) -> Any:
        """The target of each entry from the targets of the rows of `outcomes` (eq. 10).

        Takes what `outcomes` gave one value a row for: a NumPy array, or anything with NumPy's
        arithmetic and `index_add`, such as a torch tensor.
        """
        if self._outcomes is None:
            return targets
        found = self._outcomes
        if len(targets) != found.size:
            raise ValueError(f"expected {found.size} targets, one an outcome, got {len(targets)}")
        if isinstance(targets, np.ndarray):
            return np.add.reduceat(found.shares * targets, found.starts[:-1])
        shares = targets.new_tensor(found.shares)
        owner = np.repeat(np.arange(self.size), np.diff(found.starts))
        return targets.new_zeros(self.size).index_add(
            0, targets.new_tensor(owner, dtype=None).long(), shares * targets
        )

"""What a draw hands out: the drawn columns, opened when they are asked for."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import F32, F64, I64, U8
from sibling_replay.replay.payload import Field, Layout

Columns: TypeAlias = dict[str, tuple[tuple[int, ...], np.dtype[Any], int]]

# A batch's block begins with the number of entries added when it was drawn, which dates every slot
# in it. Then come the columns of HEADER, 8 bytes an entry (weights use half of theirs), then the
# fields.
HEAD_BYTES = 8
COLUMN_BYTES = 8
BLOCK = "_block"

HEADER = ("slots", "anchors", "outcome_slots", "groups", "group_sizes", "weights")

# Columns opened eagerly, where present: every learner reads them. Others are opened on access.
_OPENED = (
    "obs", "action", "reward", "next_obs", "terminated", "truncated", "weights", "slots",
)  # fmt: skip


class Plan:
    """The form of all blocks of one size: a record type, so that a column is a field of it.

    The field BLOCK covers the whole record: it is what the kernels are given.
    """

    __slots__ = ("dtype", "opened", "parts", "shape", "size", "source")

    def __init__(
        self,
        columns: Columns,
        size: int,
        size_bytes: int,
        source: object = None,
        parts: dict[str, Field] | None = None,
    ) -> None:
        self.size = size
        self.parts = parts or {}  # the columns of several parts, which are opened when asked for
        self.shape = (size,)
        # The memory the blocks are drawn from, weakly: it keeps its plans, and a cycle would hold
        # gigabytes until the garbage collector comes by. One object has one such reference.
        self.source = None if source is None else weakref.ref(source)
        self.opened = self._opened(columns)
        places = {BLOCK: ((size_bytes,), np.dtype(np.uint8), 0), **columns}
        self.dtype = np.dtype(
            {
                "names": list(places),
                "formats": [(dtype, shape) for shape, dtype, _ in places.values()],
                "offsets": [offset for _, _, offset in places.values()],
                "itemsize": max(size_bytes, 1),
            }
        )

    def _opened(self, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in _OPENED if name in columns and name not in self.parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan:
        """A copied batch is still of its buffer."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A batch sent to another process is its columns: the buffer does not go with it."""
        return _plan_of, (self.dtype, self.size, self.parts)


def _plan_of(dtype: np.dtype[Any], size: int, parts: dict[str, Field] | None = None) -> Plan:
    plan = Plan({}, size, 0, parts=parts)
    plan.dtype = dtype
    plan.opened = plan._opened(dtype.names or ())
    return plan


def batch_plan(layout: Layout, size: int, source: object) -> Plan:
    """The plan of a batch: date, header columns, fields."""
    columns: Columns = {"added": ((), np.dtype(np.int64), 0)}
    for i, name in enumerate(HEADER):
        dtype = np.dtype(np.float32 if name == "weights" else np.int64)
        columns[name] = ((size,), dtype, HEAD_BYTES + COLUMN_BYTES * size * i)
    start = HEAD_BYTES + COLUMN_BYTES * size * len(HEADER)
    fields, field_bytes = layout.columns(size)
    for name, (shape, dtype, offset) in fields.items():
        columns[name] = (shape, dtype, offset + start)
    return Plan(columns, size, start + field_bytes, source, layout.parts)


def _column(name: str) -> Any:
    """A property that gives a column as an array over the block, for one field access."""
    return property(lambda self: self.record[name], doc=f"The column {name!r}.")


def _parts_or_column(name: str) -> Any:
    """The same for a column that may be of several parts: then a mapping or tuple of arrays."""
    return property(lambda self: self._opened(name), doc=f"The column {name!r}.")


class Block:
    """Columns over one piece of memory."""

    __slots__ = ("block", "plan", "record")
    _own: ClassVar[frozenset[str]] = frozenset({"block"})  # made anew from the record

    obs: Any = _parts_or_column("obs")  # [size, ...]
    action: NDArray[Any] = _column("action")  # [size, ...]
    reward: F32 = _column("reward")  # [size]
    next_obs: Any = _parts_or_column("next_obs")  # [size, ...]
    terminated: NDArray[np.bool_] = _column("terminated")  # [size]
    truncated: NDArray[np.bool_] = _column("truncated")  # [size]

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.record: NDArray[Any] = np.empty((), plan.dtype)
        self.block: U8 = self.record[BLOCK]  # all of it, as bytes

    def __getattr__(self, name: str) -> Any:
        """Columns of the user's own."""
        if name in Block.__slots__ or name not in self.columns:
            raise AttributeError(f"{type(self).__name__} has no column {name!r}")
        return self._opened(name)

    def _opened(self, name: str) -> Any:
        column, parts = self.record[name], self.plan.parts.get(name)
        return column if parts is None else parts.opened(column)

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`: all but the bytes, which are the record's own."""
        names = {name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())}
        return {name: getattr(self, name) for name in names - self._own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.block = self.record[BLOCK]

    @property
    def size(self) -> int:
        return self.plan.size

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns there are."""
        names = self.plan.dtype.names
        assert names is not None
        return tuple(name for name in names if name not in (BLOCK, "added"))

    def to_torch(self, device: Any = None) -> dict[str, Any]:
        """A torch tensor of every column, by name, on a device (the default one if None).

        Copies: the memory of a batch is used again.
        """
        import torch

        def copied(column: Any) -> Any:
            if isinstance(column, dict):
                return {name: copied(part) for name, part in column.items()}
            if isinstance(column, tuple):
                return tuple(map(copied, column))
            return torch.tensor(column, device=device)

        return {name: copied(getattr(self, name)) for name in self._to_copy()}

    def _to_copy(self) -> tuple[str, ...]:
        return self.columns

    def __len__(self) -> int:
        return self.plan.size

    def __repr__(self) -> str:
        """How many entries it has, and its columns."""
        return f"<{type(self).__name__}: {self.size} entries of {', '.join(self.columns)}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.columns]


class Outcomes(Block):
    """The outcomes whose mean target a batch is trained on, all batch entries' one after the other.

    Entry b owns outcomes `starts[b]` up to `starts[b + 1]`; their shares add up to one.

    Examples:
        >>> buffer = ReplayBuffer.for_env(gym.make("FrozenLake-v1"), 10, SiblingAverage(), seed=0)
        >>> buffer.extend([0, 0], [1, 1], [0.0, 1.0], [4, 4], [False, False], [False, False])
        >>> batch = buffer.sample(1)
        >>> batch.average(batch.outcomes.reward).tolist()
        [0.5]
    """

    __slots__ = ("_shares", "_starts", "averaged", "remembered", "residuals", "slots")

    def __init__(
        self,
        plan: Plan,
        slots: I64,
        shares: F64,
        starts: I64,
        remembered: tuple[I64, I64] | None = None,
        residuals: bool = False,
    ) -> None:
        super().__init__(plan)
        # Whether means are of targets less values: `obs` and `action` are then there as well.
        self.residuals = residuals
        self.slots = slots  # [size]: a slot that holds the outcome
        self._shares = shares
        self._starts = starts
        # What the refresh of the strategy needs: copies, for columns are the user's to write on.
        self.remembered = remembered
        # Whether a mean was taken: by `Batch.average`, or elsewhere from shares or starts.
        self.averaged = False

    @property
    def shares(self) -> F64:  # [size]
        self.averaged = True
        return self._shares

    @property
    def starts(self) -> I64:  # [batch + 1]
        self.averaged = True
        return self._starts

    def refuse_unaveraged(self, strategy: str) -> None:
        """Raise if no mean was taken: TD errors cannot be those of a strategy that averages."""
        if not self.averaged:
            raise ValueError(
                f"no mean was taken of this batch's outcomes, so these TD errors cannot be those "
                f"of {strategy}: compute targets from the rows of `batch.outcomes` (not from "
                f"`batch.reward` and `batch.next_obs`) and pass them through `batch.average`. "
                f"No priority was changed."
            )

    def _to_copy(self) -> tuple[str, ...]:
        return (*self.columns, "slots", "shares", "starts")

    def __getstate__(self) -> dict[str, Any]:
        """A copy may be averaged in another process, and its errors refresh the original here."""
        self.averaged = True
        return super().__getstate__()


class Batch(Block):
    """A drawn minibatch: the transitions, their weights, and where they came from.

    Its memory is used again when nobody holds the batch, a column or a view of one any more. Write
    into the columns as you like, but do not give them another `shape` or `dtype` in place.

    Examples:
        >>> buffer = ReplayBuffer.for_env(gym.make("FrozenLake-v1"), 10, SiblingSample(), seed=0)
        >>> buffer.add(0, 1, 0.5, 4, False, False)
        >>> buffer.sample(2).reward.tolist()
        [0.5, 0.5]
    """

    __slots__ = ("_outcomes", "drawn", *_OPENED)
    _own = frozenset({"block", *_OPENED})

    obs: Any  # [size, ...]; a mapping or tuple of such, where there are several parts
    action: NDArray[Any]  # [size, ...]
    reward: F32  # [size]
    next_obs: Any  # as obs
    terminated: NDArray[np.bool_]  # [size]
    truncated: NDArray[np.bool_]  # [size]
    weights: F32  # [size]: importance weights
    slots: I64  # [size]: the slot whose observation and action are trained
    anchors: I64 = _column("anchors")  # [size]: the slot that priority drew
    outcome_slots: I64 = _column("outcome_slots")  # [size]: whose outcome is trained toward
    groups: I64 = _column("groups")  # [size]: the anchor's group, -1 if the buffer keeps no groups
    group_sizes: I64 = _column("group_sizes")  # [size]: members of that group when drawn

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._outcomes: Outcomes | None = None
        self.drawn: Any = None  # what a strategy in NumPy said, for its refresh
        self._open_columns()

    def _open_columns(self) -> None:
        for name in self.plan.opened:
            object.__setattr__(self, name, self.record[name])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._open_columns()

    def __setattr__(self, name: str, value: Any) -> None:
        """Whoever draws into this memory next must find the columns it began with."""
        if name in _OPENED:
            raise AttributeError(f"column {name!r} of a batch cannot be replaced: write into it")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a batch cannot be deleted")

    @property
    def added(self) -> int:
        """How many entries had ever been added when this was drawn."""
        return int(self.record["added"])

    @property
    def outcomes(self) -> Batch | Outcomes:
        """What to compute targets from: `reward`, `next_obs`, `terminated`, `truncated`, and
        `discount` if there is such a field.

        One row an entry, except for sibling averages, where an entry has several. Whatever the
        strategy, `average(targets of these rows)` is the target of each entry.
        """
        return self if self._outcomes is None else self._outcomes

    @property
    def shift(self) -> F64 | None:
        """What the strategy adds to the target of each entry in the loss, if it does. The TD errors
        for `update_priorities` are those without it."""
        return None if self.drawn is None else self.drawn.shift

    def set_draw(self, drawn: Any) -> None:
        """Remember what a strategy in NumPy said; None for a batch it did not draw."""
        self.drawn = drawn

    def set_outcomes(self, outcomes: Outcomes | None) -> None:
        """Make the targets means over several outcomes an entry, or (None) of its own outcome."""
        self._outcomes = outcomes

    @property
    def residuals(self) -> bool:
        """Whether `average` also needs values: those of the entries, and those of the observations
        and actions of `outcomes`."""
        return self._outcomes is not None and self._outcomes.residuals

    def average(self, targets: Any, values: Any = None, own_values: Any = None) -> Any:
        """The target of each entry from the targets of the rows of `outcomes` (eq. 12).

        Takes one value a row of `outcomes`: an array, or a torch tensor. Where residuals are
        averaged, `values` of the entries and `own_values` of the rows of `outcomes` go along: the
        target is the entry's value plus the mean of what the targets are above theirs.
        """
        if self._outcomes is None:
            return targets
        found = self._outcomes
        for what, given, size in (
            ("targets", targets, found.size),
            ("values", values, self.size),
            ("own_values", own_values, found.size),
        ):
            if given is not None and tuple(np.shape(given)) != (size,):
                raise ValueError(
                    f"{what} must be {size} numbers in one dimension, got shape "
                    f"{tuple(np.shape(given))}"
                )
        if found.residuals:
            if values is None or own_values is None:
                raise ValueError(
                    "this batch averages residuals: give `average` the values of batch.obs and "
                    "batch.action as well, and those of batch.outcomes.obs and .action"
                )
            return values + self._mean(targets - own_values, found)
        return self._mean(targets, found)

    def _mean(self, targets: Any, found: Outcomes) -> Any:
        if not hasattr(targets, "new_tensor"):
            return np.add.reduceat(found.shares * targets, found.starts[:-1])
        targets = targets if targets.is_floating_point() else targets.float()
        shares = targets.new_tensor(found.shares)
        owner = np.repeat(np.arange(self.size), np.diff(found.starts))
        return targets.new_zeros(self.size).index_add(
            0, targets.new_tensor(owner, dtype=None).long(), shares * targets
        )

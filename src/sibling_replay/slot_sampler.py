"""Replay for storage that somebody else owns: which slots to train on, and with what weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.checkpoint import SCHEMA_VERSION
from sibling_replay.replay.arrays import F64, I64, U8
from sibling_replay.replay.memory import MOST_ADDED, Memory
from sibling_replay.replay.slots import SlotMemory, put_rows, remove_slots
from sibling_replay.rng import Uniforms, own_generator
from sibling_replay.sampling import Sampling
from sibling_replay.staging import as_array, td_errors_as_array, whole_number
from sibling_replay.strategies import InvalidTDErrors, Law, Strategy
from sibling_replay.strategies.recipe import NOTHING
from sibling_replay.strategies.replay_by import kept_for

_INTEGER_BYTES = 8


class SlotSampler(Sampling):
    """Masses, groups and draws over slots of a storage that is not ours.

    The host tells what it wrote where (`put`); a draw (`sample`) says which slots to read and
    what their weights are; TD errors come back with the draw they belong to (`update_priorities`).
    Slots are filled, refilled and emptied in any order.

    capacity: slots of the host's storage.
    strategy: one of Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel, or your own.
    key_bytes: bytes of an entry's key, 0 for no groups. By default 8, an integer, for the sibling
        strategies and 0 for the others. `key_rows` makes keys of arrays. Siblings must share their
        action, which the sampler does not see: make it part of the key.
    outcome_bytes: bytes of an entry's outcome, for SiblingAverage over whole groups. It then lists
        every distinct outcome of a group once, with its share. By default each entry is an outcome
        of its own: the same averages, at a cost that grows with the group.
    seed: of the sampler's own random stream. A Generator is copied as it stands.

    In a batch, `slots` have the observations and actions to train, `outcome_slots` the outcomes to
    train them toward; these differ for SiblingModel only. For averages `batch.outcomes` has the
    `slots` of the outcomes, and `batch.average` takes their means.
    """

    def __init__(
        self,
        capacity: int,
        strategy: Strategy,
        *,
        key_bytes: int | None = None,
        outcome_bytes: int = 0,
        seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        super().__init__(capacity, strategy)
        if key_bytes is None:
            key_bytes = _INTEGER_BYTES if strategy.needs.groups else 0
        self.key_bytes = whole_number("key_bytes", key_bytes)
        self.outcome_bytes = whole_number("outcome_bytes", outcome_bytes)
        if self.key_bytes < 0 or self.outcome_bytes < 0:
            raise ValueError("key_bytes and outcome_bytes must not be negative")
        if self.key_bytes == 0 and strategy.needs.groups:
            raise ValueError(f"{strategy.name} needs groups: key_bytes must be positive")
        if self.outcome_bytes and not strategy.needs.outcomes:
            raise ValueError(f"{strategy.name} does not count outcomes")
        # Without outcomes of the host's, an entry's slot is its outcome.
        self._own_outcomes = strategy.needs.outcomes and self.outcome_bytes == 0
        self._use(self._new_memory(), Uniforms(own_generator(seed)))

    def _new_memory(self) -> Memory:
        return SlotMemory(
            self.capacity,
            self.key_bytes,
            _INTEGER_BYTES if self._own_outcomes else self.outcome_bytes,
            **kept_for(self.strategy),
        )

    # ------------------------------------------------------------------ write

    def put(
        self,
        slots: ArrayLike,
        keys: ArrayLike | None = None,
        outcomes: ArrayLike | None = None,
        *,
        only_changed: bool = False,
    ) -> None:
        """The host has written these slots, in this order. New entries get the largest priority.

        Entries with equal keys are siblings: one integer an entry, or one row of numbers whose
        bytes are compared, never merged by a hash collision.

        only_changed: leave alone the slots that hold an entry with the same key and outcome.
        """
        places = self._slots(slots)
        rows = self._rows(places, keys, outcomes)
        if only_changed:
            changed = self._differ(places, rows)
            places, rows = places[changed], rows[changed]
        put_rows(self._memory.handle, places, rows, *self._memory.keeps)

    def changed(
        self, slots: ArrayLike, keys: ArrayLike | None = None, outcomes: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Which of these slots are empty, or hold an entry with another key or outcome."""
        places = self._slots(slots)
        return self._differ(places, self._rows(places, keys, outcomes))

    def _rows(
        self, places: I64, keys: ArrayLike | None, outcomes: ArrayLike | None
    ) -> NDArray[np.uint32]:
        """Entries as the memory stores them."""
        rows = np.zeros((places.size, self._memory.layout.row_words), dtype=np.uint32)
        cells = rows.view(np.uint8)
        split, end = self.key_bytes, self.key_bytes + self.outcome_bytes
        _write_cells("keys", keys, cells[:, :split])
        _write_cells("outcomes", outcomes, cells[:, split:end])
        if self._own_outcomes:
            _write_cells("slots", places, cells[:, split : split + _INTEGER_BYTES])
        return rows

    def _differ(self, places: I64, rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        stored: NDArray[np.bool_] = (self._memory.rows[places] == rows).all(axis=1)
        return ~(stored & self.holds(places))

    def remove(self, slots: ArrayLike) -> None:
        """The host has emptied these slots."""
        places = self._slots(slots)
        empty = places[~self.holds(places)]
        if empty.size:
            raise ValueError(f"slot {empty[0]} holds no entry")
        remove_slots(self._memory.handle, places, *self._memory.keeps)
        self._filled = False

    @property
    def clock(self) -> int:
        """Advances with every slot written or emptied: the date of what is read now."""
        return self._memory.added

    def update_slots(self, slots: ArrayLike, td_errors: ArrayLike, date: int) -> None:
        """Refresh slots with TD errors of either sign, for a host that hands back parts of a draw.

        date: the `clock` when the slots were read. Entries overwritten since are dropped and
            counted, as in `update_priorities`. Of a slot given twice the last error stays.
        """
        if self.strategy.needs.averages or self.strategy.needs.signals:
            raise TypeError(f"{self.strategy.name} refreshes whole batches: use update_priorities")
        places = self._slots(slots)
        errors = td_errors_as_array(td_errors, places.shape)
        invalid = self._replay.refresh_slots(self._memory, places, errors, date)
        if invalid >= 0:
            raise InvalidTDErrors(
                f"TD error {invalid} is {errors[invalid]}: no priority was changed"
            )
        if invalid < -1:
            raise ValueError(f"slot {places[-2 - invalid]} holds no entry")

    def clear(self) -> None:
        """Forget everything but where the random stream stands."""
        self._use(self._new_memory(), self._uniforms)

    def _slots(self, slots: ArrayLike) -> I64:
        """Slots as the kernels take them, or an error that names what is wrong."""
        given = as_array("slots", slots)
        if given.dtype.kind not in "iu" or given.ndim > 1:
            raise TypeError(
                f"slots must be a whole number or a list of them, not {given.dtype} of shape "
                f"{given.shape}"
            )
        places = given.reshape(-1)
        if places.size and not 0 <= places.min() <= places.max() < self.capacity:
            outside = places[(places < 0) | (places >= self.capacity)]
            raise ValueError(f"slot {outside[0]} is not one of {self.capacity}")
        return np.ascontiguousarray(places, dtype=np.int64)

    # ------------------------------------------------------------------- read

    @property
    def live_slots(self) -> I64:
        """The slots that hold an entry, in order."""
        return self._memory.live_slots

    def holds(self, slots: ArrayLike) -> NDArray[np.bool_]:
        """Which of these slots hold an entry."""
        filled: NDArray[np.bool_] = self._memory.stamps[self._slots(slots)] != MOST_ADDED
        return filled

    @property
    def masses(self) -> F64:
        """priority^alpha of every slot (a copy); 0 where it is empty."""
        return np.array(self._memory.index.tree[: self.capacity])

    @property
    def groups(self) -> I64:
        """The group of every slot; -1 where it is empty or no groups are kept."""
        if not self._memory.grouped:
            return np.full(self.capacity, -1, dtype=np.int64)
        return self._memory.index.items[0, :].astype(np.int64)

    def probabilities(self, batch_size: int = 1) -> Law:
        """The exact probabilities of a row of the next batch over all slots, in O(capacity)."""
        live = self.live_slots
        whole_law = []
        for part in super().probabilities(batch_size):
            probabilities = np.zeros(self.capacity)
            probabilities[live] = part
            whole_law.append(probabilities)
        return Law(*whole_law)

    def check_valid(self) -> tuple[bool, str]:
        ok, why = super().check_valid()
        recipe = self.strategy.recipe
        unrefreshed = recipe is not None and recipe.refreshed == NOTHING
        if ok and unrefreshed and self.masses.sum() != len(self):
            return False, f"{self.strategy.name} has masses other than one"
        return ok, why

    # ------------------------------------------------------------------ state

    def _header(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "capacity": self.capacity,
            "strategy": self.strategy.name,
            "options": self.strategy.options(),
            "key_bytes": self.key_bytes,
            "outcome_bytes": self.outcome_bytes,
            "uniforms": self._uniforms.state_dict(),
        }

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`: a copy makes arrays of its own."""
        return {
            "arguments": (self.capacity, self.strategy),
            "bytes": {"key_bytes": self.key_bytes, "outcome_bytes": self.outcome_bytes},
            "state": self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"], **state["bytes"])  # type: ignore[misc]
        self.load_state_dict(state["state"])


def key_rows(*columns: ArrayLike) -> U8:
    """One row of bytes an entry, from arrays with an entry in each row: observations, actions, ...

    Equal values are equal bytes: -0.0 is 0.0, and every kind of true is one.
    """
    parts: list[U8] = []
    for column in columns:
        array = as_array("keys", column)
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise TypeError(
                f"keys are made of arrays of numbers with an entry in each row, not of "
                f"{array.dtype} of shape {array.shape}"
            )
        if parts and len(array) != len(parts[0]):
            raise ValueError(f"expected {len(parts[0])} entries in each column, got {len(array)}")
        parts.append(_cells_of(array))
    if not parts:
        raise TypeError("keys are made of at least one column")
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _cells_of(array: NDArray[Any]) -> U8:
    """The bytes of each row of an array of numbers. Equal numbers have equal bytes."""
    if array.dtype.itemsize > 8:  # some of its bytes belong to no number and hold anything
        raise TypeError(f"numbers of at most 64 bits are needed, not {array.dtype}: cast them")
    if array.dtype.kind == "f":
        array = array + array.dtype.type(0)
    elif array.dtype.kind == "b":
        array = array.view(np.uint8) != 0
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    count = len(array)
    width = array.dtype.itemsize * (array.size // count if count else 0)
    return np.ascontiguousarray(array).view(np.uint8).reshape(count, width)


def _write_cells(name: str, values: ArrayLike | None, cells: U8) -> None:
    """Bytes of keys or outcomes into their place in the rows, or an error that names them."""
    count, width = cells.shape
    if (values is None) != (width == 0):
        raise TypeError(
            f"{name} were given, but this sampler keeps none"
            if width == 0
            else f"{name} are needed: {width} bytes an entry"
        )
    if values is None:
        return
    array = as_array(name, values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, not {array.dtype}")
    array = array.reshape(1) if array.ndim == 0 else array
    if len(array) != count:
        raise ValueError(f"{name}: expected one for each of {count} slots, got {len(array)}")
    if array.ndim == 1 and array.dtype.kind in "iu":  # one integer an entry, of whatever width
        if array.dtype.kind == "u" and count and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name}: {array.max()} is out of range for int64")
        array = array.astype(np.int64)
    found = _cells_of(array)
    if count and found.shape[1] != width:
        raise ValueError(f"{name}: expected {width} bytes an entry, got {found.shape[1]}")
    if count:
        cells[...] = found

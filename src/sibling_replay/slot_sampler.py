"""Replay for storage that somebody else owns: which slots to train on, and with what weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.cells import cells_of
from sibling_replay.checkpoint import SCHEMA_VERSION
from sibling_replay.draw_statistics import DrawStatistics
from sibling_replay.replay.arrays import F64, I64, U8
from sibling_replay.replay.memory import MOST_ADDED, Memory
from sibling_replay.replay.memory_view import ADDED
from sibling_replay.replay.regroup import group_anew
from sibling_replay.replay.slots import SlotMemory, layout_of_keys, put_rows, remove_slots
from sibling_replay.rng import Uniforms, own_generator
from sibling_replay.staging import as_array, td_errors_as_array
from sibling_replay.strategies import Draw, InvalidTDErrors, Law, Strategy
from sibling_replay.strategies.recipe import NOTHING
from sibling_replay.strategies.replay_by import kept_for
from sibling_replay.strategy_sampler import StrategySampler

_INTEGER_BYTES = 8


class OtherWidth(ValueError):
    """Keys or outcomes that take more or fewer bytes than the stored ones."""


class SlotSampler(StrategySampler):
    """Masses, groups and draws over slots of a storage that is not ours.

    The host tells what it wrote where (`put`); a draw (`sample`) says which slots to read and
    what their weights are; TD errors come back with the draw they belong to (`update_priorities`).
    Slots are filled, refilled and emptied in any order.

    capacity: slots of the host's storage.
    strategy: one of Uniform, Prioritized, SiblingSample, SiblingAverage, SiblingModel, or your own.
    seed: of the sampler's own random stream. A Generator is copied as it stands.

    Keys and outcomes are numbers: an array with an entry in each row, or a tuple of such arrays.
    The first `put` decides whether there are any, and their dtypes and shapes.

    In a batch, `slots` have the observations and actions to train, `outcome_slots` the outcomes to
    train them toward; these differ for SiblingModel only. For averages `batch.outcomes` has the
    `slots` of the outcomes, and `batch.average` takes their means.

    Examples:
        >>> sampler = SlotSampler(4, SiblingSample(alpha=0.6), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 8, 8])  # two groups
        >>> sampler.update_slots([0, 1, 2, 3], [0.0, 3.0, 1.0, 1.0], sampler.clock)
        >>> batch = sampler.sample(32, beta=0.4)
        >>> sampler.update_priorities(batch, np.ones(32))
        >>> len(sampler)
        4
    """

    def __init__(
        self,
        capacity: int,
        strategy: Strategy,
        *,
        seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        super().__init__(capacity, strategy)
        # Bytes of an entry's key and outcome; what stands here counts once something was put.
        self._widths = (_INTEGER_BYTES if strategy.needs.groups else 0, 0)
        self._words = ("", "")
        self._cleared = 0  # what the clock showed when it was cleared last
        self._use(self._new_memory(), Uniforms(own_generator(seed)))

    def _new_memory(self) -> Memory:
        key_bytes, outcome_bytes = self._widths
        return SlotMemory(
            self.capacity,
            key_bytes,
            self._stored_outcome(outcome_bytes),
            **kept_for(self.strategy),
        )

    def _stored_outcome(self, outcome_bytes: int) -> int:
        """Bytes of a stored outcome: an entry's slot, where the host gives none."""
        own = self.strategy.needs.outcomes and outcome_bytes == 0
        return _INTEGER_BYTES if own else outcome_bytes

    # ------------------------------------------------------------------ write

    def put(
        self,
        slots: ArrayLike,
        keys: ArrayLike | tuple[ArrayLike, ...] | None = None,
        outcomes: ArrayLike | tuple[ArrayLike, ...] | None = None,
        *,
        only_changed: bool = False,
    ) -> None:
        """The host has written these slots, in this order. New entries get the priority that the
        strategy's `initial` says.

        keys: entries with equal keys are siblings; values are compared whole, never merged by a
            hash collision. Siblings must share their action, which the sampler does not see: give
            it along, as in `put(slots, (keys, actions))`. The sibling strategies need keys.
        outcomes: for SiblingAverage over whole groups. It then lists every distinct outcome of a
            group once, with its share. Without them each entry is an outcome of its own: the same
            averages, at a cost that grows with the group.
        only_changed: leave alone the slots that hold an entry with the same key and outcome.
        """
        places = self._slots(slots)
        cells = self._cells(places.size, keys, outcomes)
        if places.size == 0:
            return
        if not self._knows_widths:
            self._learn_widths(cells[0].shape[1], cells[1].shape[1])
        rows = self._rows(places, *cells)
        if only_changed:
            last = places.size - 1 - np.unique(places[::-1], return_index=True)[1]
            last.sort()
            places, rows = places[last], rows[last]
            changed = self._differ(places, rows)
            places, rows = places[changed], rows[changed]
        put_rows(self._memory.handle, places, rows, *self._memory.keeps)

    def check_keys(self, keys: ArrayLike | tuple[ArrayLike, ...] | None, count: int) -> None:
        """Raise if `put` would refuse these keys of so many slots; nothing changes."""
        self._cells(count, keys, None)

    def rekey(self, keys: ArrayLike | tuple[ArrayLike, ...]) -> None:
        """Group everything anew, by other keys: those of `live_slots`, in their order.

        Masses, outcomes, a strategy's columns, the clock and the random stream stay as they are,
        and draws from before can still be refreshed (see `ReplayBuffer.rekey`).
        """
        live = self.live_slots
        cells = cells_of("keys", keys, live.size)
        if not self._memory.grouped or cells.shape[1] == 0:
            raise ValueError("there is nothing to group anew by: neither keys nor groups may lack")
        if not self._knows_widths:
            return
        before, widths = self._widths, (cells.shape[1], self._widths[1])
        outcomes = self._memory.rows[live].view(np.uint8)[:, before[0] :]
        self._widths = widths
        memory = self._new_memory()
        rows = memory.rows.view(np.uint8).reshape(self.capacity, -1)
        rows[live, : widths[0]] = cells
        stored = memory.layout.outcome_bytes - widths[0]
        rows[live, widths[0] : widths[0] + stored] = outcomes[:, :stored]
        group_anew(self._memory, memory)
        self._use_regrouped(memory)

    def describe_key(
        self, key: str, reason: str = "", *, mapped: bool = False, awaited: bool = False
    ) -> None:
        """What makes siblings, and why that: for `support` and for warnings, and in no state.

        mapped: keys may be too coarse, so a warning tells if nearly all entries are one group.
        awaited: these are not the keys to judge by: no warning.
        """
        self._words = key, reason
        warn = self.strategy.needs.groups and not awaited
        told = self._statistics.told  # once, however often the key changes
        self._statistics = DrawStatistics(self.strategy.name, warn=warn, mapped=mapped)
        self._statistics.told = told

    def _words_of_key(self) -> tuple[str, str]:
        return self._words

    def changed(
        self,
        slots: ArrayLike,
        keys: ArrayLike | tuple[ArrayLike, ...] | None = None,
        outcomes: ArrayLike | tuple[ArrayLike, ...] | None = None,
    ) -> NDArray[np.bool_]:
        """Which of these slots are empty, or hold an entry with another key or outcome."""
        places = self._slots(slots)
        cells = self._cells(places.size, keys, outcomes)
        if places.size == 0 or not self._knows_widths:
            return np.ones(places.size, dtype=np.bool_)
        return self._differ(places, self._rows(places, *cells))

    @property
    def _knows_widths(self) -> bool:
        return self.written > 0

    def _learn_widths(self, key_bytes: int, outcome_bytes: int) -> None:
        """Of the first entries: all that follow must have the same."""
        if (key_bytes, outcome_bytes) != self._widths:
            self._widths = (key_bytes, outcome_bytes)
            self._start_over()

    def _cells(self, count: int, keys: Any, outcomes: Any) -> tuple[U8, U8]:
        """Keys and outcomes as rows of bytes, or an error that says what is wrong with them."""
        strategy = self.strategy.name
        if keys is None and self.strategy.needs.groups:
            raise TypeError(f"keys are needed: {strategy} draws from groups")
        if outcomes is not None and not self.strategy.needs.outcomes:
            raise TypeError(f"outcomes were given, but {strategy} does not count them")
        cells = cells_of("keys", keys, count), cells_of("outcomes", outcomes, count)
        if count and self._knows_widths:
            for name, found, width in zip(("keys", "outcomes"), cells, self._widths, strict=True):
                if found.shape[1] != width:
                    raise OtherWidth(
                        f"{name}: expected {width} bytes an entry, got {found.shape[1]}; all "
                        f"entries must have what the first have, of one dtype and shape"
                    )
        return cells

    def _rows(self, places: I64, keys: U8, outcomes: U8) -> NDArray[np.uint32]:
        """Entries as the memory stores them."""
        rows = np.zeros((places.size, self._memory.layout.row_words), dtype=np.uint32)
        if self.strategy.needs.outcomes and outcomes.shape[1] == 0:
            outcomes = cells_of("slots", places, places.size)
        cells, split = rows.view(np.uint8), keys.shape[1]
        cells[:, :split] = keys
        cells[:, split : split + outcomes.shape[1]] = outcomes
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

    @property
    def written(self) -> int:
        """Slots written or emptied since it was new or cleared."""
        return self.clock - self._cleared

    def update_slots(self, slots: ArrayLike, td_errors: ArrayLike, date: int) -> None:
        """Refresh slots with TD errors of either sign, for a host that hands back parts of a draw.

        date: the `clock` when the slots were read. Entries overwritten since are dropped and
            counted, as in `update_priorities`. Of a slot given twice the last error stays.
        """
        places = self._slots(slots)
        alone = Draw(
            slots=places, anchors=places, outcome_slots=places, weights=np.ones(places.size)
        )
        self.update_rows(alone, td_errors, date)

    def update_rows(self, draw: Draw, td_errors: ArrayLike, date: int) -> None:
        """The same for rows of a draw, with all that a strategy's refresh may ask of them."""
        if self.strategy.needs.averages or self.strategy.needs.signals:
            raise TypeError(f"{self.strategy.name} refreshes whole batches: use update_priorities")
        places = self._slots(draw.slots)
        errors = td_errors_as_array(td_errors, places.shape)
        if date > self.clock:
            raise ValueError(f"date {date} is to come: the clock shows {self.clock}")
        invalid = self._replay.refresh_rows(self._memory, draw, errors, date)
        if invalid >= 0:
            raise InvalidTDErrors(
                f"TD error {invalid} is {errors[invalid]}: no priority was changed"
            )
        if invalid < -1:
            raise ValueError(f"slot {places[-2 - invalid]} holds no entry")

    def clear(self) -> None:
        """Forget everything but where the random stream and the clock stand."""
        self._cleared = self.clock
        self._start_over()

    def _start_over(self) -> None:
        """An empty memory, in which what was drawn before is out of date."""
        memory = self._new_memory()
        memory.counts[ADDED] = self.clock
        self._use(memory, self._uniforms)

    def _slots(self, slots: ArrayLike) -> I64:
        """Slots as the kernels take them, or an error that names what is wrong."""
        given = as_array("slots", slots)
        if given.shape == (0,):  # an empty list is of floats to NumPy
            return np.empty(0, dtype=np.int64)
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
            "key_bytes": self._widths[0],
            "outcome_bytes": self._widths[1],
            "uniforms": self._uniforms.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves the sampler as it is."""
        before = self._widths
        try:
            self._widths = self._widths_of(state)
            super().load_state_dict(state)
            self._cleared = 0
        except BaseException:
            self._widths = before
            raise

    def _widths_of(self, state: Any) -> tuple[int, int]:
        """Those of a state, if its rows have them; else our own, by which it is then refused."""
        try:
            key_bytes, outcome_bytes = (state["header"][f"{x}_bytes"] for x in ("key", "outcome"))
            words = layout_of_keys(key_bytes, self._stored_outcome(outcome_bytes)).row_words
            fits = type(key_bytes) is type(outcome_bytes) is int and outcome_bytes >= 0
            fits = fits and key_bytes >= (1 if self.strategy.needs.groups else 0)
            fits = fits and state["rows"].shape == (self.capacity, words)
        except Exception:  # a state can be wrong in any way
            fits = False
        return (key_bytes, outcome_bytes) if fits else self._widths

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`: a copy makes arrays of its own."""
        return {"arguments": (self.capacity, self.strategy), "state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"])  # type: ignore[misc]
        self.load_state_dict(state["state"])

"""How a replay buffer is saved, loaded and copied."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np

from sibling_replay.checkpoint import (
    KEYS_WITHOUT_ACTION,
    SCHEMA_VERSION,
    StateError,
    compare_headers,
    read_state,
    rebuilt,
    write_state,
)
from sibling_replay.grouping.key_map import KeyFunction, KeyMap, PerRow
from sibling_replay.keying import (
    Fitting,
    Keying,
    SavedMap,
    saved_map,
    stored_keys,
    take_saved_map,
)
from sibling_replay.n_step import NStep
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.parts import form_of
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.replay.regroup import move_entries
from sibling_replay.schema import GROUP_KEY
from sibling_replay.strategy_sampler import StrategySampler, fill_memory

Buffer = TypeVar("Buffer", bound="SavedBuffer")
_KEYED_AGAIN = 1_000  # entries of a loaded buffer, to see whether its key is the one it had


class SavedBuffer(StrategySampler):
    """What `ReplayBuffer` does with states and files."""

    _fields: dict[str, Field]
    _key: Literal["exact", "given"] | KeyMap | None
    _keying: Keying
    _layout: Layout
    _fitting: Fitting
    _n_step: NStep | None

    @abstractmethod
    def _alike(self: Buffer, key: Any) -> Buffer:
        """An empty buffer of the same form, with this key."""

    @abstractmethod
    def _new_memory(self, layout: Layout | None = None) -> Memory: ...

    @abstractmethod
    def _key_by(self, keying: Keying) -> None:
        """Make keys, and rows with them, in this way from now on."""

    def _n_step_options(self) -> dict[str, Any]:
        return {} if self._n_step is None else self._n_step.options()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically."""
        of_key = saved_map(self._key, self._fitting)[1]
        write_state(path, self._header(), {**self._memory.arrays(), **of_key})

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **saved_map(self._key, self._fitting)[1]}

    @classmethod
    def load(
        cls: type[Buffer],
        path: str | os.PathLike[str],
        *,
        key: KeyMap | KeyFunction | None = None,
    ) -> Buffer:
        """The buffer in a file. Key functions, and maps that are your own code, are in no file:
        give them again."""
        header, arrays = read_state(path)
        saved = take_saved_map(header, arrays)
        if saved is not None and (key is None or saved.fitting.same_options(key)):
            key = saved.key
        buffer = rebuilt(cls, path, header, arrays, key)
        if saved is not None and key is saved.key:
            buffer._fitting = saved.fitting
        # In the new buffer's own memory: a second one would add the state's size to the peak.
        buffer._restore(header, arrays, buffer._memory)
        return buffer

    def _filled_memory(
        self, header: Mapping[str, Any], arrays: dict[str, Any], memory: Memory
    ) -> Memory:
        """States from before siblings shared their action have rows, and perhaps groups, of another
        form."""
        if not isinstance(self._key, PerRow) or header["version"] != KEYS_WITHOUT_ACTION:
            filled = super()._filled_memory(header, arrays, memory)
            self._refuse_other_keys(filled)
            return filled
        stored = {**self._fields, GROUP_KEY: self._layout.fields[GROUP_KEY]}
        old = fill_memory(self._new_memory(Layout.of(stored, (GROUP_KEY,))), arrays)
        move_entries(old, memory, old.read(old.live_slots))
        return memory

    def _refuse_other_keys(self, memory: Memory) -> None:
        """Raise for a key of one's own code that is not the one by which entries were grouped: no
        digest tells two of them apart, so some entries are keyed again."""
        key = self._key
        if not isinstance(key, KeyMap) or not self._keying.maps or key.digest:
            return
        if memory.live == 0 or not key.repeatable:
            return
        slots = np.unique(np.linspace(0, memory.live - 1, _KEYED_AGAIN).astype(np.int64))
        columns = memory.read(slots)
        keys = stored_keys(key, self._layout.fields, columns)
        for slot, old, new in zip(slots, columns[GROUP_KEY], keys, strict=True):
            if old.tobytes() != new.tobytes():
                raise StateError(
                    f"{key!r} gives slot {slot} the key {new}, and it was stored with {old}: "
                    "load it with the key it was saved with, and `rekey` it after that"
                )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves the buffer as it is.

        Where `key` is a map, the groups of the state may also have been given by number, if they
        are the groups that the map makes. A map that this buffer fits itself is that of the state
        from then on.
        """
        header = state.get("header") if isinstance(state, Mapping) else None
        if isinstance(header, Mapping):
            arrays = {name: array for name, array in state.items() if name != "header"}
            saved = take_saved_map(header, arrays)
            state = {"header": header, **arrays}
            if saved is not None and saved.fitting.same_options(self._fitting.template):
                self._continue_from(state, saved)
                return
        given = isinstance(header, Mapping) and header.get("key") == "given"
        if not given or not isinstance(self._key, KeyMap) or isinstance(self._key, PerRow):
            super().load_state_dict(state)
            return
        old = self._alike("given")
        old.load_state_dict(state)
        columns = old._memory.read(np.arange(len(old)))
        if len(old):
            columns[GROUP_KEY] = stored_keys(self._key, self._layout.fields, columns)
        memory = self._new_memory()
        move_entries(old._memory, memory, columns)
        if not (np.array_equal(memory.groups, old.groups) and memory.check_valid()[0]):
            raise StateError(f"the state's groups were given, and {self._key!r} makes others")
        self._use(memory, old._uniforms)
        self._n_step = old._n_step

    def _continue_from(self, state: Mapping[str, Any], saved: SavedMap) -> None:
        """Take over a state with the map in it."""
        other = self._alike(saved.key)
        super(SavedBuffer, other).load_state_dict(state)
        self._key_by(other._keying)
        self._use(other._memory, other._uniforms)
        self._fitting, self._n_step = saved.fitting, other._n_step

    def _restore(self, header: Mapping[str, Any], arrays: dict[str, Any], memory: Memory) -> None:
        if self._n_step is None:
            super()._restore(header, arrays, memory)
            return
        compare_headers(header, self._header())
        growing = self._n_step.restored(header, len(arrays.get("rows", ())))
        super()._restore(header, arrays, memory)
        self._n_step.take_over(growing)

    def __getstate__(self) -> dict[str, Any]:
        """For `copy` and `pickle`. The kernels find their arrays by address, so a copy must make
        arrays of its own."""
        return {
            "arguments": (dict(self._fields), self.capacity, self.strategy),
            "key": self._key if self._fitting.template is None else self._fitting.template,
            "n_step": self._n_step_options(),
            "state": self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        n_step = state.get("n_step", {})  # older versions had none
        self.__init__(*state["arguments"], key=state["key"], **n_step)  # type: ignore[misc]
        self.load_state_dict(state["state"])

    def _header(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "capacity": self.capacity,
            "strategy": self.strategy.name,
            "options": self.strategy.options(),
            **self._keying.header(self._fitting),
            "fields": {name: form_of(field) for name, field in self._fields.items()},
            "bounds": {n: list(f.bounds) for n, f in self._fields.items() if f.bounds is not None},
            **({} if self._n_step is None else self._n_step.header()),
            "uniforms": self._uniforms.state_dict(),
        }

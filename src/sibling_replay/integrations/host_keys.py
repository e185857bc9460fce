"""What makes siblings in a storage that a host owns: keys, and maps fitted to what it holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.checkpoint import StateError
from sibling_replay.grouping.awaited import Awaited
from sibling_replay.grouping.fittable import FittableMap
from sibling_replay.grouping.key_map import Key, KeyMap, PerRow, as_key, checked_keys
from sibling_replay.grouping.leaves import leaves_of, parts_of
from sibling_replay.keying import (
    Fitting,
    chunk_rows,
    fit_places,
    saved_map,
    take_saved_map,
    words_of_key,
)
from sibling_replay.replay.arrays import I64
from sibling_replay.slot_sampler import SlotSampler
from sibling_replay.strategies import Strategy

ReadSlots: TypeAlias = Callable[[I64], tuple[Any, Any]]  # the observations and actions in slots


class HostKeys:
    """The key of a host's entries. A map that was given unfitted is fitted to the entries, once
    there are enough of them, as `ReplayBuffer` does it."""

    def __init__(self, key: Key, strategy: Strategy, capacity: int) -> None:
        given = as_key("exact" if key is None else key, True, strategy.name)
        if given != "exact" and not strategy.needs.groups:
            warnings.warn(
                f"{strategy.name} draws without groups: the key {key!r} is not used", stacklevel=4
            )
        if isinstance(given, FittableMap) and not given.fitted:
            given = given.unfitted()  # the giver may fit theirs
        self.given, self._capacity = given, capacity
        self.groups = strategy.needs.groups
        self.start()

    def start(self) -> None:
        """As for an empty storage: a map that is ours to fit awaits its first entries."""
        self.fitting = Fitting.of(self.given, self._capacity) if self.groups else Fitting()
        awaited = self.fitting.template
        self.key = self.given if awaited is None else Awaited(awaited)

    def of(self, obs: Any, actions: Any) -> Any:
        """What a sampler tells siblings by, who always share their action; None without groups."""
        return self._keys(self.key, obs, actions) if self.groups else None

    def _keys(self, key: Any, obs: Any, actions: Any) -> Any:
        if not isinstance(key, KeyMap):
            return *parts_of(obs), actions
        keys = checked_keys(key, obs, actions)
        if not isinstance(key, PerRow) and key.covers(np.asarray(actions).dtype):
            return keys
        return keys, actions

    def check_first(self, obs: Any, actions: Any) -> None:
        """Refuse entries that the map could not be fitted to, at the first of them."""
        if isinstance(self.key, Awaited) and not self.key.map.chooses:
            self.key.map.unfitted().fit(_first_row(obs), np.asarray(actions)[:1])

    def describe(self, sampler: SlotSampler) -> None:
        """Let a sampler's support and warnings speak of this key."""
        sampler.describe_key(
            *words_of_key(self.key),
            mapped=isinstance(self.key, KeyMap),
            awaited=isinstance(self.key, Awaited),
        )

    def fit_if_due(self, sampler: SlotSampler, read: ReadSlots) -> None:
        """Fit the map to what the host holds, and group all of it anew, once there is enough.

        Enough is also what a storage holds that begins to let entries go before it is full.
        """
        due, live = self.fitting.due, sampler.live_slots
        if due is None or live.size == 0:
            return
        turned = isinstance(self.key, Awaited) and sampler.written >= self._capacity
        if live.size < due and not turned:
            return
        fitting = replace(self.fitting)
        try:
            first, _ = read(live[:1])
            width = sum(leaf.values.nbytes for leaf in leaves_of(first))
            chosen = live[fit_places(live.size, width)]
            masses = sampler.masses[chosen]
            key = fitting.fitted_to(*read(chosen), masses, live.size, self._capacity)
            keys = self._all_keys(key, live, chunk_rows(width), read)
        except ValueError as error:  # values that were changed in the storage, say
            self.fitting.due = None
            warnings.warn(f"siblings stay those of {self.key!r}: {error}", stacklevel=4)
            return
        sampler.rekey(keys)
        self.key, self.fitting = key, fitting
        self.describe(sampler)

    def _all_keys(self, key: KeyMap, slots: I64, step: int, read: ReadSlots) -> Any:
        parts = [
            self._keys(key, *read(slots[start : start + step]))
            for start in range(0, slots.size, step)
        ]
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        return np.concatenate(parts)

    # ------------------------------------------------------------------ state

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a state holds of the map: of its header, and arrays. Nothing of code."""
        if not self.groups:
            return {}, {}
        header, arrays = saved_map(self.key, self.fitting)
        return header, {name: np.array(array) for name, array in arrays.items()}

    def taken_from(self, header: Mapping[str, Any], arrays: dict[str, Any]) -> HostKeys:
        """These keys as they were when a state was saved; arrays of a map are taken out of it."""
        saved = take_saved_map(header, arrays)
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        if saved is None and not isinstance(self.given, FittableMap):
            return found  # equal observations, functions, maps of one's own
        if saved is None:
            raise StateError(f"the state has no key map, and this buffer fits {self.given!r}")
        if saved.fitting.same_options(self.fitting.template):
            found.key, found.fitting = saved.key, saved.fitting
            if isinstance(saved.key, FittableMap) and not saved.key.fitted:
                found.key = Awaited(saved.key)
        elif not isinstance(self.key, KeyMap) or self.key.digest != saved.key.digest:
            raise StateError(
                f"the state was saved with the key {saved.key!r}, and this buffer has {self.key!r}"
                f"{' of another fit or with other options' if saved.key.fitted else ''}"
            )
        return found


def _first_row(obs: Any) -> Any:
    if isinstance(obs, Mapping):
        return {name: _first_row(part) for name, part in obs.items()}
    return tuple(map(_first_row, obs)) if isinstance(obs, tuple) else np.asarray(obs)[:1]

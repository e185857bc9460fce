"""What adapters to hosts with a storage of their own share: keys, draws and their refreshes.

Such a host reads the slots it is told to, computes each target itself from the one outcome in the
slot, and comes back with TD errors for slots. So a draw is remembered until its errors come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from sibling_replay.checkpoint import KEYS_WITHOUT_ACTION, StateError
from sibling_replay.grouping.auto import KeyChoice
from sibling_replay.grouping.fittable import FittableMap
from sibling_replay.grouping.key_map import Key, PerRow
from sibling_replay.grouping.support import Support
from sibling_replay.integrations.host_keys import HostKeys, ReadSlots
from sibling_replay.integrations.open_draws import Drawn, OpenDraws, checked_rows
from sibling_replay.replay.arrays import F32, F64, I64
from sibling_replay.slot_sampler import OtherWidth, SlotSampler
from sibling_replay.strategies import Draw, InvalidTDErrors, Strategy
from sibling_replay.strategies.registry import require_strategy

_OTHER_KEYS = (
    "either the key function returns other shapes than before, or the state was saved before "
    "actions were added to the results of key functions. Such a state cannot be continued: start "
    "with an empty buffer"
)
_OPEN = "open_draws"  # in a state


def refuse_unfit(
    host: str, strategy: Strategy, *, signed: bool = True, averages: bool = False
) -> None:
    """Raise for a strategy that needs what a host cannot give."""
    require_strategy(strategy)
    needs = strategy.needs
    if needs.averages and not averages:
        raise ValueError(
            f"{host} computes each target itself, from one outcome; {strategy.name} needs the "
            f"mean over several. Use SiblingSample or SiblingModel, which have the same mean"
        )
    if needs.residuals:
        raise ValueError(
            f"{host} has no values of other entries than those it trains; {strategy.name} averages "
            f'targets less such values. Use of="targets"'
        )
    if needs.candidates:
        raise ValueError(
            f"{host} trains on what is drawn; {strategy.name} draws {needs.candidates} candidates "
            f"for each entry and selects by their TD errors"
        )
    if needs.shifts:
        raise ValueError(
            f"{host} computes each target itself; {strategy.name} adds something to targets"
        )
    if needs.values:
        raise ValueError(
            f"{host} keeps its network to itself; {strategy.name} rescores by present values"
        )
    if needs.signals:
        raise ValueError(
            f"{host} hands back TD errors alone; {strategy.name} needs {', '.join(needs.signals)} "
            f"as well"
        )
    if needs.signed and not signed:
        raise ValueError(
            f"{host} hands back absolute TD errors; {strategy.name} needs them with their sign"
        )


@contextmanager
def _other_keys_explained() -> Iterator[None]:
    """Why keys may be of another width than the stored ones."""
    try:
        yield
    except OtherWidth as error:
        raise ValueError(f"{error} ({_OTHER_KEYS})") from error


class HostReplay:
    """A slot sampler that is told observations and actions, and refreshed by slots.

    key: a `KeyMap`, called once for all that a host writes together, or a function of one
        observation and one action (see `ReplayBuffer`); entries with equal keys and equal action
        are siblings. "exact" or None: equal observation and action. A map that is not fitted is
        fitted by `fit_if_due`; a copy of it, so that several may be given it.
    signed: whether the host's TD errors have their sign.

    unmatched_updates: TD errors that were dropped because they are of no draw that awaits its
        errors, or of one from before the buffer was emptied or restored.
    """

    def __init__(
        self,
        host: str,
        capacity: int,
        strategy: Strategy,
        key: Key = None,
        seed: Any = None,
        signed: bool = True,
    ) -> None:
        refuse_unfit(host, strategy, signed=signed)
        if key == "given":
            raise ValueError(
                f'{host} hands no groups to its buffer, so key="given" is not for it: give a '
                f"KeyMap or a function key(obs, action)"
            )
        self._keys = HostKeys(key, strategy, capacity)
        if strategy.needs.other_outcomes and not self.exact:
            raise ValueError(
                f"{host} reads observation, action and outcome of one slot; {strategy.name} with a "
                f"key function or map pairs those of different slots. Use it without one, or "
                f"SiblingSample"
            )
        self._arguments = (host, capacity, strategy, self._keys.given, seed, signed)
        self._host, self._capacity, self.strategy, self._seed = host, capacity, strategy, seed
        self.sampler = self._new_sampler()
        self.unmatched_updates = 0
        self.was_drawn_from = False
        self._open = OpenDraws()
        self._warned = False

    @property
    def exact(self) -> bool:
        """Whether siblings are entries with equal observation and action."""
        return self._keys.given == "exact"

    @property
    def row_by_row(self) -> bool:
        """Whether a function looks at observations one at a time, whatever they are made of."""
        return isinstance(self._keys.given, PerRow)

    @property
    def takes_parts(self) -> bool:
        """Whether a map of `grouping` looks at observations, which may be mappings of arrays."""
        return isinstance(self._keys.given, FittableMap)

    def put(self, slots: I64, obs: Any, actions: Any, *, only_changed: bool = False) -> None:
        """The host has written these slots; a row of observations and actions for each.

        only_changed: it may have; leave alone the entries whose group would stay the same.
        """
        if len(slots):
            self.put_keys(slots, self._keys_of(obs, actions), only_changed=only_changed)

    def checked_keys(self, obs: Any, actions: Any, count: int) -> Any:
        """The keys of so many entries that a host is about to write, for `put_keys`, or an error.
        For a host that must know beforehand whether it may."""
        keys = self._keys_of(obs, actions)
        with _other_keys_explained():
            self.sampler.check_keys(keys, count)
        return keys

    def put_keys(self, slots: I64, keys: Any, *, only_changed: bool = False) -> None:
        """`put` of entries with these keys."""
        with _other_keys_explained():
            self.sampler.put(slots, keys, only_changed=only_changed)

    def _keys_of(self, obs: Any, actions: Any) -> Any:
        if self.sampler.written == 0:
            self._keys.check_first(obs, actions)
        return self._keys.of(obs, actions)

    def forget(self, slots: I64) -> None:
        """The entries of these slots are not to be drawn any more, if there are any."""
        places = np.unique(slots)
        self.sampler.remove(places[self.sampler.holds(places)])

    def forget_changed(self, slots: I64, obs: Any, actions: Any) -> None:
        """Those of these slots whose entry has another key now are not to be drawn any more."""
        keys = self._keys.of(obs, actions)
        with _other_keys_explained():
            changed = self.sampler.changed(slots, keys)
        self.sampler.remove(slots[changed & self.sampler.holds(slots)])

    def fit_if_due(self, read: ReadSlots) -> None:
        """Fit a map that was given unfitted, if there are enough entries by now. A host calls this
        when it has written, with a way to read observations and actions by slot."""
        if self._keys.fitting.due is not None:
            self._keys.fit_if_due(self.sampler, read)

    def support(self) -> Support:
        """How well the groups are filled, what makes them and why (see `ReplayBuffer.support`)."""
        return self.sampler.support()

    @property
    def key_choices(self) -> tuple[KeyChoice, ...]:
        """What `Auto` has chosen so far, and why; the last is in use."""
        return tuple(self._keys.fitting.choices)

    def _new_sampler(self) -> SlotSampler:
        sampler = SlotSampler(self._capacity, self.strategy, seed=self._seed)
        self._keys.describe(sampler)
        return sampler

    def draw(self, size: int, beta: float) -> tuple[I64, F32]:
        """Slots to train on and their importance weights."""
        batch = self.sampler.sample(size, beta)
        self.was_drawn_from = True
        # SiblingModel trains the anchor toward this slot's outcome, and their observations and
        # actions are equal: the slot stands for both.
        rows = Drawn(
            batch.outcome_slots.copy(),
            batch.slots.copy(),
            batch.anchors.copy(),
            batch.weights.astype(np.float64) if batch.drawn is None else batch.drawn.weights,
        )
        self._open.add(rows, batch.added)
        return batch.outcome_slots, batch.weights

    def read(self, slots: I64) -> None:
        """The host reads these slots by a choice of its own: their errors may come, too."""
        chosen = slots.copy()
        self._open.add(Drawn(chosen, chosen, chosen, np.ones(slots.size)), self.sampler.clock)

    def refresh(self, slots: I64, td_errors: Any) -> None:
        """TD errors, of either sign, for slots of one or several draws, or for parts of them.

        Those that belong to no draw are dropped and counted in `unmatched_updates`: a host may
        train on samples that are older than what is remembered, and a run must not end for that.
        """
        errors = self._checked(slots, td_errors)
        left = slots.size
        for places, rows, date in self._open.claim(slots):
            left -= places.size
            if date is None:
                self.unmatched_updates += places.size
                continue
            filled = np.flatnonzero(self.sampler.holds(rows.refreshed))
            self.unmatched_updates += places.size - filled.size
            read, refreshed, anchors, weights = rows.at(filled)
            draw = Draw(slots=refreshed, anchors=anchors, outcome_slots=read, weights=weights)
            self.sampler.update_rows(draw, errors[places[filled]], date)
        self.unmatched_updates += left
        if left and not self._warned:
            self._warned = True
            warnings.warn(
                f"{left} TD errors were dropped: they are of no draw that awaits its errors. Hand "
                f"back each error once, with the index that {self._host} sampled. Further ones are "
                f"only counted, in unmatched_updates",
                stacklevel=3,
            )

    def _checked(self, slots: I64, td_errors: Any) -> F64:
        """The errors, or an exception that names what is wrong before anything changes."""
        errors: F64 = np.asarray(td_errors, dtype=np.float64)
        if errors.shape != slots.shape:
            raise ValueError(f"expected {slots.size} TD errors, got shape {errors.shape}")
        wrong = np.flatnonzero(~np.isfinite(errors))
        if wrong.size:
            raise InvalidTDErrors(
                f"TD error {wrong[0]} of the batch (slot {slots[wrong[0]]}) is {errors[wrong[0]]}: "
                f"it must be finite. No priority was changed."
            )
        return errors

    def clear(self) -> None:
        """Forget all entries; the random stream goes on. A map that is fitted to the entries awaits
        the next ones."""
        self._open.forget_memory()
        self.sampler.clear()
        self._keys.start()
        self._keys.describe(self.sampler)

    def state_dict(self) -> dict[str, Any]:
        """The sampler's, the map that makes siblings, and the draws that await their errors: a host
        may save what it has sampled ahead."""
        state = self.sampler.state_dict()
        of_key, arrays = self._keys.state()
        header = {**state.pop("header"), **of_key}
        return {"header": header, **state, **arrays, _OPEN: self._open.rows()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. One that does not fit leaves everything as it is."""
        sampler, keys = self._new_sampler(), self._keys
        if state["header"]:  # older versions had none as long as they were empty
            if not self.exact and state["header"].get("version") == KEYS_WITHOUT_ACTION:
                raise StateError(
                    f"the state has schema version {KEYS_WITHOUT_ACTION}: {_OTHER_KEYS}"
                )
            arrays = {name: state[name] for name in state if name not in ("header", _OPEN)}
            keys = keys.taken_from(state["header"], arrays)
            sampler.load_state_dict({"header": state["header"], **arrays})
            keys.describe(sampler)
        rows = checked_rows(state.get(_OPEN), self._capacity)
        self.sampler, self._keys = sampler, keys
        self._open.forget_memory()
        self._open.add_rows(rows)
        self.was_drawn_from |= bool(rows.size)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "arguments": self._arguments,
            "key_map": self._keys.state(),
            "sampler": self.sampler,
            "open": self._open,
            "unmatched_updates": self.unmatched_updates,
            "was_drawn_from": self.was_drawn_from,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["arguments"])  # type: ignore[misc]
        if state["sampler"] is not None:  # as older versions had it until the first entry
            self.sampler = state["sampler"]
        header, arrays = state.get("key_map", ({}, {}))  # older versions kept none
        if header:
            self._keys = self._keys.taken_from(header, dict(arrays))
        self._keys.describe(self.sampler)
        self._open = state["open"]
        self.unmatched_updates = state["unmatched_updates"]
        self.was_drawn_from = state["was_drawn_from"]

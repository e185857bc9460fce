"""A buffer's key: how rows are laid out for it, how it is saved, and what it is fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from sibling_replay.checkpoint import KEY_KINDS, StateError
from sibling_replay.grouping.auto import KeyChoice
from sibling_replay.grouping.awaited import Awaited
from sibling_replay.grouping.fittable import FittableMap
from sibling_replay.grouping.key_map import KeyMap, PerRow, checked_keys
from sibling_replay.grouping.saved import map_from_state
from sibling_replay.replay.arrays import F64, I64, U8
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.one_action import find_mixed_actions
from sibling_replay.replay.parts import form_of
from sibling_replay.replay.payload import Field, Layout, pack_rows
from sibling_replay.schema import GROUP_KEY, field_of_key, zero_entry
from sibling_replay.staging import Staging, as_stored, converted

SAVED = "key_map"  # of a state: in its header, and before the names of the map's arrays
_FIT_BYTES = 2**28  # of observations that a fit looks at; of larger ones a part
_CHUNK_BYTES = 2**24  # of observations mapped at a time


class Keying:
    """What a buffer does by its key: the layout of its rows and the way there."""

    def __init__(
        self, key: Literal["exact", "given"] | KeyMap | None, fields: Mapping[str, Field]
    ) -> None:
        if isinstance(key, FittableMap) and not key.fitted:
            if not key.chooses:  # one that does not suit the fields is refused now
                key.unfitted().fit(*zero_entry(fields))
            key = Awaited(key)
        self.key = key
        stored = dict(fields)
        key_fields: tuple[str, ...] = ("obs", "action")
        self.maps = isinstance(key, KeyMap) and not key.is_exact
        if isinstance(key, KeyMap) and self.maps:
            stored[GROUP_KEY] = field_of_key(key, fields)
            covered = key.covers(fields["action"].dtype)
            key_fields = (GROUP_KEY,) if covered else ("action", GROUP_KEY)
        elif key == "given":
            stored[GROUP_KEY] = Field(np.dtype(np.int64))
            key_fields = (GROUP_KEY,)
        self.key_fields = key_fields
        self.layout = Layout.of(stored, key_fields)
        self.staging = Staging(
            self.layout, tuple(stored), key if self.maps or key == "given" else None
        )

    @property
    def kind(self) -> Literal["exact", "given", "function", "map"] | None:
        """What makes siblings, in a word; None without groups."""
        if not isinstance(self.key, KeyMap):
            return self.key
        if self.key.is_exact:
            return "exact"
        return "function" if isinstance(self.key, PerRow) else "map"

    def header(self, fitting: Fitting) -> dict[str, Any]:
        """What makes siblings, as far as a file can tell."""
        saved, _ = saved_map(self.key, fitting)
        if self.kind not in KEY_KINDS:
            return {"key": self.kind, "key_form": None, **saved}
        assert isinstance(self.key, KeyMap)
        found = {"key": self.kind, "key_form": form_of(self.layout.fields[GROUP_KEY]), **saved}
        return found if self.kind == "function" else {**found, "key_digest": self.key.digest}

    @property
    def awaited(self) -> FittableMap | None:
        """The map to come, where it is not fitted yet."""
        return self.key.map if isinstance(self.key, Awaited) else None

    def write_rows(self, old: Memory, new: Memory) -> None:
        """The entries of a ring as rows of this layout, with keys of this map."""
        step = chunk_rows(self.layout.fields["obs"].width)
        for start in range(0, old.live, step):
            slots = np.arange(start, min(start + step, old.live))
            columns = old.read(slots)
            columns.pop(GROUP_KEY, None)
            if GROUP_KEY in self.layout.fields:
                assert isinstance(self.key, KeyMap)
                columns[GROUP_KEY] = stored_keys(self.key, self.layout.fields, columns)
            places, size_bytes = self.layout.columns(slots.size)
            block = np.zeros(size_bytes, dtype=np.uint8)
            for name, column in columns.items():
                shape, dtype, offset = places[name]
                np.ndarray(shape, dtype, block, offset)[...] = column
            pack_rows(block, self.layout.table, slots.size, new.rows[start:])


def stored_keys(key: KeyMap, fields: Mapping[str, Field], columns: Mapping[str, Any]) -> Any:
    """The keys of stored entries, as rows hold them, or an error as for entries that come."""
    found = checked_keys(key, fields["obs"].opened(columns["obs"]), columns["action"])
    field_of = fields[GROUP_KEY]
    keys = found.reshape(len(found), *found.shape[1:] or field_of.shape)
    if keys.shape[1:] != field_of.shape:
        raise ValueError(f"{key!r} gave keys of shape {keys.shape[1:]}, not {field_of.shape}")
    return as_stored(converted(field_of, "the key", keys))


@dataclass
class Fitting:
    """Whether a buffer fits its map itself, and when next."""

    template: FittableMap | None = None  # as it was given, unfitted; None: it is not ours to fit
    due: int | None = None  # entries stored at the next fit; None: there is none
    choices: list[KeyChoice] = field(default_factory=list)  # of Auto, the last one last

    @classmethod
    def of(cls, key: Any, capacity: int) -> Fitting:
        """For a key as it was given."""
        if not isinstance(key, FittableMap) or key.fitted:
            return cls()
        return cls(key.unfitted(), min(key.fit_after, capacity))

    def same_options(self, key: Any) -> bool:
        """Whether an unfitted map is the one that is fitted here."""
        if self.template is None or not isinstance(key, FittableMap) or key.fitted:
            return False
        return key.digest == self.template.digest

    def fitted(self, memory: Memory, capacity: int) -> FittableMap:
        """A map fitted to what is stored; `due` moves on."""
        slots = fit_places(memory.live, memory.layout.fields["obs"].width)
        columns = memory.read(slots)
        obs = memory.layout.fields["obs"].opened(columns["obs"])
        return self.fitted_to(obs, columns["action"], memory.masses[slots], memory.live, capacity)

    def fitted_to(
        self, obs: Any, action: Any, masses: F64, live: int, capacity: int
    ) -> FittableMap:
        """The same, to observations, actions and masses of those, or some of those, that live."""
        assert self.template is not None
        found = self.template.unfitted()
        if found.chooses:
            found.fit_by(obs, action, masses)
            assert found.choice is not None
            self.choices = [*self.choices, found.choice]
            # Noise kept is G / N: it has halved, if no new groups came, when N has doubled.
            self.due = 2 * live if 2 * live <= capacity else None
        else:
            found.fit(obs, action)
            self.due = None
        return found


def fit_places(live: int, width: int) -> I64:
    """Which of so many entries, with observations of so many bytes, a fit looks at: all of them, or
    as many as it may, evenly spaced."""
    most = max(1, _FIT_BYTES // max(1, width))
    return np.arange(live) if live <= most else np.arange(most, dtype=np.int64) * live // most


def chunk_rows(width: int) -> int:
    """Observations of so many bytes that are mapped at a time."""
    return max(1, _CHUNK_BYTES // max(1, width))


def words_of_key(key: Any) -> tuple[str, str]:
    """What makes siblings, and why that, for people."""
    if isinstance(key, FittableMap) and key.choice is not None:
        return f"{key.choice.key}, chosen by {key!r}", key.choice.reason
    if isinstance(key, Awaited):
        return repr(key), "siblings are entries with equal action until then"
    return (repr(key) if isinstance(key, KeyMap) else str(key)), ""


@dataclass(frozen=True)
class SavedMap:
    """A map in a state."""

    key: KeyMap
    fitting: Fitting


def saved_map(key: Any, fitting: Fitting) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a state holds of a buffer's map: of its header and of its arrays. Nothing of code."""
    state = key.state() if isinstance(key, KeyMap) and not isinstance(key, PerRow) else None
    if state is None:
        return {}, {}
    header = {
        "spec": state.spec,
        "digest": key.digest,
        "fits": fitting.template is not None,
        "due": fitting.due,
        "choices": [asdict(choice) for choice in fitting.choices],
    }
    return {SAVED: header}, {f"{SAVED}/{name}": array for name, array in state.arrays.items()}


def take_saved_map(header: Mapping[str, Any], arrays: dict[str, Any]) -> SavedMap | None:
    """The map in a state, whose arrays are taken out; None if it has none."""
    prefix = f"{SAVED}/"
    own = {
        name.removeprefix(prefix): arrays.pop(name)
        for name in list(arrays)
        if str(name).startswith(prefix)
    }
    saved = header.get(SAVED)
    if saved is None:
        if own:
            raise StateError("the state has arrays of a key map that its header does not name")
        return None
    try:
        key = map_from_state(saved["spec"], own)
        due, choices = saved["due"], [KeyChoice(**choice) for choice in saved["choices"]]
        if due is not None and (type(due) is not int or due < 1):
            raise ValueError(f"a fit is due at {due!r} entries")
        template = key.unfitted() if saved["fits"] and isinstance(key, FittableMap) else None
        digest = key.digest
    except Exception as error:  # a state can be wrong in any way
        raise StateError(f"the state's key map cannot be restored: {error!r}") from error
    if digest != saved["digest"]:
        raise StateError(
            f"the state's key map is not the one it was saved with: its digest is {digest}, "
            f"expected {saved['digest']}"
        )
    return SavedMap(key, Fitting(template, due, choices))


def refuse_mixed_actions(memory: Memory, strategy: str, block: U8, count: int) -> None:
    """Raise for a group number that would stand for two actions: of entries that are stored when
    the call comes, or that come with it."""
    found = find_mixed_actions(memory, block, count)
    if found is None:
        return
    place, other, in_block = found
    columns, _ = memory.layout.columns(count)
    group, action = (
        np.ndarray(shape, dtype, block, offset)
        for shape, dtype, offset in (columns[GROUP_KEY], columns["action"])
    )
    held = action[other] if in_block else memory.read(np.array([other]))["action"][0]
    raise ValueError(
        f"group {group[place]} has action {held} and was given for action {action[place]}, "
        f"too: {strategy} trains an entry toward outcomes of its siblings, "
        f"so siblings must share their action. Give each action groups of its own (group * "
        f"number of actions + action, say), or use SiblingSample. Nothing was stored."
    )

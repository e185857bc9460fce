"""Reading transitions to diagnose: a buffer saved by `ReplayBuffer.save`, an `.npz` or a Parquet.

Columns of an `.npz` or Parquet, a row per stored transition:

    obs, action, next_obs     numbers of any shape. In Parquet: a scalar column, a (nested) list
                              column, or the elements as columns obs_0, obs_1, ...
    reward                    a finite number
    terminated, truncated     booleans, or 0 and 1
    priority                  raw and positive: the mass is priority^alpha; or
    td_error                  of either sign: the priority is |td_error| + epsilon
    target                    optional: the Bellman target; or
    q_next                    optional: the value of next_obs (Double DQN's), for the target
                              reward + gamma (1 - terminated) q_next; an entry that a time limit
                              cut off bootstraps, unless it is asked otherwise
    discount                  optional, with q_next: a discount an entry, in the place of gamma
    group                     optional: equal values are siblings; else equal (obs, action) are

Of two alternatives that are both there, the first is read. An export by one of our adapters also
has a header with the alpha of its buffer. Other columns are for `--group-by`.
A column that is not needed is not read. Rows are counted from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.checkpoint import KEY_KINDS, StateError, read_header
from sibling_replay.diagnostics import EXACT_KEY, equal_rows
from sibling_replay.grouping import Auto, Support, parse_key
from sibling_replay.grouping.key_map import KeyMap, PerRow, checked_keys
from sibling_replay.grouping.leaves import as_rows
from sibling_replay.grouping.saved import KEY_WORDS
from sibling_replay.grouping.vqvae import VQVAE
from sibling_replay.keying import SAVED
from sibling_replay.microscope.columns import BadFile, Columns, open_table
from sibling_replay.schema import GROUP_KEY, TRANSITION

ALPHA, EPSILON = 0.6, 1e-6  # the paper's
MAPPED = "key"  # the column that a key map makes

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """How to read a file; None is the file's own value, or the paper's."""

    alpha: float | None = None
    epsilon: float | None = None
    gamma: float | None = None
    group_by: tuple[str, ...] = ()
    key: str | Path | None = None  # a word such as grid:4, or an encoder file: its keys make groups
    through_time_limits: bool = True  # targets of q_next bootstrap where an episode was cut off


@dataclass(frozen=True)
class Transitions:
    """N transitions, fit to be examined, and how they were read."""

    columns: dict[str, NDArray[Any]]
    masses: F64  # [N]
    groups: NDArray[np.int64]  # [N]
    targets: F64 | None  # [N]
    group_columns: tuple[str, ...]  # whose values tell groups apart
    key_words: str  # this and the rest are for people: the map that made the keys, if one did
    source: str
    mass_source: str
    target_source: str


def read_transitions(path: Path, how: Reading) -> Transitions:
    """The transitions of a file, or `BadFile` saying which column or row is wrong."""
    with open_table(path) as file:
        return _read(path, file, how)


def _read(path: Path, file: Columns | None, how: Reading) -> Transitions:
    if file is None:
        buffer = _load(path)
        stored = {
            name: as_rows(column) if name in ("obs", "next_obs") else column
            for name, column in buffer.transitions().items()
        }
        file = Columns(path, tuple(stored), stored.__getitem__)
        source = f"a saved buffer drawn by {type(buffer.strategy).__name__}"
        own_key = tuple(sorted(buffer.key_fields, key=lambda name: name != GROUP_KEY))
        key_words = _words(buffer.support()) if SAVED in read_header(path) else ""
        masses, mass_source = _saved_masses(path, buffer, how)
    else:
        source, key_words = "a file of columns", ""
        own_key = ("group",)
        file.require(TRANSITION)
        if file.rows == 0:
            raise BadFile(f"{path}: no transitions, column reward is empty")
        masses, mass_source = _masses(file, how)

    columns: dict[str, NDArray[Any]] = {"reward": _finite(file, "reward")}
    for name in ("obs", "action", "next_obs"):
        columns[name] = file.numbers(name)
    for name in ("terminated", "truncated"):
        columns[name] = _flags(file, name)
    targets, target_source = _targets(file, how, columns)

    names = how.group_by or (own_key if file.has(own_key[0]) else EXACT_KEY)
    if how.key is not None:
        if how.group_by:
            raise BadFile("--key and --group-by both say what makes siblings: give one of them")
        map, key_words = _map(path, how.key, columns, masses)
        names = (MAPPED,) if map.covers(columns["action"].dtype) else (MAPPED, "action")
        columns[MAPPED] = _keys(path, how.key, map, columns)
    elif how.group_by:
        key_words = ""
    others = [name for name in names if name not in columns]
    file.require(others, " (asked for by --group-by)")
    columns |= {name: file.labels(name) for name in others}
    return Transitions(
        columns=columns,
        masses=masses,
        groups=equal_rows([columns[name] for name in names]),
        targets=targets,
        group_columns=names,
        key_words=key_words,
        source=source,
        mass_source=mass_source,
        target_source=target_source,
    )


def _map(
    path: Path, key: str | Path, columns: Mapping[str, NDArray[Any]], masses: F64
) -> tuple[KeyMap, str]:
    """The map that was asked for, fitted to the file, and what there is to say of it."""
    obs, action = columns["obs"], columns["action"]
    try:
        if not is_key_word(key):
            return VQVAE(Path(key)), f"the codes of {Path(key).name}"
        found = parse_key(str(key))
        if isinstance(found, Auto):
            found.fit(obs, action, masses)
            assert found.choice is not None
            return found, f"{found.choice.key}: {found.choice.reason}"
        return found.fit(obs, action), repr(found)
    except FileNotFoundError as error:
        raise BadFile(
            f"--key {key}: there is no such file of an encoder, and it is none of the words "
            f"{', '.join(KEY_WORDS)}, with a number as in grid:4"
        ) from error
    except (OSError, ValueError) as error:
        raise BadFile(f"--key {key} makes no groups of {path}: {error}") from error


def is_key_word(key: str | Path) -> bool:
    """Whether this spells a map, and is not a file. (A file of such a name is ./grid.)"""
    return isinstance(key, str) and key.strip().lower().partition(":")[0] in KEY_WORDS


def _keys(
    path: Path, key: str | Path, map: KeyMap, columns: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    try:
        return checked_keys(map, columns["obs"], columns["action"])
    except (OSError, ValueError) as error:
        raise BadFile(f"--key {key} makes no groups of {path}: {error}") from error


def _words(support: Support) -> str:
    return support.key + (f": {support.reason}" if support.reason else "")


class _Stored(KeyMap):
    """In the place of a map that is code, which a buffer's file does not hold. Keys are stored: to
    look at them, any map of their form will do."""

    repeatable = False

    def __init__(self, form: NDArray[Any], digest: str, covers: bool) -> None:
        self._form, self._digest, self._covers = form, digest, covers

    def keys(self, obs: Any, action: Any) -> NDArray[Any]:
        return np.stack([self._form] * len(action))

    def covers(self, action: np.dtype[Any]) -> bool:
        return self._covers

    @property
    def digest(self) -> str:
        return self._digest


class _StoredFunction(PerRow):
    """The same in the place of a function."""

    repeatable = False


def _load(path: Path) -> ReplayBuffer:
    header = read_header(path)
    if header.get("key") not in KEY_KINDS or SAVED in header:  # the file holds what it needs
        return ReplayBuffer.load(path)
    try:
        dtype, shape = header["key_form"]
        form = np.zeros(tuple(shape), np.dtype(dtype))
    except Exception as error:  # a header can be wrong in any way
        raise BadFile(f"{path} does not describe its key: {error!r}") from error
    if header["key"] == "map":
        digest = str(header.get("key_digest"))
        try:
            return ReplayBuffer.load(path, key=_Stored(form, digest, covers=False))
        except StateError as error:  # the header does not tell, but rows of the other kind do
            try:
                return ReplayBuffer.load(path, key=_Stored(form, digest, covers=True))
            except StateError:
                raise error from None
    return ReplayBuffer.load(path, key=_StoredFunction(lambda obs, action: form))


def _saved_masses(path: Path, buffer: ReplayBuffer, how: Reading) -> tuple[F64, str]:
    if len(buffer) == 0:
        raise BadFile(f"{path}: the buffer is empty")
    if how.epsilon is not None:
        raise BadFile(f"--epsilon goes with td_error, but {path} is a saved buffer")
    own = buffer.strategy.alpha
    if how.alpha is not None and how.alpha != own:
        raise BadFile(
            f"{path} was saved with alpha = {own:g}: its masses have that exponent, "
            f"not --alpha {how.alpha:g}"
        )
    return buffer.masses, f"priority^{own:g}, as stored"


def _masses(file: Columns, how: Reading) -> tuple[F64, str]:
    alpha = _alpha_of(file) if how.alpha is None else how.alpha
    if not 0.0 <= alpha < np.inf:
        raise BadFile(f"--alpha must be finite and not negative, got {alpha}")
    if file.has("priority"):
        if how.epsilon is not None:
            raise BadFile(f"--epsilon goes with td_error, but {file.path} has priority")
        name, source = "priority", "priority"
        priority = _finite(file, name)
    else:
        file.require(["td_error"], " (or priority)")
        epsilon = EPSILON if how.epsilon is None else how.epsilon
        if not 0.0 < epsilon < np.inf:
            raise BadFile(f"--epsilon must be finite and positive, got {epsilon}")
        name, source = "td_error", f"(|td_error| + {epsilon:g})"
        priority = np.abs(_finite(file, name)) + epsilon
    _refuse(file, name, priority, priority <= 0, "it must be positive")
    with np.errstate(over="ignore", under="ignore"):
        masses = priority**alpha
    unfit = ~((masses > 0) & np.isfinite(masses))
    _refuse(file, name, priority, unfit, f"its power {alpha:g} is not a positive number")
    return masses, f"{source}^{alpha:g}"


def _alpha_of(file: Columns) -> float:
    """The exponent that an adapter's export names in its header, or the paper's."""
    header = file.read("header") if "header" in file.names else np.empty(0)
    if header.dtype != np.uint8:  # none, or a column of the user's
        return ALPHA
    try:
        return float(json.loads(header.tobytes()).get("alpha", ALPHA))
    except (ValueError, TypeError, AttributeError) as error:
        raise BadFile(f"{file.path}: its header cannot be read: {error}") from error


def _targets(
    file: Columns, how: Reading, columns: Mapping[str, NDArray[Any]]
) -> tuple[F64 | None, str]:
    if file.has("target") or not file.has("q_next"):
        if how.gamma is not None:
            raise BadFile(f"--gamma goes with q_next, which is not read from {file.path}")
        return (_finite(file, "target"), "target") if file.has("target") else (None, "")
    discount, words = _discount(file, how)
    ended = columns["terminated"]
    if not how.through_time_limits:
        ended = ended | columns["truncated"]
    values = file.scalars("q_next").astype(np.float64)
    bootstrap = np.where(ended, 0.0, values)  # after the end it may be anything
    why = "it must be finite" + (
        ", or give --no-through-time-limits" if how.through_time_limits else ""
    )
    _refuse(file, "q_next", values, ~np.isfinite(bootstrap), why)
    end = "terminated" if how.through_time_limits else "done"
    return columns["reward"] + discount * bootstrap, f"reward + {words} (1 - {end}) q_next"


def _discount(file: Columns, how: Reading) -> tuple[F64 | float, str]:
    """What q_next is multiplied by: a column, as buffers of several steps have it, or gamma."""
    if file.has("discount"):
        if how.gamma is not None:
            raise BadFile(f"{file.path} has a discount for each entry: leave --gamma out")
        return _finite(file, "discount"), "discount"
    if how.gamma is None:
        raise BadFile(f"{file.path} has q_next: give --gamma, the discount per step")
    if not 0.0 <= how.gamma <= 1.0:
        raise BadFile(f"--gamma must be from 0 to 1, got {how.gamma}")
    return how.gamma, f"{how.gamma:g}"


def _finite(file: Columns, name: str) -> F64:
    values = file.scalars(name).astype(np.float64)
    _refuse(file, name, values, ~np.isfinite(values), "it must be finite")
    return values


def _flags(file: Columns, name: str) -> NDArray[np.bool_]:
    values = file.scalars(name)
    _refuse(file, name, values, (values != 0) & (values != 1), "it must be a boolean")
    return values.astype(np.bool_)


def _refuse(
    file: Columns, name: str, values: NDArray[Any], wrong: NDArray[np.bool_], why: str
) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise BadFile(f"{file.path}: {name} of row {rows[0]} is {values[rows[0]]}: {why}")

"""What makes two transitions siblings: a key map, observations and actions to integers.

Buffers, adapters, trainers and the microscope take one as `key`, and call it once a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.grouping.leaves import one_row, row


class MapState(NamedTuple):
    """A map as a file holds it."""

    spec: dict[str, Any]  # plain data: its kind, options and the form of its observations
    arrays: dict[str, NDArray[Any]]  # what it has learnt


class KeyMap(ABC):
    """Entries with equal keys and equal action are siblings.

    A map of your own defines `keys`. The key of an entry may depend on that entry alone: not on the
    rest of its batch, and not on what came before. Siblings always share their action, whether or
    not the map looks at it.

    Examples:
        >>> class Rounded(KeyMap):
        ...     def keys(self, obs, action):  # n rows -> integers, [n] or [n, k]
        ...         return np.floor(obs).astype(np.int64)
        ...
        >>> Rounded().keys(np.array([[0.2, 3.9]]), np.array([0]))
        array([[0, 3]])
    """

    word: ClassVar[Literal["exact"] | None] = None  # what buffers do in its place
    repeatable: ClassVar[bool] = True  # False: it only stands for the map that made a file's keys

    @abstractmethod
    def keys(self, obs: Any, action: Any) -> ArrayLike:
        """Whole numbers, [n], or [n, k] where one an entry is not enough.

        obs, action: arrays with an entry in each of n rows, as they are stored.
        """

    @property
    def digest(self) -> str:
        """Names what the map computes, options and weights included; empty if nothing does. A state
        saved with one map is refused by another."""
        return ""

    def state(self) -> MapState | None:
        """The map as plain data and arrays, of which `grouping.saved.map_from_state` makes it
        again; None for a map that is code, which no file holds."""
        return None

    @property
    def fitted(self) -> bool:
        """Whether it can make keys. A buffer fits those that cannot yet."""
        return True

    @property
    def is_exact(self) -> bool:
        """Whether keys are equal for equal observations only."""
        return False

    def covers(self, action: np.dtype[Any]) -> bool:
        """Whether its keys tell actions of a dtype apart as far as is wanted. If not, a buffer adds
        the action to the key."""
        return False

    def writer(
        self, obs: NDArray[Any], key: NDArray[np.int64], action: np.dtype[Any]
    ) -> Callable[[], None] | None:
        """A fast way to one key after the other, where there is one: a function that writes the
        key of the observation that is in the array `obs` when it is called to the array `key`,
        [1, k]. Buffers take it, and only if actions of this dtype do not matter."""
        return None

    def __call__(self, obs: Any, action: Any) -> Any:
        """The key of one entry: that of a batch of one."""
        return np.asarray(self.keys(one_row(obs), np.asarray(action)[None]))[0]


KeyFunction: TypeAlias = Callable[[Any, Any], Any]  # of one observation and one action
Key: TypeAlias = Literal["exact", "given"] | KeyMap | KeyFunction | None  # what users give


class PerRow(KeyMap):
    """A Python function of one observation and one action, called row by row.

    Its results are compared as they are: numbers of any kind, or arrays of them. It is code, so
    nothing names what it computes.
    """

    def __init__(self, function: KeyFunction) -> None:
        self.function = function

    def keys(self, obs: Any, action: Any) -> list[Any]:
        return [self.function(row(obs, i), action[i]) for i in range(len(action))]

    def __call__(self, obs: Any, action: Any) -> Any:
        return self.function(obs, action)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r})"


def as_key(
    key: Key | Literal["default"], needs_groups: bool, strategy: str
) -> Literal["exact", "given"] | KeyMap | None:
    """What a user gives as `key`, functions as maps, or an error that says what is off.

    By default "exact" for a strategy that needs groups, else None: no groups.
    """
    if isinstance(key, KeyMap):
        return key if key.word is None else key.word
    if isinstance(key, type) and issubclass(key, KeyMap):
        raise TypeError(f"key is the class {key.__name__}: give a map that was made of it")
    if callable(key):
        return PerRow(key)
    if key == "default":
        key = "exact" if needs_groups else None
    if key is None and needs_groups:
        raise ValueError(f"{strategy} needs groups: give it a key")
    if key == "exact" or key == "given" or key is None:
        return key
    words = "; parse_key of sibling_replay.grouping reads words" if isinstance(key, str) else ""
    raise ValueError(
        f'key must be "exact", "given", a KeyMap such as Auto(), a function or None, not {key!r}'
        f"{words}"
    )


def checked_keys(key: KeyMap, obs: Any, action: Any) -> NDArray[Any]:
    """The keys of a batch as an array with an entry in each row, or an error that names the map."""
    count = len(action)
    found = np.asarray(key.keys(obs, action))
    if isinstance(key, PerRow):
        if found.dtype.kind not in "biuf" or found.size == 0 < count:
            raise TypeError(
                f"a key function must return a number or an array of them, not {found[0]!r}"
            )
        return found
    fits = found.ndim in (1, 2) and len(found) == count and found.size >= count
    if not (fits and np.can_cast(found.dtype, np.int64) and found.dtype.kind != "b"):
        raise TypeError(
            f"{key!r}: keys of {count} entries must be whole numbers (int64) of shape ({count},) "
            f"or ({count}, k), not {found.dtype} of shape {found.shape}"
        )
    return found.astype(np.int64)

"""Maps that see an observation as a row of numbers."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.fittable import Arrays, FittableMap, refuse_not_finite
from sibling_replay.grouping.kernels import moments
from sibling_replay.grouping.leaves import Leaf, joined, leaves_of, units

_CONSTANT = 1e-9  # a standard deviation so small beside the mean is rounding

Self = TypeVar("Self", bound="RowMap")
Write = Callable[[], None]  # a key, as `KeyMap.writer` says


@dataclass(eq=False, repr=False)
class RowMap(FittableMap):
    """A map of rows of numbers: the values of all parts of an observation one after the other.

    A map of your own kind is a dataclass of options with `_learn` and `_codes`.

    Examples:
        >>> isinstance(Grid(4), RowMap), isinstance(Auto(), RowMap)
        (True, False)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._learnt: Arrays = {}

    # ---------------------------------------------------------- what a kind of map defines

    @abstractmethod
    def _learn(self, x: NDArray[Any], unit: NDArray[np.int64]) -> None:
        """Set `_learnt` from rows [n, d], finite; columns of equal `unit` [d] share their unit."""

    @abstractmethod
    def _codes(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Keys of rows [n, d]."""

    def _complete(self, width: int) -> None:
        """Check what was learnt, which may come from a damaged file, for rows of `width` columns,
        and derive from it what `_codes` needs."""

    def _row_writer(self, row: NDArray[Any], key: NDArray[np.int64]) -> Write | None:
        """A fast way from the row [1, d] to the key [1, k], if there is one."""
        return None

    # ------------------------------------------------------------------------ fit and keys

    def fit(self: Self, obs: Any, action: Any = None) -> Self:
        leaves = self._leaves_to_fit(obs, action)
        self._learn_leaves(leaves)
        self._form = [leaf.form for leaf in leaves]
        return self

    def _learn_leaves(self, leaves: Sequence[Leaf]) -> None:
        rows = self._matrix(leaves)
        self._learn(rows, units(leaves))
        self._complete(rows.shape[1])

    def keys(self, obs: Any, action: Any = None) -> NDArray[np.int64]:
        leaves = leaves_of(obs, action)
        self._check_form(leaves)
        return self._codes(self._matrix(leaves))

    def _matrix(self, leaves: Sequence[Leaf]) -> NDArray[Any]:
        """What `_learn` and `_codes` see of a batch."""
        return joined(leaves)

    def writer(
        self, obs: NDArray[Any], key: NDArray[np.int64], action: np.dtype[Any]
    ) -> Write | None:
        if not self._suits_writer(obs, action):
            return None
        return self._row_writer(obs.reshape(1, -1), key)

    def _same_fit(self: Self, options: Mapping[str, Any], learnt: Arrays) -> Self:
        """A map of the same fit with other options."""
        found = type(self)(**{**self.options(), **options})
        found._learnt, found._form = learnt, copy.deepcopy(self._form)
        found._complete(_width(self._form))
        return found

    # ------------------------------------------------------------------------------- state

    def _arrays(self) -> Arrays:
        return dict(self._learnt)

    def _restore(self, spec: Mapping[str, Any], arrays: Arrays) -> None:
        self._learnt = arrays
        self._complete(_width(spec["form"]))


@dataclass(eq=False, repr=False)
class CompiledMap(RowMap):
    """A map of rows whose keys a compiled function writes, of one row as of many."""

    _words = 1  # integers of a key

    @abstractmethod
    def _kernel(self) -> tuple[Callable[..., int], tuple[NDArray[Any], ...]]:
        """A function of rows [n, d], of arrays that were learnt, which are the second, and of keys
        [n, words] that it writes: -1, or the place of a value that is not finite."""

    def _codes(self, x: NDArray[Any]) -> NDArray[np.int64]:
        kernel, learnt = self._kernel()
        keys = np.empty((len(x), self._words), dtype=np.int64)
        refuse_not_finite(x, place=int(kernel(x, *learnt, keys)))
        return keys[:, 0] if self._words == 1 else keys

    def _row_writer(self, row: NDArray[Any], key: NDArray[np.int64]) -> Write | None:
        kernel, learnt = self._kernel()
        arguments = (row, *learnt, key)

        def write() -> None:
            wrong = kernel(*arguments)
            if wrong >= 0:
                refuse_not_finite(row, place=wrong)

        return write


def _width(form: Any) -> int:
    """Columns of the rows of observations of a form."""
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape in form)


def standardised(x: NDArray[Any], unit: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and one over the standard deviation of each column; that of a unit is the root mean
    square of its columns'. Of constant ones it is 0: they are left out."""
    mean, deviation = moments(x)
    deviation[deviation <= _CONSTANT * np.abs(mean)] = 0.0
    squares = np.bincount(unit, deviation**2) / np.bincount(unit)
    shared = np.sqrt(squares)[unit]
    return mean, np.divide(1.0, shared, out=np.zeros_like(shared), where=shared > 0.0)

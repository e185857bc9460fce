"""Equal observations, equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.leaves import Leaf
from sibling_replay.grouping.row_map import RowMap

_WORD = 8  # bytes of a key's integers


@dataclass(eq=False, repr=False)
class Exact(RowMap):
    """Siblings have equal observations. There is nothing to fit.

    A `ReplayBuffer` compares the observations it stores anyway; elsewhere keys are their bytes.

    Examples:
        >>> key = Exact()
        >>> support(key, np.array([[1.0], [1.0], [2.0]]), np.zeros(3, dtype=int)).groups
        2
    """

    word: ClassVar[Literal["exact"] | None] = "exact"

    @property
    def fitted(self) -> bool:
        return True

    @property
    def is_exact(self) -> bool:
        return True

    def fit(self, obs: Any, action: Any = None) -> Exact:
        return self

    def _check_form(self, leaves: Sequence[Leaf]) -> None:
        pass

    def _learn(self, x: NDArray[Any], unit: NDArray[np.int64]) -> None:
        pass

    def _matrix(self, leaves: Sequence[Leaf]) -> NDArray[Any]:
        """The bytes of each entry, those of its leaves one after the other."""
        cells = [_bytes(leaf.values) for leaf in leaves]
        return cells[0] if len(cells) == 1 else np.concatenate(cells, axis=1)

    def _codes(self, x: NDArray[Any]) -> NDArray[np.int64]:
        return packed_bytes(x if x.dtype == np.uint8 else _bytes(x))


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """[n, bytes]; 0.0 for -0.0, so that equal numbers have equal bytes."""
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)
    rows = np.ascontiguousarray(values.reshape(len(values), -1))
    return rows.view(np.uint8).reshape(len(rows), -1)


def packed_bytes(cells: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Bytes as integers, [n], or [n, k] of more than eight bytes."""
    words = -(-cells.shape[1] // _WORD)
    padded = np.zeros((len(cells), words * _WORD), dtype=np.uint8)
    padded[:, : cells.shape[1]] = cells
    keys = padded.view(np.int64)
    return keys[:, 0].copy() if words == 1 else keys

"""Batches of observations of any space as a list of plain arrays, its leaves.

A batch is an array with an entry in each row (Box, Discrete, MultiDiscrete, MultiBinary), or a
mapping or tuple of batches (Dict, Tuple), nested as one likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ACTION = "<action>"  # the name of the leaf of continuous actions


class Leaf(NamedTuple):
    """One array of a batch."""

    name: str  # "" of an observation that is one array, else the way to it: "camera", "0.speed"
    values: NDArray[Any]  # [n, ...]

    @property
    def form(self) -> list[Any]:
        """Name and shape of an entry, as plain data."""
        return [self.name, list(self.values.shape[1:])]


def leaves_of(obs: Any, action: Any = None) -> list[Leaf]:
    """The leaves of a batch, in an order that does not depend on how a mapping was made. Actions
    that are real numbers are one of them: others tell siblings apart as they are."""
    leaves = list(_walk("", obs))
    if not leaves:
        raise ValueError("there is nothing in these observations")
    if action is not None:
        actions = _plain("actions", action)
        if actions.dtype.kind == "f":
            leaves.append(Leaf(ACTION, actions))
    rows = {leaf.name: len(leaf.values) for leaf in leaves}
    if len(set(rows.values())) > 1:
        raise ValueError(f"observations have different numbers of rows: {rows}")
    return leaves


def _walk(name: str, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        parts = [(str(key), batch[key]) for key in sorted(batch, key=str)]
    elif isinstance(batch, tuple):
        parts = [(str(place), part) for place, part in enumerate(batch)]
    else:
        values = _plain(f"observations{f' {name!r}' if name else ''}", batch)
        yield Leaf(name, values)
        return
    for key, part in parts:
        yield from _walk(f"{name}.{key}" if name else key, part)


def _plain(what: str, batch: Any) -> NDArray[Any]:
    """A batch as an array that kernels can be compiled for."""
    values = np.asarray(batch)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be numbers, not {values.dtype}")
    if values.ndim == 0:
        raise ValueError(f"{what}: expected an entry in each row, got a single number")
    dtype = values.dtype
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        dtype = np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))


def joined(leaves: Sequence[Leaf]) -> NDArray[Any]:
    """[n, d]: the values of each entry in a row; a single leaf keeps its dtype."""
    flat = [leaf.values.reshape(len(leaf.values), -1) for leaf in leaves]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1, dtype=np.float64)


def units(leaves: Sequence[Leaf]) -> NDArray[np.int64]:
    """[d]: which columns are in one unit. The values of an image, of two axes or more, share theirs
    and so their scale; others have one each."""
    found: list[int] = []
    for leaf in leaves:
        width = int(np.prod(leaf.values.shape[1:], dtype=np.int64))
        first = found[-1] + 1 if found else 0
        found += [first] * width if is_image(leaf) else list(range(first, first + width))
    return np.array(found, dtype=np.int64)


def is_image(leaf: Leaf) -> bool:
    return leaf.values.ndim > 2


def parts_of(batch: Any) -> list[Any]:
    """A batch as it is, or what it is made of, if that is several parts."""
    if not isinstance(batch, (Mapping, tuple)):
        return [batch]
    return [leaf.values for leaf in leaves_of(batch)]


def as_rows(batch: Any) -> NDArray[Any]:
    """A batch of several parts as one array, with the numbers of an entry in a row; one array as it
    is."""
    return joined(leaves_of(batch)) if isinstance(batch, (Mapping, tuple)) else np.asarray(batch)


def one_row(obs: Any) -> Any:
    """One observation as a batch of one."""
    if isinstance(obs, Mapping):
        return {key: one_row(part) for key, part in obs.items()}
    return tuple(map(one_row, obs)) if isinstance(obs, tuple) else np.asarray(obs)[None]


def row(obs: Any, place: int | slice) -> Any:
    """One observation of a batch, or some of them."""
    if isinstance(obs, Mapping):
        return {key: row(part, place) for key, part in obs.items()}
    # By index: a host's batch of several parts may have no other way to its rows.
    return tuple(row(part, place) for part in obs) if isinstance(obs, tuple) else obs[place]


def stacked(rows: Sequence[Any]) -> Any:
    """Observations, one by one, as a batch."""
    if isinstance(rows[0], Mapping):
        return {key: stacked([row[key] for row in rows]) for key in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(stacked(part) for part in zip(*rows, strict=True))
    return np.stack([np.asarray(row) for row in rows])

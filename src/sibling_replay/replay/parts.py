"""Observations of several parts (Dict and Tuple spaces) as one field of bytes.

A row, a key and an outcome hold the parts one after the other, each on a multiple of eight bytes,
so that kernels see one array; equal values are equal bytes. Users see the parts: a mapping or tuple
of arrays, nested as the space is, which are views of those bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import U8
from sibling_replay.replay.payload import Field

Tree: TypeAlias = Any  # a Field, or a mapping or tuple of trees
_ALIGNED = 8  # bytes

# Of a part's field, its name for people and its value: the value as an array of the field's dtype.
Convert: TypeAlias = Callable[[Field, str, Any], NDArray[Any]]


@dataclass(frozen=True, init=False)
class Parts(Field):
    """A field of several parts: Parts({"camera": Field(...), "speed": Field(...)}), or of a tuple.

    Parts may have parts themselves.

    Examples:
        >>> speed, seen = Field(np.dtype(np.float32)), Field(np.dtype(bool), (3, 3))
        >>> parts = Parts({"speed": speed, "seen": seen})  # the obs and next_obs of a buffer
        >>> isinstance(parts, Parts)
        True
    """

    tree: Tree = None

    def __init__(self, tree: Mapping[str, Any] | tuple[Any, ...]) -> None:
        size = 0
        for name, field in _leaves(tree):
            if not isinstance(field, Field):
                raise TypeError(f"part {name!r} must be a Field(dtype, shape), not {field!r}")
            size += _space(field)
        if size == 0:
            raise ValueError("a field of parts needs at least one")
        object.__setattr__(self, "tree", _plain(tree))
        super().__init__(np.dtype(np.uint8), (size,))

    def opened(self, column: NDArray[Any]) -> Any:
        """The parts of a column [n, bytes]: arrays [n, ...] over its memory."""
        return self._open(self.tree, column, 0)[0]

    def _open(self, tree: Tree, column: NDArray[Any], start: int) -> tuple[Any, int]:
        if isinstance(tree, Field):
            cells = column[:, start : start + tree.width].view(tree.dtype)
            return cells.reshape(len(column), *tree.shape), start + _space(tree)
        found = []
        for _, part in _items(tree):
            opened, start = self._open(part, column, start)
            found.append(opened)
        if isinstance(tree, Mapping):
            return dict(zip(tree, found, strict=True)), start
        return tuple(found), start

    def closed(self, label: str, value: Any, rows: int | None, convert: Convert) -> U8:
        """Parts as bytes: of one element [bytes], or of `rows` of them [rows, bytes].

        Raises for a value of other parts, naming what is off; `convert` does so for each part.
        """
        block = np.zeros((1 if rows is None else rows, self.width), dtype=np.uint8)
        self._write(self.tree, label, value, self.opened(block), rows, convert)
        return block[0] if rows is None else block

    def _write(
        self, tree: Tree, label: str, value: Any, to: Any, rows: int | None, convert: Convert
    ) -> None:
        if isinstance(tree, Field):
            array = convert(tree, label, value)
            shape = tree.shape if rows is None else (rows, *tree.shape)
            if array.shape != shape:
                raise ValueError(f"{label}: expected shape {shape}, got {array.shape}")
            if tree.dtype.kind == "f":
                array = array + tree.dtype.type(0)  # no -0.0: equal values are equal bytes
            # Memory viewed as booleans may hold other bytes than 0 and 1.
            to[...] = array.view(np.uint8) != 0 if tree.dtype.kind == "b" else array
            return
        for name, part in _items(tree):
            _check_parts(tree, label, value)
            self._write(part, f"{label}[{name!r}]", value[name], to[name], rows, convert)


def _check_parts(tree: Tree, label: str, value: Any) -> None:
    """Refuse a value of other parts than the field's."""
    if isinstance(tree, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(tree):
            given = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise TypeError(f"{label}: expected a mapping of {sorted(tree)}, got {given}")
    elif not isinstance(value, tuple) or len(value) != len(tree):
        given = f"{len(value)}" if isinstance(value, tuple) else type(value).__name__
        raise TypeError(f"{label}: expected a tuple of {len(tree)} parts, got {given}")


def rows_of(value: Any) -> Any:
    """The first array of a value of parts: as long as all of them."""
    while isinstance(value, (Mapping, tuple)):
        value = next(iter(value.values() if isinstance(value, Mapping) else value), ())
    return value


def _items(tree: Tree) -> list[tuple[Any, Tree]]:
    return list(tree.items()) if isinstance(tree, Mapping) else list(enumerate(tree))


def _leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, (Mapping, tuple)):
        for key, part in _items(tree):
            if isinstance(tree, Mapping) and not isinstance(key, str):
                raise TypeError(f"a part must be named by a text, not {key!r}")
            yield from _leaves(part, f"{name}.{key}" if name else str(key))
    elif isinstance(tree, Parts):
        raise TypeError(f"part {name!r}: give its own parts, not a field made of them")
    else:
        yield name, tree


def _plain(tree: Tree) -> Tree:
    if isinstance(tree, Mapping):
        return {name: _plain(part) for name, part in tree.items()}
    return tuple(map(_plain, tree)) if isinstance(tree, tuple) else tree


def _space(field: Field) -> int:
    """Bytes of an element with what comes before the next part."""
    return -(-field.width // _ALIGNED) * _ALIGNED


# ------------------------------------------------------------------------ as plain data


def form_of(field: Any) -> list[Any]:
    """A field as plain data, for a file."""
    tree = field.tree if isinstance(field, Parts) else field
    if isinstance(tree, Mapping):
        return ["dict", {name: form_of(part) for name, part in tree.items()}]
    if isinstance(tree, tuple):
        return ["tuple", [form_of(part) for part in tree]]
    return [tree.dtype.str, list(tree.shape)]


def field_of_form(form: Any, bounds: Any = None) -> Field:
    """The field that `form_of` made plain data of. Raises anything for what is none."""
    tree = _tree_of_form(form)
    return Field(tree.dtype, tree.shape, bounds) if isinstance(tree, Field) else Parts(tree)


def _tree_of_form(form: Any) -> Tree:
    kind, rest = form
    if kind == "dict":
        return {name: _tree_of_form(part) for name, part in rest.items()}
    if kind == "tuple":
        return tuple(map(_tree_of_form, rest))
    return Field(np.dtype(kind), tuple(rest))

"""Checked input: what the caller has becomes what the kernels take, or an error names what is off.

Nothing of the buffer is touched here, so input that is refused leaves no trace.

One transition of plain Python or NumPy scalars and arrays of the right dtype takes a fast path;
everything else is converted field by field, or an error names what is wrong.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.kernels import as_truths
from sibling_replay.grouping.key_map import KeyMap
from sibling_replay.grouping.leaves import row
from sibling_replay.replay.arrays import U8
from sibling_replay.replay.parts import Parts, rows_of
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.schema import GROUP_KEY, TRANSITION

_STRUCT_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip

# What `struct` may be trusted with: it would also take any object's truth value for a boolean, drop
# the imaginary part of a complex number, and take a tensor of one element for a whole number.
# Whether a whole number is in range it checks itself.
_BOOLS = frozenset({bool, np.bool_})
_REALS = frozenset({int, float, np.float64, np.float32, np.float16, np.int64, np.int32})
_WHOLES = frozenset(
    {int, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8}
)
_SCALARS = {"b": _BOOLS, "f": _REALS, "i": _WHOLES, "u": _WHOLES}
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Staging:
    """Turns the values of one transition, or columns of several, into a block of a layout.

    `names` is the order in which values are given: the six of a transition, the user's own fields,
    and the stored key, if `key` makes one. Of one transition the key is not given where its map
    writes it itself, from the observation in the block.
    """

    def __init__(
        self,
        layout: Layout,
        names: Sequence[str],
        key: Literal["exact", "given"] | KeyMap | None = None,
    ) -> None:
        self._layout = layout
        self._names = tuple(names)
        assert self._names[: len(TRANSITION)] == TRANSITION
        self._fields = layout.fields
        self._key = key
        self._map = key if isinstance(key, KeyMap) else None
        self._extra = tuple(n for n in self._names if n not in (*TRANSITION, GROUP_KEY))
        self.block: U8 = np.zeros(layout.columns(1)[1], dtype=np.uint8)  # used for every transition
        self._write_key = self._key_writer()
        self._given = tuple(
            name for name in self._names if name != GROUP_KEY or self._write_key is None
        )
        self.takes_six = self._given == TRANSITION  # one transition, by `stage`
        # Values of one transition, in the order of `names`, to their block.
        self.stage = self._compiled_stage()

    def _key_writer(self) -> Callable[[], None] | None:
        """What writes the key of the observation in the block, if the map can."""
        if self._map is None or isinstance(self._fields["obs"], Parts):
            return None
        key = self._view(GROUP_KEY).reshape(1, -1)
        if key.dtype != np.int64:
            return None
        return self._map.writer(self._view("obs"), key, self._fields["action"].dtype)

    def _view(self, name: str, dtype: Any = None) -> NDArray[Any]:
        """A field of the transition in the block."""
        field, offset = self._fields[name], self._layout.columns(1)[0][name][2]
        view: NDArray[Any] = np.ndarray(field.shape, dtype or field.dtype, self.block, offset)
        return view

    def _compiled_stage(self) -> Callable[..., U8]:
        """The fast path, written out for the fields there are: a loop over them takes twice as
        long.

        For a transition of images and an integer action it reads
            if (type(v0) is ndarray and v0.dtype is dtype0 and v0.shape == shape0 and ...):
                pack(block, 0, v1, v0.tobytes(), ...)
        and after that, where the key is made from the block
                write_key()
        """
        places, _ = self._layout.columns(1)
        given = [f"v{place}" for place in range(len(self._given))]
        known: dict[str, Any] = {
            "ndarray": np.ndarray, "isfinite": isfinite,
            "block": self.block, "slowly": self._stage_slowly,
            "unfit": (struct.error, TypeError, ValueError, OverflowError),
            "write_key": self._write_key,
        }  # fmt: skip
        code, end = "=", 0
        tests, packed = [], []
        for name in sorted(self._given, key=lambda name: places[name][2]):
            field, offset, place = self._fields[name], places[name][2], self._given.index(name)
            value = given[place]
            if isinstance(field, Parts):  # for the way below: bytes are not a user's to give
                tests.append("False")
            if field.shape:
                known |= {f"dtype{place}": field.dtype, f"shape{place}": field.shape}
                tests.append(
                    f"type({value}) is ndarray and {value}.dtype is dtype{place} "
                    f"and {value}.shape == shape{place}"
                )
            else:
                known[f"types{place}"] = _SCALARS[field.dtype.kind]
                tests.append(f"type({value}) in types{place}")
            if name == "reward":
                tests.append(f"isfinite({value})")
            if field.bounds is not None:
                known[f"low{place}"], known[f"high{place}"] = field.bounds
                tests.append(f"low{place} <= {value} <= high{place}")
            packed.append(f"{value}.tobytes()" if field.shape else value)
            kind = _STRUCT_CODES[field.dtype.kind + str(field.dtype.itemsize)]
            code += f"{offset - end}x" + (f"{field.width}s" if field.shape else kind)
            end = offset + field.width
        known["pack"] = struct.Struct(code).pack_into
        then = ["write_key()"] if self._write_key is not None else []
        if then and self._fields["obs"].packed:
            known |= {"as_truths": as_truths, "truths": self._view("obs", np.uint8).reshape(-1)}
            then.insert(0, "as_truths(truths)")
        exec(  # nothing in it is the caller's: fields appear by number, dtypes and shapes by name
            f"""def stage({", ".join(given)}):
    try:
        if {" and ".join(tests)}:
            {"; ".join([f"pack(block, 0, {', '.join(packed)})", *then])}
            return block
    except unfit:
        pass
    return slowly({", ".join(given)})
""",
            known,
        )
        stage: Callable[..., U8] = known["stage"]
        return stage

    def _stage_slowly(self, *values: Any) -> U8:
        """The same for values that need converting, or an error that names the field."""
        columns = [
            self._element(name, value)[np.newaxis]
            for name, value in zip(self._given, values, strict=True)
        ]
        self._fill(self.block, self._given, columns, 1)
        if self._write_key is not None:
            self._write_key()
        return self.block

    def _element(self, name: str, value: Any) -> NDArray[Any]:
        """One value of a field, as an array of its dtype and shape."""
        field = self._fields[name]
        if isinstance(field, Parts):
            return field.closed(name, value, None, converted)
        array = converted(field, self._label(name), value)
        if array.shape != field.shape:
            raise ValueError(
                f"{self._label(name)}: expected shape {self._fields[name].shape}, got {array.shape}"
            )
        return array

    def stage_many(self, values: Sequence[Any]) -> tuple[U8, int]:
        """The block of several transitions given as columns, and how many they are."""
        columns: list[NDArray[Any]] = []
        for name, value in zip(self._names, values, strict=True):
            column = self._column(name, value)
            if columns and len(column) != len(columns[0]):
                raise ValueError(
                    f"{self._label(name)}: expected {len(columns[0])} entries, as many as of "
                    f"{self._names[0]}, got {len(column)}"
                )
            columns.append(column)
        count = len(columns[0])
        block = np.zeros(self._layout.columns(count)[1], dtype=np.uint8)
        self._fill(block, self._names, columns, count)
        return block, count

    def _column(self, name: str, value: Any) -> NDArray[Any]:
        """Values of a field, one a row, as an array of its dtype."""
        field = self._fields[name]
        if isinstance(field, Parts):
            rows = as_array(name, rows_of(value)).shape[:1]
            if not rows:
                raise ValueError(f"{name}: expected columns, with an entry in each row")
            return field.closed(name, value, rows[0], converted)
        column = converted(field, self._label(name), value)
        shape = field.shape
        if column.ndim == 0 or column.shape[1:] != shape:
            raise ValueError(
                f"{self._label(name)}: expected a column of entries of shape {shape}, "
                f"got an array of shape {column.shape}"
            )
        return column

    def _label(self, name: str) -> str:
        """How the caller knows a field."""
        if name != GROUP_KEY:
            return name
        return "group" if self._map is None else f"the key by {self._map!r}"

    def _fill(
        self, block: U8, names: Sequence[str], columns: Sequence[NDArray[Any]], count: int
    ) -> None:
        """Write converted columns to their places in a block."""
        places, _ = self._layout.columns(count)
        for name, column in zip(names, columns, strict=True):
            shape, dtype, offset = places[name]
            view: NDArray[Any] = np.ndarray(shape, dtype, block, offset)
            if name == "reward" and not np.isfinite(column).all():
                place = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ValueError(
                    f"reward{f' {place}' if count > 1 else ''} is {column[place]}: "
                    f"it must be finite"
                )
            if dtype.kind == "b":  # memory viewed as booleans may hold other bytes than 0 and 1
                np.not_equal(column.view(np.uint8), 0, out=view)
            else:
                view[...] = column

    def extra_values(
        self, extra: dict[str, Any], group: Any, obs: Any, action: Any, *, many: bool
    ) -> tuple[Any, ...]:
        """Values beyond the six of a transition, or columns of many, in the order of `names`."""
        if tuple(extra) != self._extra:
            unknown = sorted(set(extra) - set(self._extra))
            missing = sorted(set(self._extra) - set(extra))
            if unknown or missing:
                raise TypeError(f"fields missing: {missing}; not in the schema: {unknown}")
        values = tuple(extra[name] for name in self._extra)
        if (self._key == "given") != (group is not None):
            raise TypeError(
                'a buffer with key="given" needs a group for every transition'
                if self._key == "given"
                else "group was given, but this buffer makes its groups itself: "
                'key="given" takes them'
            )
        if group is not None:
            return (*values, group)
        if self._map is None or (self._write_key is not None and not many):
            return values
        keyed = self._keys_of if many else self._key_of
        return (*values, keyed(self._map, obs, action))

    def _key_of(self, key: KeyMap, obs: Any, action: Any) -> Any:
        """The key of one transition: a map is given observations and actions as they are stored."""
        stored = as_stored(self._element("obs", obs))
        field = self._fields["obs"]
        seen = row(field.opened(stored[None]), 0) if isinstance(field, Parts) else stored[()]
        return key(seen, as_stored(self._element("action", action))[()])

    def _keys_of(self, key: KeyMap, obs: Any, action: Any) -> Any:
        """The keys of several transitions, by one call of the map."""
        columns = self._column("obs", obs), self._column("action", action)
        if len(columns[0]) != len(columns[1]):
            raise ValueError(
                f"obs and action: expected as many entries of the one as of the other, got arrays "
                f"of shapes {columns[0].shape} and {columns[1].shape}"
            )
        if len(columns[0]) == 0:
            return np.empty((0, *self._fields[GROUP_KEY].shape), self._fields[GROUP_KEY].dtype)
        stored, actions = map(as_stored, columns)
        return key.keys(self._fields["obs"].opened(stored), actions)


def converted(field: Field, label: str, value: Any) -> NDArray[Any]:
    """A value as an array of its field's dtype, if that loses nothing of its kind."""
    _refuse_masked(label, value)
    try:
        array = np.asarray(value)
    except Exception as error:  # whatever the caller's object raises on the way to an array
        raise ValueError(f"{label}: cannot be read as an array: {error}") from error
    if field.bounds not in (None, (0, 1)) and label != "action" and array.dtype.kind == "b":
        raise TypeError(f"{label}: expected a whole number, got the truth value {value!r}")
    if array.dtype != field.dtype:
        array = _cast(array, field, label)
    if field.bounds is not None:
        low, high = field.bounds
        outside = (array < low) | (array > high)
        if outside.any():
            space = f"Discrete({high - low + 1}{f', start={low}' if low else ''})"
            raise ValueError(
                f"{label}: {array[outside].ravel()[0]} is not in {space}: it must be from "
                f"{low} to {high}"
            )
    return array


def as_stored(array: NDArray[Any]) -> NDArray[Any]:
    """Values as rows hold them: no -0.0, and every kind of true is one."""
    if array.dtype.kind == "f":
        return np.asarray(array + array.dtype.type(0))
    return np.asarray(array.view(np.uint8) != 0) if array.dtype.kind == "b" else array


def _cast(array: NDArray[Any], field: Field, label: str) -> NDArray[Any]:
    """Real numbers as floats, whole numbers in range as integers, 0 and 1 as booleans; no more."""
    kind, to = array.dtype.kind, field.dtype.kind
    if kind not in "biuf" or (kind == "f" and to != "f"):
        raise TypeError(f"{label}: expected dtype {field.dtype}, got {array.dtype}")
    if to == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            cast = array.astype(field.dtype)
        unfit = np.isinf(cast) & np.isfinite(array)
    else:
        limits = np.iinfo(field.dtype) if to != "b" else None
        least, most = (limits.min, limits.max) if limits else (0, 1)
        unfit = np.zeros(0, dtype=bool) if kind == "b" else (array < least) | (array > most)
        cast = array.astype(field.dtype)
    if unfit.any():
        raise ValueError(f"{label}: {array[unfit].ravel()[0]} is out of range for {field.dtype}")
    return cast


def td_errors_as_array(td_errors: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """TD errors of a batch as an array of a dtype the kernels are compiled for."""
    given = td_errors if type(td_errors) is np.ndarray else as_array("the TD errors", td_errors)
    if given.shape != shape:
        raise ValueError(f"expected {shape[0]} TD errors, got shape {given.shape}")
    dtype = given.dtype
    if (dtype is _FLOAT32 or dtype is _FLOAT64) and given.flags.carray:
        return given
    if dtype.kind not in "fiu":
        raise TypeError(f"TD errors must be real numbers, not {dtype}")
    return given.astype(np.float64)


def signal_as_array(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """What a learner says of the rows of a batch, finite."""
    given = as_array(f"signal {name}", values)
    if given.dtype.kind not in "fiu" or given.shape != shape:
        raise ValueError(
            f"signal {name}: expected {shape[0]} numbers, got {given.dtype} of shape {given.shape}"
        )
    signal = given.astype(np.float64)
    if not np.isfinite(signal).all():
        raise ValueError(f"signal {name} has {signal[~np.isfinite(signal)][0]}")
    return signal


def as_array(what: str, values: Any) -> NDArray[Any]:
    """Values as an array, or an error that says of what."""
    _refuse_masked(what, values)
    try:
        return np.asarray(values)
    except Exception as error:  # a ragged list, a tensor that still requires gradients, ...
        raise ValueError(
            f"{what} cannot be read as an array: {what} must be numbers ({error})"
        ) from error


def _refuse_masked(what: str, values: Any) -> None:
    """NumPy would take what lies under a mask for the value."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    if any(np.ma.is_masked(part) for part in parts):
        raise ValueError(f"{what}: some values are masked: fill or leave out what is missing")


def importance_exponent(beta: Any) -> float:
    """Beta, or an error that says what is wrong with it."""
    try:
        in_range, exponent = 0.0 <= beta <= 1.0, float(beta)
    except (TypeError, ValueError) as error:
        raise TypeError(f"beta must be a number from 0 to 1, not {beta!r}") from error
    except OverflowError as error:
        raise ValueError("beta must be from 0 to 1, and is too large to be a float") from error
    if not in_range:
        raise ValueError(f"beta must be from 0 to 1, got {exponent}")
    return exponent


def whole_number(name: str, value: Any) -> int:
    """A whole number, or an error that names it."""
    try:
        if isinstance(value, np.bool_):  # which some versions of NumPy take, with a warning
            raise TypeError("a truth value")
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from error

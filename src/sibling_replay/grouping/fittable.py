"""Maps that are fitted to observations once and frozen then."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.kernels import first_not_finite
from sibling_replay.grouping.key_map import KeyMap, MapState
from sibling_replay.grouping.leaves import ACTION, Leaf, leaves_of, one_row, stacked

if TYPE_CHECKING:
    from sibling_replay.grouping.auto import KeyChoice

FIT_AFTER = 2_000  # entries of a buffer, from which a map given to it unfitted is fitted

Arrays = dict[str, NDArray[Any]]
Self = TypeVar("Self", bound="FittableMap")


class NotFitted(ValueError):
    """A map was asked for keys before it was fitted.

    Examples:
        >>> Grid(2).keys(np.zeros((1, 2)), np.zeros(1, dtype=int))
        Traceback (most recent call last):
            ...
        sibling_replay.grouping.fittable.NotFitted: ...
    """


@dataclass(eq=False, repr=False)
class FittableMap(KeyMap):
    """A map with options, which `fit` completes from observations. It never changes afterwards.

    Observations are arrays with an entry in each row, or mappings or tuples of these. Actions that
    are real numbers are binned together with the observation; others tell siblings apart as they
    are, and are no concern of the map. All values must be finite.

    A map of your own kind is best a `RowMap`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> key = Grid(2)
        >>> key.fitted, key.fit(rng.normal(size=(100, 2))).fitted
        (False, True)
    """

    kinds: ClassVar[dict[str, type[FittableMap]]] = {}  # by name, for those in files

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = FittableMap.kinds.get(cls.__name__)
        if known is not None and _place(known) != _place(cls):  # files and copies go by the name
            raise ValueError(
                f"the name {cls.__name__!r} belongs to {_place(known)}: choose another for your map"
            )
        FittableMap.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        self._form: list[Any] | None = None  # of the observations it was fitted to
        self._digest = ""

    # ---------------------------------------------------------- what a kind of map defines

    @abstractmethod
    def fit(self: Self, obs: Any, action: Any = None) -> Self:
        """Learn from a batch of observations and, where these are real numbers, actions."""

    @abstractmethod
    def keys(self, obs: Any, action: Any = None) -> NDArray[np.int64]:
        """Whole numbers, [n], or [n, k] where one an entry is not enough."""

    @abstractmethod
    def _arrays(self) -> Arrays:
        """What was learnt, by name."""

    @abstractmethod
    def _restore(self, spec: Mapping[str, Any], arrays: Arrays) -> None:
        """Take over the `spec` and `arrays` of a state, which may come from a damaged file."""

    @property
    def levels(self) -> tuple[int, ...]:
        """Sizes at which this map nests, coarse to fine: for each there is a `coarser` one."""
        return ()

    def coarser(self: Self, level: int) -> Self:
        """The map of another of the `levels`: each of its groups is a union of this map's."""
        if self._form is None:
            raise NotFitted(f"{self!r} is not fitted, so there is nothing to make coarser")
        if level not in self.levels:
            raise ValueError(f"{self!r} has the levels {self.levels}, not {level!r}")
        return self._at(level)

    def _at(self: Self, level: int) -> Self:
        """The map of a level that there is."""
        raise NotImplementedError(f"{type(self).__name__} has levels, so it must define _at")

    @property
    def chooses(self) -> bool:
        """Whether it takes one of several maps, and so may take another when more is stored."""
        return False

    @property
    def choice(self) -> KeyChoice | None:
        """What it has chosen, and why, if it is one that chooses."""
        return None

    def fit_by(self: Self, obs: Any, action: Any, priority: Any) -> Self:
        """`fit`, and where it chooses, by the priorities of the entries, too."""
        return self.fit(obs, action)

    # --------------------------------------------------------------------------------- fit

    @property
    def fitted(self) -> bool:
        return self._form is not None

    @property
    def fit_after(self) -> int:
        """Entries of a buffer to be fitted from, where it was given unfitted."""
        return FIT_AFTER

    def _leaves_to_fit(self, obs: Any, action: Any) -> list[Leaf]:
        """The leaves of a batch, finite, or an error that says why nothing can be learnt."""
        if self.fitted:
            raise ValueError(f"{self!r} is fitted and frozen: make a new one to fit it again")
        leaves = leaves_of(obs, action)
        count = len(leaves[0].values)
        if count == 0:
            raise ValueError(f"{self!r} cannot be fitted to no observations")
        for leaf in leaves:
            refuse_not_finite(leaf.values.reshape(count, -1), leaf.name)
        return leaves

    def fit_env(
        self: Self, env: gym.Env[Any, Any], steps: int = 10_000, seed: int | None = 0
    ) -> Self:
        """Learn from so many steps of random actions in an environment."""
        if self.fitted:
            raise ValueError(f"{self!r} is fitted and frozen: make a new one to fit it again")
        if hasattr(env, "num_envs"):
            raise TypeError("give one environment, not a vector of them")
        space = copy.deepcopy(env.action_space)  # the caller's own goes on as it would have
        space.seed(seed)
        seen, done = [], []
        obs, _ = env.reset(seed=seed)
        for _ in range(steps):
            action = space.sample()
            seen.append(copy.deepcopy(obs))
            done.append(action)
            obs, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                obs, _ = env.reset()
        return self.fit(stacked(seen), stacked(done)) if seen else self.fit([])

    def unfitted(self: Self) -> Self:
        """A map with the same options, to be fitted."""
        return type(self)(**self.options())

    def options(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        """The first option and those that are not as by default."""
        shown = []
        for place, field in enumerate(fields(self)):
            value = getattr(self, field.name)
            made = field.default_factory
            default = field.default if made is MISSING else made()
            if place == 0 or repr(value) != repr(default):
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    # -------------------------------------------------------------------------------- keys

    def __call__(self, obs: Any, action: Any = None) -> Any:
        return self.keys(one_row(obs), None if action is None else one_row(action))[0]

    def covers(self, action: np.dtype[Any]) -> bool:
        return action.kind == "f"

    def _suits_writer(self, obs: NDArray[Any], action: np.dtype[Any]) -> bool:
        """Whether keys are of this one array alone, and of a dtype that kernels know."""
        plain = self._form == [["", list(obs.shape)]] and obs.dtype != np.float16
        return plain and not self.covers(action)

    def _check_form(self, leaves: Sequence[Leaf]) -> None:
        """Refuse observations of another form than those of the fit."""
        form = [leaf.form for leaf in leaves]
        if form == self._form:
            return
        if self._form is None:
            raise NotFitted(
                f"{self!r} is not fitted: call fit(obs) or fit_env(env), or give it to a "
                f"ReplayBuffer, which fits it to its first {self.fit_after:,} entries"
            )
        continuous = [leaves[-1].name == ACTION, self._form[-1][0] == ACTION]
        if continuous == [True, False]:
            raise ValueError(
                f"{self!r} was fitted without actions, and these are real numbers: fit(obs, action)"
            )
        if continuous == [False, True]:
            raise ValueError(f"{self!r} was fitted with actions that are real numbers: give them")
        raise ValueError(
            f"{self!r} was fitted to observations of shape {_described(self._form)}, "
            f"and these have {_described(form)}"
        )

    # ------------------------------------------------------------------------------- state

    @property
    def digest(self) -> str:
        if not self._digest or not self.fitted:
            spec, arrays = self.state()
            found = hashlib.blake2b(json.dumps(spec, sort_keys=True).encode(), digest_size=16)
            for name in sorted(arrays):
                array = arrays[name]
                found.update(repr((name, array.dtype.str, array.shape)).encode())
                found.update(np.ascontiguousarray(array).tobytes())
            self._digest = found.hexdigest()
        return self._digest

    def state(self) -> MapState:
        """Options and what was learnt, for `from_state`."""
        options = {name: _as_plain(value) for name, value in self.options().items()}
        spec = {"kind": type(self).__name__, "options": options, "form": self._form}
        return MapState(spec, self._arrays())

    @staticmethod
    def from_state(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittableMap:
        """The map of a state. One that does not hold together is refused."""
        kind = FittableMap.kinds.get(spec["kind"])
        if kind is None:
            raise ValueError(f"a map of kind {spec['kind']!r} is not known here: import it first")
        found = kind(**{name: _from_plain(value) for name, value in spec["options"].items()})
        if spec["form"] is not None:
            found._restore(spec, {name: np.array(array) for name, array in arrays.items()})
            found._form = [[str(name), [int(n) for n in shape]] for name, shape in spec["form"]]
        return found


def _place(kind: type[FittableMap]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _as_plain(value: Any) -> Any:
    if isinstance(value, FittableMap):
        return {"map": value.unfitted().state().spec}
    return list(value) if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FittableMap.from_state(value["map"], {})
    return tuple(value) if isinstance(value, list) else value


def _described(form: list[Any]) -> str:
    return ", ".join(f"{name}{' ' if name else ''}{tuple(shape)}" for name, shape in form)


def refuse_not_finite(rows: NDArray[Any], name: str = "", place: int | None = None) -> None:
    """Raise for a value, the one at a place if it is known, that is NaN or infinite."""
    if place is None:
        place = int(first_not_finite(rows)) if rows.dtype.kind == "f" and rows.size else -1
    if place >= 0:
        row, column = divmod(place, rows.shape[1])
        raise ValueError(
            f"observations must be finite: dimension {column}{f' of {name}' if name else ''} of "
            f"row {row} is {rows[row, column]}"
        )


def check_array(name: str, array: Any, dtype: type, shape: tuple[int | None, ...]) -> None:
    """Refuse an array of a state that is not what kernels were compiled for; None: any length."""
    fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == len(shape)
    if not fits or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(
            f"{name} must be {np.dtype(dtype)} of shape {shape}, not "
            f"{getattr(array, 'dtype', type(array))} of {np.shape(array)}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite")


def check_whole(name: str, value: Any, least: int, most: int) -> int:
    """An option that is a whole number, Python's or NumPy's, as Python's, which files can hold."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most:,}, not {value!r}")
    return int(value)

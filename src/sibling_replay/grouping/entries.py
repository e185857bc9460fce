"""Some entries of an observation of several parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.exact import Exact
from sibling_replay.grouping.fittable import Arrays, FittableMap
from sibling_replay.grouping.key_map import MapState
from sibling_replay.grouping.leaves import leaves_of

if TYPE_CHECKING:
    from sibling_replay.grouping.auto import KeyChoice

_THEN = "then/"  # before the names of that map's arrays


@dataclass(eq=False, repr=False)
class Entries(FittableMap):
    """Siblings by some entries of a Dict or Tuple observation; the others do not matter.

    names: of the entries, "speed" say; of a Tuple their places, "0"; those within others after a
        point, "arm.speed". A name stands for all that is within.
    then: the map that gets these entries.

        ReplayBuffer.for_env(env, 50_000, SiblingSample(), key=Entries(("speed",), then=Grid(8)))

    Examples:
        >>> obs = {"speed": np.array([1.0, 1.0, 2.0]), "noise": np.array([0.1, 0.2, 0.3])}
        >>> support(Entries("speed"), obs, np.zeros(3, dtype=int)).groups
        2
    """

    names: tuple[str, ...]
    then: FittableMap = field(default_factory=Exact)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        if not self.names or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"names must be those of entries, ('speed',) say, not {self.names!r}")
        if not isinstance(self.then, FittableMap):
            raise TypeError(f"then must be a map of `grouping`, not {self.then!r}")
        self._then = self.then.unfitted()

    @property
    def fitted(self) -> bool:
        return self._then.fitted

    @property
    def fit_after(self) -> int:
        return self.then.fit_after

    @property
    def chooses(self) -> bool:
        return self.then.chooses

    @property
    def choice(self) -> KeyChoice | None:
        return self._then.choice

    def fit(self, obs: Any, action: Any = None) -> Entries:
        return self.fit_by(obs, action, None)

    def fit_by(self, obs: Any, action: Any, priority: Any) -> Entries:
        if self.fitted and self._form is not None:
            raise ValueError(f"{self!r} is fitted and frozen: make a new one to fit it again")
        chosen = self._chosen(obs)
        self._then.fit_by(chosen, action, priority)
        self._form = [leaf.form for leaf in leaves_of(chosen, action)]
        return self

    def keys(self, obs: Any, action: Any = None) -> NDArray[np.int64]:
        return np.asarray(self._then.keys(self._chosen(obs), action))

    def _chosen(self, obs: Any) -> dict[str, NDArray[Any]]:
        """The entries by name, or an error that names those that there are."""
        leaves = {leaf.name: leaf.values for leaf in leaves_of(obs)}
        found: dict[str, NDArray[Any]] = {}
        for name in self.names:
            within = [leaf for leaf in leaves if leaf == name or leaf.startswith(f"{name}.")]
            if not within:
                known = ", ".join(leaves) if "" not in leaves else "none: it is one array"
                raise ValueError(f"{self!r}: there is no entry {name!r}; there are {known}")
            found |= {leaf: leaves[leaf] for leaf in within}
        return found

    def state(self) -> MapState:
        spec, arrays = super().state()
        inner = self._then.state()
        return MapState({**spec, "then": inner.spec}, arrays)

    def _arrays(self) -> Arrays:
        return {_THEN + name: array for name, array in self._then.state().arrays.items()}

    def _restore(self, spec: Mapping[str, Any], arrays: Arrays) -> None:
        own = {name.removeprefix(_THEN): array for name, array in arrays.items()}
        self._then = FittableMap.from_state(spec["then"], own)

"""A map that is chosen by how well its groups are filled."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.grouping.downscale import Downscale
from sibling_replay.grouping.exact import Exact
from sibling_replay.grouping.fittable import (
    FIT_AFTER,
    Arrays,
    FittableMap,
    check_whole,
)
from sibling_replay.grouping.grid import Grid
from sibling_replay.grouping.key_map import MapState
from sibling_replay.grouping.kmeans import KMeans
from sibling_replay.grouping.leaves import Leaf, is_image, leaves_of
from sibling_replay.grouping.row_map import RowMap
from sibling_replay.grouping.simhash import SimHash
from sibling_replay.grouping.support import explained, group_numbers

EXACT_ENOUGH = 0.05  # G / N up to which equal observations are taken
_FEW_DIMS = 6  # that a grid can fill
_SMALL = 16 * 16  # pixels of an image that need not be made smaller
_WINDOWS = (11, 8)  # rows and columns of what larger ones are made
BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1_024)
_MOST_BITS, _MOST_CENTRES = 40, 1_024
_CHOSEN = "chosen/"  # before the names of the chosen map's arrays

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyChoice:
    """A map, and why it was taken.

    Examples:
        >>> obs = np.random.default_rng(0).normal(size=(500, 2))
        >>> _, chosen = choose({"grid": [Grid(2).fit(obs)]}, obs)
        >>> chosen.key, chosen.groups_per_entry
        ('Grid(bins=2)', 0.008)
    """

    entries: int  # N, at the choice
    key: str  # the map, with its options
    digest: str
    groups_per_entry: float
    explained: float | None  # share of the variance of priority ranks, beyond chance
    reason: str


@dataclass(eq=False, repr=False)
class Auto(FittableMap):
    """Takes the map that suits the entries there are.

    * Exact, if equal observations repeat often enough: G / N at most 0.05; and if they are numbered
      states (Discrete), whose numbers say nothing about which are alike.
    * Else, of each kind that suits the observations (up to 6 dimensions Grid, SimHash and KMeans;
      wider ones SimHash and KMeans; images KMeans and SimHash, of small images where they are
      large), the finest with G / N at most `noise`; and of these the one whose groups explain most
      of the rank of priorities, beyond chance. Without priorities, the first.

    Noise kept is G / N, and that falls as entries come: so a buffer chooses first when it has
    `fit_after` entries and again whenever their number has doubled, and at no other time. Until
    then siblings are entries with equal action.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> obs = rng.normal(size=(2_000, 4))
        >>> key = Auto().fit(obs)
        >>> support(key, obs, np.zeros(2_000, dtype=int)).groups_per_entry <= 0.02
        True
    """

    noise: float = 0.02
    fit_after: int = FIT_AFTER
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.noise <= 1.0:
            raise ValueError(f"noise must be above 0 and at most 1, not {self.noise!r}")
        self.noise = float(self.noise)
        self.fit_after = check_whole("fit_after", self.fit_after, 1, 2**40)
        self.seed = check_whole("seed", self.seed, 0, 2**63)
        self.chosen: FittableMap | None = None
        self._choice: KeyChoice | None = None

    @property
    def chooses(self) -> bool:
        return True

    @property
    def choice(self) -> KeyChoice | None:
        return self._choice

    def fit_by(self, obs: Any, action: Any, priority: Any) -> Auto:
        return self.fit(obs, action, priority)

    def fit(self, obs: Any, action: Any = None, priority: ArrayLike | None = None) -> Auto:
        """Choose for a batch of entries. Actions of any kind count, as they tell groups apart."""
        leaves = self._leaves_to_fit(obs, action)
        count = len(leaves[0].values)
        ladders = _ladders(leaves, obs, action, self.noise * count, self.seed)
        self.chosen, self._choice = choose(ladders, obs, action, priority, self.noise)
        self._form = [leaf.form for leaf in leaves]
        _log.info("%d entries: %s: %s", count, self._choice.key, self._choice.reason)
        return self

    @property
    def is_exact(self) -> bool:
        return self.chosen is not None and self.chosen.is_exact

    def keys(self, obs: Any, action: Any = None) -> NDArray[np.int64]:
        if self.chosen is None:
            self._check_form(leaves_of(obs, action))
        assert self.chosen is not None
        return self.chosen.keys(obs, action)

    def writer(
        self, obs: NDArray[Any], key: NDArray[np.int64], action: np.dtype[Any]
    ) -> Callable[[], None] | None:
        return None if self.chosen is None else self.chosen.writer(obs, key, action)

    def state(self) -> MapState:
        spec, arrays = super().state()
        if self.chosen is None or self.choice is None:
            return MapState(spec, arrays)
        chosen = self.chosen.state().spec
        return MapState({**spec, "chosen": chosen, "choice": asdict(self.choice)}, arrays)

    def _arrays(self) -> Arrays:
        inner = {} if self.chosen is None else self.chosen.state().arrays
        return {_CHOSEN + name: array for name, array in inner.items()}

    def _restore(self, spec: Mapping[str, Any], arrays: Arrays) -> None:
        own = {name.removeprefix(_CHOSEN): array for name, array in arrays.items()}
        self.chosen = FittableMap.from_state(spec["chosen"], own)
        self._choice = KeyChoice(**spec["choice"])


def choose(
    ladders: Mapping[str, Iterable[FittableMap]],
    obs: Any,
    action: Any = None,
    priority: ArrayLike | None = None,
    noise: float = 0.02,
) -> tuple[FittableMap, KeyChoice]:
    """The map for these entries, and why.

    ladders: by name, maps of one kind, fitted, from coarse to fine; none if only equal observations
        are alike.
    priority: of each entry, or anything of its order, such as masses.

    Examples:
        >>> obs = np.random.default_rng(0).normal(size=(500, 2))
        >>> ladder = [Grid(bins).fit(obs) for bins in (2, 4, 8)]  # coarse to fine
        >>> map_taken, why = choose({"grid": ladder}, obs, noise=0.02)
        >>> map_taken
        Grid(bins=2)
    """
    exact = Exact()
    groups = group_numbers(exact.keys(obs, action), action)
    entries = groups.size
    least = _groups_per_entry(groups)
    if least <= EXACT_ENOUGH:
        reason = f"equal observations repeat: G/N {least:.4f} is at most {EXACT_ENOUGH}"
        return exact, KeyChoice(entries, repr(exact), exact.digest, least, None, reason)
    if not ladders:
        reason = f"states are numbers, alike only if equal: G/N {least:.4f}"
        return exact, KeyChoice(entries, repr(exact), exact.digest, least, None, reason)
    ranked = priority is not None and np.ptp(np.asarray(priority)) > 0.0
    found: list[tuple[float, FittableMap, float]] = []  # explained, map, G / N
    missed = []
    for name, ladder in ladders.items():
        finest = _finest_under(ladder, obs, action, noise)
        if finest is None:
            missed.append(name)
            continue
        rung, groups = finest
        gain = explained(groups, priority) if ranked and priority is not None else 0.0
        found.append((gain, rung, _groups_per_entry(groups)))
    if not found:
        return _action_alone(obs, action, entries, noise, missed)
    gain, taken, share = max(found, key=lambda one: one[0])  # of equals the first
    reason = f"the finest {type(taken).__name__} with G/N at most {noise:g}: {share:.4f}"
    others = [f"{rung!r} {g:.3f}" for g, rung, _ in found if rung is not taken]
    if ranked and others:
        reason += f"; explains {gain:.3f} of the rank of priorities beyond chance, and "
        reason += ", ".join(others)
    if missed:
        reason += f"; too fine at their coarsest: {', '.join(missed)}"
    kept = gain if ranked else None
    return taken, KeyChoice(entries, repr(taken), taken.digest, share, kept, reason)


def _finest_under(
    ladder: Iterable[FittableMap], obs: Any, action: Any, noise: float
) -> tuple[FittableMap, NDArray[np.int64]] | None:
    """The last map of a ladder before G / N exceeds `noise`, with its groups."""
    best = None
    for rung in ladder:
        groups = group_numbers(rung.keys(obs, action), action)
        if _groups_per_entry(groups) > noise:
            break
        best = rung, groups
    return best


def _action_alone(
    obs: Any, action: Any, entries: int, noise: float, missed: Sequence[str]
) -> tuple[FittableMap, KeyChoice]:
    """One group for each action: what is left where everything else is too fine."""
    alone = Grid(1).fit(obs, action)
    share = _groups_per_entry(group_numbers(alone.keys(obs, action), action))
    reason = (
        f"{' and '.join(missed)} have G/N above {noise:g} at their coarsest, with {entries:,} "
        f"entries: siblings are entries with equal action, G/N {share:.4f}"
    )
    return alone, KeyChoice(entries, repr(alone), alone.digest, share, None, reason)


def _groups_per_entry(groups: NDArray[np.int64]) -> float:
    return (int(groups.max()) + 1) / groups.size


def of_small_images(inner: FittableMap, obs: Any, action: Any) -> FittableMap:
    """A map of small images where they are large, else the map itself (as is `Auto`, which makes
    them small on its own)."""
    images = [leaf.values.shape[1:] for leaf in leaves_of(obs, action) if is_image(leaf)]
    large = any(math.prod(sorted(size)[-2:]) > _SMALL for size in images)
    return Downscale(_WINDOWS, None, inner) if large and isinstance(inner, RowMap) else inner


def _ladders(
    leaves: Sequence[Leaf], obs: Any, action: Any, most_groups: float, seed: int
) -> dict[str, Iterator[FittableMap]]:
    """Maps that suit observations, by kind, the likeliest kind first."""

    def fitted(inner: FittableMap) -> FittableMap:
        return of_small_images(inner, obs, action).fit(obs, action)

    def grids() -> Iterator[FittableMap]:
        for bins in BINS:
            yield Grid(bins).fit(obs, action)

    def hashes() -> Iterator[FittableMap]:
        finest = fitted(SimHash(min(_MOST_BITS, math.ceil(math.log2(most_groups + 2)) + 8), seed))
        for level in finest.levels:
            yield finest.coarser(level)

    def centres() -> Iterator[FittableMap]:
        k = 2
        while k <= min(_MOST_CENTRES, most_groups):
            yield fitted(KMeans(k, seed))
            k *= 2

    if all(leaf.values.ndim == 1 and leaf.values.dtype.kind in "iu" for leaf in leaves):
        return {}
    dims = sum(math.prod(leaf.values.shape[1:]) for leaf in leaves)
    if any(map(is_image, leaves)):
        return {"KMeans": centres(), "SimHash": hashes()}
    if dims <= _FEW_DIMS:
        return {"Grid": grids(), "SimHash": hashes(), "KMeans": centres()}
    return {"SimHash": hashes(), "KMeans": centres()}

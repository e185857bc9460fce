"""Maps from plain data and arrays, as buffers save them, and from a word on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from sibling_replay.grouping.auto import Auto
from sibling_replay.grouping.exact import Exact
from sibling_replay.grouping.fittable import FittableMap
from sibling_replay.grouping.grid import Grid
from sibling_replay.grouping.key_map import KeyMap
from sibling_replay.grouping.kmeans import KMeans
from sibling_replay.grouping.simhash import SimHash

_ENCODER = "FrozenEncoder"
_NUMBERED: dict[str, Any] = {"grid": Grid, "simhash": SimHash, "kmeans": KMeans}
KEY_WORDS = ("auto", "exact", *_NUMBERED)  # that `parse_key` reads


def map_from_state(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> KeyMap:
    """The map whose `state` this was, bit for bit. Raises anything for what is not one.

    Examples:
        >>> spec, arrays = Grid(2).fit(np.arange(8.0).reshape(4, 2)).state()
        >>> map_from_state(spec, arrays)
        Grid(bins=2)
    """
    if spec["kind"] == _ENCODER:
        from sibling_replay.grouping.vqvae.encoder import FrozenEncoder

        return FrozenEncoder.from_state(spec, arrays)
    return FittableMap.from_state(spec, arrays)


def parse_key(text: str) -> FittableMap:
    """The map of a spelling: auto, exact, grid:4, simhash:12, kmeans:256; without a number, that of
    the default options.

    Examples:
        >>> parse_key("grid:4"), parse_key("kmeans")
        (Grid(bins=4), KMeans(k=256))
    """
    if not isinstance(text, str):
        raise TypeError(f"a key is spelt as text, such as grid:4, not as {text!r}")
    word, colon, number = text.strip().lower().partition(":")
    try:
        if word in _NUMBERED:
            return _NUMBERED[word](int(number)) if colon else _NUMBERED[word]()  # type: ignore[no-any-return]
        if word in ("auto", "exact") and not colon:
            return Auto() if word == "auto" else Exact()
    except ValueError as error:
        raise ValueError(f"key {text!r}: {error}") from error
    raise ValueError(
        f"unknown key {text!r}: choose auto, exact, grid:BINS, simhash:BITS or kmeans:CENTRES, "
        f"as in grid:4, simhash:12, kmeans:256"
    )

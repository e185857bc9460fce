"""What makes two transitions siblings: maps from observations to keys.

`Exact`, `Grid`, `SimHash`, `KMeans`, `Downscale` and `VQVAE`, and `Auto`, which chooses among them;
`Entries`, for some entries of a Dict or Tuple.
They are fitted once, by `fit(obs)`, `fit_env(env)` or the buffer they are given to, and frozen.
"""

from typing import Any

from sibling_replay.grouping.auto import Auto, KeyChoice, choose
from sibling_replay.grouping.downscale import Downscale
from sibling_replay.grouping.entries import Entries
from sibling_replay.grouping.exact import Exact
from sibling_replay.grouping.fittable import FittableMap, NotFitted
from sibling_replay.grouping.grid import Grid
from sibling_replay.grouping.key_map import KeyMap
from sibling_replay.grouping.kmeans import KMeans
from sibling_replay.grouping.row_map import RowMap
from sibling_replay.grouping.saved import map_from_state, parse_key
from sibling_replay.grouping.simhash import SimHash
from sibling_replay.grouping.support import Support, support


def __getattr__(name: str) -> Any:
    """The VQ-VAE, when it is asked for: it comes with the files of MinAtar's encoders."""
    if name == "VQVAE":
        from sibling_replay.grouping.vqvae.files import VQVAE

        return VQVAE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "VQVAE",
    "Auto",
    "Downscale",
    "Entries",
    "Exact",
    "FittableMap",
    "Grid",
    "KMeans",
    "KeyChoice",
    "KeyMap",
    "NotFitted",
    "RowMap",
    "SimHash",
    "Support",
    "choose",
    "map_from_state",
    "parse_key",
    "support",
]

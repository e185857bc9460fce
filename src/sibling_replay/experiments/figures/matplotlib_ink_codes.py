"""Pictures of what shares a code: a row a code, its mean observation and some of its members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from sibling_replay.grouping.frozen import FrozenEncoder
from sibling_replay.training.observations import Observations

MOST_CODES = 8  # the most frequent ones are shown
MEMBERS = 6  # of each, evenly spread over the sample
DPI = 110


def draw_codes(
    encoder: FrozenEncoder, data: Observations, packed: NDArray[np.int64], path: Path
) -> None:
    """`packed` are the codes of the observations in `data`."""
    values, counts = np.unique(packed, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_CODES]
    canvas = Canvas(figsize=(1.5 * (MEMBERS + 1), 1.6 * len(order)), layout="constrained")
    axes = canvas.subplots(len(order), MEMBERS + 1, squeeze=False)
    for row, place in zip(axes, order, strict=True):
        members = np.flatnonzero(packed == values[place])
        spread = members[np.linspace(0, len(members) - 1, MEMBERS).astype(int)]
        shown = [data.at(members).mean(axis=0), *data.at(spread)]
        for axis, obs in zip(row, shown, strict=True):
            axis.imshow(_colours(np.asarray(obs, dtype=np.float64)))
            axis.set_xticks([])
            axis.set_yticks([])
        codes = ", ".join(map(str, encoder.unpack(values[[place]])[0]))
        row[0].set_ylabel(f"code {codes}\n{counts[place] / len(packed):.1%}", fontsize=8)
    axes[0][0].set_title("mean", fontsize=8)
    axes[0][1].set_title("members", fontsize=8)
    canvas.savefig(path, dpi=DPI)


def _colours(obs: NDArray[np.float64]) -> NDArray[Any]:
    """[10, 10, C] as an image: a hue a channel, added up."""
    turn = 2 * np.pi * np.arange(obs.shape[-1])[:, None] / obs.shape[-1]
    hues = 0.5 + 0.5 * np.cos(turn - np.array([0.0, 2.1, 4.2]))
    return np.asarray(np.clip(obs @ hues, 0.0, 1.0))

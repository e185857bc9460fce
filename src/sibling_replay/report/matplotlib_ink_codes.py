"""Pictures of an encoder: what shares a code, and how well codes support groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from sibling_replay.files import whole_file
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder
from sibling_replay.grouping.vqvae.observations import Observations
from sibling_replay.grouping.vqvae.support import SUPPORTED, bucket_sizes

MOST_CODES = 8  # the most frequent ones are shown
MEMBERS = 6  # of each, evenly spread over the sample
DPI = 110
INK = "#2b6cb0"


def draw_codes(
    encoder: FrozenEncoder, data: Observations, packed: NDArray[np.int64], path: Path
) -> None:
    """A row a code: its mean observation and some of its members. `packed` are the codes of the
    observations in `data`."""
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
    with whole_file(path) as file:
        canvas.savefig(file, format="png", dpi=DPI)


def draw_support(
    encoder: FrozenEncoder, data: Observations, packed: NDArray[np.int64], path: Path
) -> None:
    """How often each code is used, and how many transitions have how many siblings."""
    uses = np.bincount(encoder.unpack(packed).ravel(), minlength=encoder.codes)
    sizes = np.sort(bucket_sizes(packed, data.action.astype(np.int64)))
    canvas = Canvas(figsize=(8.0, 2.8), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.bar(np.arange(encoder.codes), -np.sort(-uses) / uses.sum(), color=INK)
    left.set(xlabel="code, by use", ylabel="part of the cells")
    right.step(sizes, 1.0 - (np.cumsum(sizes) - sizes) / sizes.sum(), where="pre", color=INK)
    for size, what in ((SUPPORTED, "supported"), (float(np.median(sizes)), "median bucket")):
        right.axvline(size, color="0.6", linewidth=0.8)
        right.annotate(
            f"{what}: {size:.0f}", (size, 0.02), rotation=90, fontsize=7, ha="right", va="bottom"
        )
    right.set(xscale="log", ylim=(0.0, 1.03), xlabel="transitions in a bucket (phi(s), a)")
    right.set_ylabel("part of all, in one as large")
    with whole_file(path) as file:
        canvas.savefig(file, format="png", dpi=DPI)


def _colours(obs: NDArray[np.float64]) -> NDArray[Any]:
    """[10, 10, C] as an image: a hue a channel, added up."""
    turn = 2 * np.pi * np.arange(obs.shape[-1])[:, None] / obs.shape[-1]
    hues = 0.5 + 0.5 * np.cos(turn - np.array([0.0, 2.1, 4.2]))
    return np.asarray(np.clip(obs @ hues, 0.0, 1.0))

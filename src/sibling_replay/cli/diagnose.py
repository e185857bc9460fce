"""`sibling-replay diagnose`: the microscope on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from sibling_replay.cli.options import by_default
from sibling_replay.files import write_whole
from sibling_replay.microscope import text as microscope_text
from sibling_replay.microscope.ladder import climb, parse_ladder
from sibling_replay.microscope.page import json_of, page_of
from sibling_replay.microscope.transitions import Reading, read_transitions
from sibling_replay.microscope.view import view_of
from sibling_replay.terminal import new_console

GroupBy = Annotated[
    tuple[str, ...],
    by_default("`group`, or a saved buffer's own key, or else obs action", "COLUMN [COLUMN ...]"),
]
Key = Annotated[
    str | None, by_default("not used", "{auto,exact,grid:BINS,simhash:BITS,kmeans:CENTRES,PATH}")
]
LadderOf = Annotated[tuple[str, ...], by_default("none", "MAP:FROM..TO [MAP:FROM..TO ...]")]
Alpha = Annotated[float | None, by_default("0.6 as in the paper, or a saved buffer's own", "FLOAT")]
Epsilon = Annotated[float | None, by_default("1e-6 as in the paper", "FLOAT")]
Gamma = Annotated[float | None, by_default("none: a file with q_next must be given one", "FLOAT")]
Written = Annotated[Path | None, by_default("not written", "PATH")]


def diagnose(
    file: tyro.conf.Positional[Path],
    alpha: Alpha = None,
    beta: float = 0.4,
    group_by: GroupBy = (),
    key: Key = None,
    ladder: LadderOf = (),
    epsilon: Epsilon = None,
    gamma: Gamma = None,
    through_time_limits: bool = True,
    batch_size: int = 32,
    top: int = 10,
    page: Written = None,
    json: Written = None,
) -> int:
    """Say how far PER bends outcome frequencies and targets in a buffer, yours or ours.

    FILE is a buffer saved by ReplayBuffer.save, or an .npz or Parquet with a row per transition and
    the columns obs, action, reward, next_obs, terminated, truncated (numbers of any shape; in
    Parquet also lists, or obs_0, obs_1, ...); priority (raw) or td_error; optionally target or
    q_next, and group. Rewards stand in for targets where there are none.

    Args:
        file: What to diagnose.
        alpha: Priority exponent, mass = priority^alpha, no unit.
        beta: Importance exponent at which shifts after IS and ESS are computed, from 0 to 1.
        group_by: Columns whose equal values make siblings.
        key: A map to fit to the file, such as auto, grid:4, simhash:12, kmeans:256 or exact, or an
            encoder file: siblings have one key of it, or one code of its VQ-VAE, and one action.
        ladder: Key maps to compare on this file, coarse to fine, and to say which to take, as in
            grid:2..16 simhash:4..16 kmeans:64..1024.
        epsilon: Added to |td_error| to make a priority.
        gamma: Discount per step, to make targets of q_next; left out where the file has a column
            discount.
        through_time_limits: Whether targets of q_next bootstrap where an episode was truncated.
        batch_size: Transitions per update, for which ESS is computed.
        top: How many of the most distorted groups to show.
        page: Also write the diagnosis to this file, as one HTML page that needs no network; a
            folder that is missing is created.
        json: Also write every number to this file, in the same way.
    """
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"--beta must be from 0 to 1, got {beta}")
    if batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1, got {batch_size}")
    if top < 0:
        raise ValueError(f"--top must not be negative, got {top}")
    parse_ladder(ladder)
    written = {"--page": page, "--json": json}
    _check_apart({"FILE": file, **{name: path for name, path in written.items() if path}})
    read = read_transitions(
        file, Reading(alpha, epsilon, gamma, group_by, key, through_time_limits)
    )
    view = view_of(file.name, read, beta, batch_size, top, climb(read, ladder) if ladder else None)
    if page is not None:
        _write(page, page_of(view))
    if json is not None:
        _write(json, json_of(view))
    microscope_text.show(new_console(microscope_text.WIDTH), view)
    return 0


def _check_apart(paths: dict[str, Path]) -> None:
    """No file may be written over another, least of all over the one that is read."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        same = seen.setdefault(path.resolve(), name)
        if same != name:
            raise ValueError(f"{name} is the same file as {same}: {path}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error

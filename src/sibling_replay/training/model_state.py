"""A model's state as a file has it: a header and named arrays, part by part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from sibling_replay.checkpoint import StateError, with_later_options
from sibling_replay.strategies import Strategy, registered

Arrays = dict[str, NDArray[Any]]


def under(part: str, arrays: Mapping[str, Any]) -> Arrays:
    """Arrays of a part under names of their own."""
    return {f"{part}/{name}": array for name, array in arrays.items()}


def part_of(part: str, arrays: Arrays) -> Arrays:
    """What `under` made of a part."""
    start = f"{part}/"
    return {name.removeprefix(start): x for name, x in arrays.items() if name.startswith(start)}


def strategy_in(header: Mapping[str, Any]) -> Strategy:
    """The strategy that a file names, if it is known: a file never causes an import."""
    kind = registered().get(header["strategy"])
    if kind is None:
        raise StateError(
            f"the file names the strategy {header['strategy']!r}, which is not known here: import "
            "and `register` it first"
        )
    return kind(**header["options"])


def refuse_other_model(
    saved: Mapping[str, Any],
    own: Mapping[str, Any],
    changing: Collection[str],
    settings: Collection[str],
) -> None:
    """Raise for the first thing in which a saved header is of another model: anything but what is
    `changing`, and those of the `settings` that were given."""
    saved = {**saved, "options": with_later_options(saved["options"], own["options"])}
    for name in own.keys() - set(changing):
        if saved.get(name) != own[name]:
            raise StateError(
                f"the checkpoint is of another model: {name} is {saved.get(name)!r} there and "
                f"{own[name]!r} here"
            )
    different = [name for name in settings if saved["settings"][name] != own["settings"][name]]
    if different:
        raise StateError(f"the checkpoint is of other settings: {', '.join(sorted(different))}")


def refuse_other_end(saved: Mapping[str, Any], begin: int, end: int) -> None:
    """Raise if a checkpoint is of a run to another step than `end`."""
    if saved["until"] != end:
        left = saved["until"] - begin
        others = f"learn({left}) goes on with it, or take" if left > 0 else "take"
        raise StateError(
            f"the checkpoint is of a run to step {saved['until']:,}, and this call goes from step "
            f"{begin:,} to {end:,}: {others} another directory"
        )

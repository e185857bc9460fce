"""The table of what works where, docs/works.md: every cell is a training run that a test makes.

A test makes the rows of its library again and compares them with the table. With WRITE_WORKS=1 in
the environment it writes them there instead (`make works`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sibling_replay import (
    Prioritized,
    RankBased,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)

PAGE = Path(__file__).parents[2] / "docs" / "works.md"
STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Uniform(), Prioritized(), RankBased(every=1), SiblingSample(), SiblingModel(),
        SiblingAverage(),
    )
}  # fmt: skip
# A run of single steps of arrays in one environment; and what differs from it.
VARIANTS = {"1": "plain", "N": "n steps", "D": "Dict observations", "V": "several environments"}

# Trains with a strategy in a variant, and asserts that it learnt. Raises TypeError or ValueError,
# with a sentence, for what is refused.
Trial = Callable[[Strategy, str], None]


def row_of(name: str, trial: Trial, tried: str) -> str:
    """A row of the table: for each strategy the variants that train."""
    cells = [name]
    for strategy in STRATEGIES.values():
        found = "".join(each for each in tried if _trains(trial, strategy, each))
        cells.append(found or "—")
    return f"| {' | '.join(cells)} |"


def _trains(trial: Trial, strategy: Strategy, variant: str) -> bool:
    try:
        trial(strategy, variant)
    except (TypeError, ValueError) as error:
        assert len(str(error).split()) > 5, f"a refusal is a sentence, not {error!r}"
        return False
    return True


def check_row(name: str, trial: Trial, tried: str = "".join(VARIANTS)) -> None:
    """Make a row again, of the variants that are tried, and find it in the table, or write it
    there."""
    row = row_of(name, trial, tried)
    lines = PAGE.read_text().splitlines()
    places = [i for i, line in enumerate(lines) if line.startswith(f"| {name} |")]
    assert len(places) == 1, f"docs/works.md has {len(places)} rows {name!r}"
    if os.environ.get("WRITE_WORKS") == "1":
        lines[places[0]] = row
        PAGE.write_text("\n".join(lines) + "\n")
    assert lines[places[0]] == row


def header() -> list[str]:
    """The first two lines of the table."""
    names = ["", *(f"`{name}`" for name in STRATEGIES)]
    return [f"| {' | '.join(names)} |".replace("|  |", "| |"), "|---" * len(names) + "|"]


def learnt(before: Any, after: Any) -> None:
    """Weights that have moved, to numbers."""
    import numpy as np

    assert np.isfinite(after).all() and not np.array_equal(before, after)

"""Where things go that data does not place; shared by both renderers."""

from __future__ import annotations

import math

from sibling_replay.artefacts.panels import Estimate, HeatPanel

JITTER = 0.1  # half-width over which a method's seeds are spread


def spread_out(centre: float, count: int) -> list[float]:
    """Places for a method's seeds around a centre, in the order of the seeds: never random."""
    if count == 1:
        return [centre]
    return [centre + JITTER * (2 * i / (count - 1) - 1) for i in range(count)]


def lower_whisker(mean: float, se: float, log: bool) -> float:
    """Length of the lower error bar; on a log axis it must not reach zero."""
    return min(se, 0.9 * mean) if log else se


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... across less than two decades, powers of ten beyond."""
    steps = (1, 2, 5) if high < 100 * low else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def cell_text(cell: Estimate | None, panel: HeatPanel, newline: str = "\n") -> str:
    """Mean and error of a heat map's cell, in digits that suit the map's largest number; in a
    crowded one the mean alone."""
    if cell is None:
        return ""
    digits = 1 if panel.crowded else 3 if panel.limit < 3 else 2
    mean = f"{cell.mean:+.{digits}f}"
    if float(mean) == 0.0:
        mean = mean[1:]
    spread = "" if cell.se is None or panel.crowded else f"{newline}±{cell.se:.{digits}f}"
    return f"{mean}{spread}".replace("-", "−")

"""A ladder of maps as two small plots over G/N: places of marks, for the page to draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sibling_replay.microscope.ladder import NOISE, Ladder
from sibling_replay.microscope.words import shown_number

WIDTH, HEIGHT = 520, 300  # of a panel, in pixels of its own
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 504, 16, 252  # of the area inside the axes
_LAW_POINTS = 60
_ROOM = 1.08  # above the highest mark


@dataclass(frozen=True)
class Tick:
    place: float
    label: str


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    kind: str  # of map: its colour
    label: str
    taken: bool


@dataclass(frozen=True)
class Panel:
    title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    limit: float  # x of the G/N up to which maps are taken
    marks: tuple[Mark, ...]
    line: str  # points of the law's curve, or none


@dataclass(frozen=True)
class Plot:
    kinds: tuple[str, ...]
    panels: tuple[Panel, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


def plot_of(ladder: Ladder) -> Plot:
    shares = [rung.found.groups_per_entry for rung in ladder.rungs]
    decades = math.floor(math.log10(min(*shares, NOISE / 2)))

    def x_of(share: float) -> float:
        return _RIGHT + (_RIGHT - _LEFT) * math.log10(share) / -decades

    ratios = [rung.found.measured_ratio for rung in ladder.rungs]
    gains = [max(0.0, rung.found.explained_priority) for rung in ladder.rungs]
    excess = ladder.prioritized_ratio - 1.0
    law = [10 ** (decades * (1 - i / _LAW_POINTS)) for i in range(_LAW_POINTS + 1)]
    curve = [(share, 1.0 + excess * share) for share in law]
    highest = max(*ratios, ladder.prioritized_ratio, 1.0)
    return Plot(
        kinds=tuple(dict.fromkeys(_kind(rung.key) for rung in ladder.rungs)),
        panels=(
            _panel(f"R of {ladder.rare}, measured and predicted", ladder, x_of, decades,
                   ratios, highest, curve),
            _panel("variance of priority explained", ladder, x_of, decades, gains,
                   max(*gains, 0.05), []),
        ),
    )  # fmt: skip


def _panel(
    title: str,
    ladder: Ladder,
    x_of: Callable[[float], float],
    decades: int,
    values: list[float],
    highest: float,
    curve: list[tuple[float, float]],
) -> Panel:
    top = _ROOM * highest

    def y_of(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / top

    step = _round_step(top)
    heights = [step * i for i in range(int(top / step) + 1)]
    return Panel(
        title=title,
        x_ticks=tuple(Tick(x_of(10.0**d), f"{10.0**d:g}") for d in range(decades, 1)),
        y_ticks=tuple(Tick(y_of(value), f"{value:g}") for value in heights),
        limit=x_of(NOISE),
        marks=tuple(
            Mark(
                x=x_of(rung.found.groups_per_entry),
                y=y_of(value),
                kind=_kind(rung.key),
                label=f"{rung.key}: G/N {rung.found.groups_per_entry:.4f}, {shown_number(value)}",
                taken=rung.key == ladder.taken,
            )
            for rung, value in zip(ladder.rungs, values, strict=True)
        ),
        line=" ".join(f"{x_of(share):.1f},{y_of(value):.1f}" for share, value in curve),
    )


def _kind(key: str) -> str:
    return key.partition(":")[0]


def _round_step(span: float) -> float:
    """1, 2 or 5 times a power of ten: three to seven of them in a span."""
    power = 10.0 ** math.floor(math.log10(span))
    return float(f"{power * next(f for f in (0.2, 0.5, 1.0, 2.0) if span / (power * f) <= 7):g}")

"""Figures as PDF and PNG for print: light palette, Times-like type, the same bytes each time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullLocator

from sibling_replay.artefacts.panels import PAPER, Figure, HeatPanel, LinePanel, Panel, PointPanel
from sibling_replay.files import whole_file
from sibling_replay.report.places import cell_text, log_ticks, lower_whisker, spread_out
from sibling_replay.report.style import DIVERGING, STYLES

PANEL = (2.5, 1.95)  # inches, of one panel
KEY, LETTER = 0.55, 0.058  # inches, of a legend's key with its space, and of a letter beside it
CELL = (0.28, 0.16)  # inches, of a cell of a crowded heat map
DPI = 220  # of the PNG
GREY = "#8b949e"  # seeds and the paper's own marks stay in the background

LOOK: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#3f4753",
    "xtick.color": "#3f4753",
    "ytick.color": "#3f4753",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,  # text stays text: searchable, and journals refuse type 3
}
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "cross": "X",
    "pentagon": "p",
    "hollow": "D",
}
DASHES = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1.2, 1.6)), "dashdot": (0, (5, 2, 1, 2))}
BLANK = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write <name>.pdf and <name>.png; nothing in them says when or where they were made."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(LOOK):
        canvas = drawing_of(figure)
        for suffix, blank in BLANK.items():
            path = directory / f"{name}.{suffix}"
            with whole_file(path) as file:
                canvas.savefig(file, format=suffix, dpi=DPI, metadata=blank)
            written.append(path)
    return written


def drawing_of(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    wide = 1.3 if columns <= 2 else 1.0
    legend = _legend(figure)
    width, height = _panel_size(figure)
    width *= columns * wide
    longest = max((len(str(handle.get_label())) for handle in legend), default=0)
    across = max(1, min(len(legend), int(width / (KEY + LETTER * longest))))
    lines = math.ceil(len(legend) / across)
    below = 0.3 + 0.17 * max(0, lines - 2) if legend else 0.0
    canvas = Canvas(figsize=(width, height * rows + below), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, figure.panels, strict=False):
        _panel(axes, panel)
    for axes in grid.flat[len(figure.panels) :]:
        axes.set_axis_off()
    if legend:
        canvas.legend(handles=legend, loc="outside lower center", ncols=across, frameon=False)
    return canvas


def _panel_size(figure: Figure) -> tuple[float, float]:
    """Inches, of one panel: a crowded heat map takes what its cells and names need."""
    maps = [panel for panel in figure.panels if isinstance(panel, HeatPanel) and panel.crowded]
    across = [CELL[0] * len(panel.columns) + LETTER * max(map(len, panel.rows)) for panel in maps]
    down = [CELL[1] * len(panel.rows) + LETTER * max(map(len, panel.columns)) for panel in maps]
    return max(PANEL[0], *across, 0.0), max(PANEL[1], *down, 0.0)


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left")
    axes.set_ylabel(panel.y_label)
    if isinstance(panel, PointPanel):
        _points(axes, panel)
    elif isinstance(panel, LinePanel):
        _lines(axes, panel)
    else:
        _heat(axes, panel)


def _points(axes: Axes, panel: PointPanel) -> None:
    beside, papers = panel.places()
    for place, mark in enumerate(panel.marks):
        style, ours = STYLES[mark.style], mark.ours
        x = spread_out(place + beside, len(mark.seeds))
        axes.plot(x, mark.seeds, "o", ms=2.2, color=GREY, alpha=0.65, mew=0, zorder=2)
        axes.errorbar(
            place + beside,
            ours.mean,
            _bars(ours.mean, ours.se, panel.log),
            fmt=MARKERS[style.marker],
            ms=5.5,
            color=style.light,
            capsize=2.5,
            lw=1.2,
            zorder=3,
        )
        if mark.paper is not None:
            axes.errorbar(
                place + papers,
                mark.paper.mean,
                _bars(mark.paper.mean, mark.paper.se, panel.log),
                fmt=MARKERS["hollow"],
                ms=4,
                mfc="white",
                color=STYLES[PAPER].light,
                capsize=2,
                lw=0.8,
                zorder=3,
            )
    axes.set_xticks(range(len(panel.marks)), [mark.style for mark in panel.marks])
    axes.set_xlim(-0.6, len(panel.marks) - 0.4)
    axes.tick_params(axis="x", length=0, labelsize=7.5)
    if panel.y_range:
        axes.set_ylim(panel.y_range)
    if panel.log:
        _log_scale(axes, *panel.span())


def _log_scale(axes: Axes, low: float, high: float) -> None:
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    ticks = log_ticks(low, high)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())


def _bars(mean: float, se: float | None, log: bool) -> list[list[float]] | None:
    return None if se is None else [[lower_whisker(mean, se, log)], [se]]


def _lines(axes: Axes, panel: LinePanel) -> None:
    for level in panel.levels:
        style = STYLES[level.style]
        axes.axhline(level.y, color=style.light, lw=1, ls=DASHES[style.dash], zorder=1)
    for curve in panel.curves:
        style = STYLES[curve.style]
        y = np.asarray(curve.y)
        se = np.zeros_like(y) if curve.se is None else np.nan_to_num(np.asarray(curve.se))
        look: dict[str, Any] = {"color": style.light, "ls": DASHES[style.dash]}
        if panel.spread == "bars":
            look |= {"mfc": "white"} if curve.style == PAPER else {}
            marker = MARKERS[style.marker]
            axes.errorbar(curve.x, y, se, fmt=marker, ms=4, capsize=2, lw=1.3, **look)
        else:
            axes.fill_between(curve.x, y - se, y + se, color=style.light, alpha=0.16, lw=0)
            axes.plot(curve.x, y, **look)
    axes.set_xlabel(panel.x_label)
    if panel.spread == "bars":
        axes.set_xticks(panel.curves[0].x, [f"{x:g}" for x in panel.curves[0].x])
    if panel.x_range:
        axes.set_xlim(panel.x_range)
    if max(x for curve in panel.curves for x in curve.x) >= 1_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _heat(axes: Axes, panel: HeatPanel) -> None:
    shades = LinearSegmentedColormap.from_list("diverging", DIVERGING["light"])
    values = [[math.nan if cell is None else cell.mean for cell in row] for row in panel.cells]
    axes.imshow(values, cmap=shades, vmin=-panel.limit, vmax=panel.limit, aspect="auto")
    for r, row in enumerate(panel.cells):
        for c, cell in enumerate(row):
            if cell is not None:
                text, size = cell_text(cell, panel), 6 if panel.crowded else 7
                axes.text(c, r, text, ha="center", va="center", size=size)
    turned = 90 if panel.crowded else 0
    axes.set_xticks(range(len(panel.columns)), panel.columns, rotation=turned)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    axes.set_xlabel(panel.x_label)
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _legend(figure: Figure) -> list[Line2D]:
    if all(isinstance(panel, HeatPanel) for panel in figure.panels):
        return []
    if all(isinstance(panel, PointPanel) for panel in figure.panels):
        return _point_legend(figure)
    bars = any(isinstance(panel, LinePanel) and panel.spread == "bars" for panel in figure.panels)
    handles = []
    for entry in figure.legend():
        style = STYLES[entry.style]
        line = DASHES[style.dash] if entry.kind == "line" else ""
        marked = entry.kind == "point" or (bars and entry.style.startswith("alpha"))
        look: dict[str, Any] = {"marker": MARKERS[style.marker], "ms": 4} if marked else {}
        if entry.style == PAPER:
            look["mfc"] = "white"
        handles.append(Line2D([], [], color=style.light, ls=line, label=entry.label, **look))
    return handles


def _point_legend(figure: Figure) -> list[Line2D]:
    """Axis labels name the methods; the legend tells a seed, a mean and the paper apart."""
    ink = STYLES[PAPER].light
    handles = [
        Line2D([], [], ls="", marker="o", ms=2.4, color=GREY, mew=0, label="one seed"),
        Line2D([], [], ls="", marker="s", ms=5, color=STYLES["DDQN"].light, label="mean ± SE"),
    ]
    if any(mark.paper for mark in figure.marks):
        hollow = Line2D([], [], ls="", marker="D", ms=4, mfc="white", color=ink, label="paper")
        handles.append(hollow)
    return handles

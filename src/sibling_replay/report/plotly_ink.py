"""Panels as Plotly specifications: plain dicts that become JSON in the page. No import of Plotly.

A colour is written as the name of a CSS variable, `--per`, or `--per/0.16` for a part of its
opacity; the page's script puts the value in, so that a plot follows the reader's colour scheme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sibling_replay.artefacts.panels import (
    PAPER,
    Curve,
    Figure,
    HeatPanel,
    LinePanel,
    Panel,
    PointPanel,
)
from sibling_replay.report.places import cell_text, log_ticks, lower_whisker, spread_out
from sibling_replay.report.style import STYLES

Spec = dict[str, Any]

SYMBOLS = {
    "circle": "circle",
    "square": "square",
    "triangle": "triangle-up",
    "diamond": "diamond",
    "cross": "x",
    "pentagon": "pentagon",
    "hollow": "diamond-open",
}
HEIGHT = 250  # pixels, of a plot
HEAT_HEIGHT = 270
ROW, LABELS = 18, 190  # of a crowded heat map: a row, and the names of columns


def variable(style: str) -> str:
    """The CSS variable that holds a style's colour."""
    return f"--{style.lower()}"


def specifications(figure: Figure) -> list[Spec]:
    """One plot a panel: {"data": [...], "layout": {...}}."""
    return [_specification(panel) for panel in figure.panels]


def _specification(panel: Panel) -> Spec:
    if isinstance(panel, PointPanel):
        return _points(panel)
    if isinstance(panel, LinePanel):
        return _lines(panel)
    return _heat(panel)


def _points(panel: PointPanel) -> Spec:
    data: list[Spec] = []
    beside, papers = panel.places()
    for place, mark in enumerate(panel.marks):
        style, colour = STYLES[mark.style], variable(mark.style)
        count = len(mark.seeds)
        data.append(
            {
                **_markers("circle", "--seed", 5),
                "opacity": 0.6,
                "x": spread_out(place + beside, count),
                "y": list(mark.seeds),
                "name": mark.style,
                "legendgroup": mark.style,
                "hovertemplate": f"{mark.style}, one seed: %{{y:.4g}}<extra></extra>",
            }
        )
        data.append(
            {
                **_markers(SYMBOLS[style.marker], colour, 12),
                "x": [place + beside],
                "y": [mark.ours.mean],
                "error_y": _bars(mark.ours.mean, mark.ours.se, colour, panel.log),
                "name": mark.style,
                "legendgroup": mark.style,
                "hovertemplate": f"<b>{mark.style}</b> {mark.ours}<br>{count} seeds<extra></extra>",
            }
        )
        if mark.paper is not None:
            ink = variable(PAPER)
            data.append(
                {
                    **_markers(SYMBOLS[STYLES[PAPER].marker], ink, 8),
                    "x": [place + papers],
                    "y": [mark.paper.mean],
                    "error_y": _bars(mark.paper.mean, mark.paper.se, ink, panel.log),
                    "name": mark.style,
                    "legendgroup": mark.style,
                    "hovertemplate": f"{mark.style} in the paper: {mark.paper}<extra></extra>",
                }
            )
    layout = _layout(HEIGHT)
    layout["xaxis"] |= {
        "tickvals": list(range(len(panel.marks))),
        "ticktext": [mark.style for mark in panel.marks],
        "range": [-0.6, len(panel.marks) - 0.4],
        "tickfont": {"size": 11},
        "fixedrange": True,
    }
    if panel.log:
        low, high = panel.span()
        ticks = log_ticks(low, high)
        layout["yaxis"] |= {
            "type": "log",
            "range": [math.log10(low), math.log10(high)],
            "tickvals": ticks,
            "ticktext": [f"{tick:g}" for tick in ticks],
        }
    elif panel.y_range:
        layout["yaxis"]["range"] = list(panel.y_range)
    return {"data": data, "layout": layout}


def _lines(panel: LinePanel) -> Spec:
    data: list[Spec] = []
    ends = [min(min(c.x) for c in panel.curves), max(max(c.x) for c in panel.curves)]
    for level in panel.levels:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": ends,
                "y": [level.y, level.y],
                "line": {
                    "color": variable(level.style),
                    "dash": STYLES[level.style].dash,
                    "width": 1.5,
                },
                "name": level.label,
                "legendgroup": level.label,
                "hovertemplate": f"{level.label}<extra></extra>",
            }
        )
    for curve in panel.curves:
        if panel.spread == "band" and curve.se is not None:
            data.append(_band(curve.style, curve.label, curve.x, curve.y, curve.se))
        data.append(_line(curve, panel.spread == "bars"))
    layout = _layout(HEIGHT)
    layout["hovermode"] = "x unified" if panel.spread == "band" else "closest"
    layout["xaxis"] |= {"title": {"text": panel.x_label, "standoff": 8}}
    if panel.x_range:
        layout["xaxis"]["range"] = list(panel.x_range)
    if panel.spread == "bars":
        layout["xaxis"]["tickvals"] = list(panel.curves[0].x)
    return {"data": data, "layout": layout}


def _line(curve: Curve, bars: bool) -> Spec:
    style, colour = STYLES[curve.style], variable(curve.style)
    errors = None if curve.se is None else [_finite(se) for se in curve.se]
    said = [""] * len(curve.x)
    if errors is not None:
        said = [f"± {se:.2g}" if se is not None else "one seed" for se in errors]
    trace: Spec = {
        "type": "scatter",
        "mode": "lines+markers" if bars else "lines",
        "x": list(curve.x),
        "y": list(curve.y),
        "customdata": said,
        "line": {"color": colour, "dash": style.dash, "width": 2},
        "name": curve.label,
        "legendgroup": curve.label,
        "hovertemplate": f"{curve.label} %{{y:.4g}} %{{customdata}}<extra></extra>",
    }
    if bars:
        trace["marker"] = {"symbol": SYMBOLS[style.marker], "size": 7, "color": colour}
        trace["error_y"] = {
            "type": "data",
            "array": errors,
            "color": colour,
            "thickness": 1.5,
            "width": 3,
        }
    return trace


def _band(
    style: str, label: str, x: Sequence[float], y: Sequence[float], errors: Sequence[float]
) -> Spec:
    """One closed outline, out along the upper edge and back along the lower."""
    spread = [_finite(se) or 0.0 for se in errors]
    upper = [mean + se for mean, se in zip(y, spread, strict=True)]
    lower = [mean - se for mean, se in zip(y, spread, strict=True)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *reversed(x)],
        "y": [*upper, *reversed(lower)],
        "fill": "toself",
        "fillcolor": f"{variable(style)}/0.16",
        "line": {"width": 0},
        "name": label,
        "legendgroup": label,
        "hoverinfo": "skip",
    }


def _heat(panel: HeatPanel) -> Spec:
    cells = panel.cells
    data = {
        "type": "heatmap",
        "x": list(panel.columns),
        "y": list(panel.rows),
        "z": [[None if cell is None else cell.mean for cell in row] for row in cells],
        "text": [[cell_text(cell, panel, "<br>") for cell in row] for row in cells],
        "texttemplate": "" if panel.crowded else "%{text}",  # no room on a narrow screen
        "textfont": {"color": "--ink", "size": 11},
        "customdata": [["" if cell is None else str(cell) for cell in row] for row in cells],
        "hovertemplate": f"{panel.y_label} = %{{y}}, {panel.x_label} = %{{x}}<br>"
        f"{panel.what}: %{{customdata}}<extra></extra>",
        "hoverongaps": False,
        "zmin": -panel.limit,
        "zmax": panel.limit,
        "colorscale": [[0, "--heat-low"], [0.5, "--heat-middle"], [1, "--heat-high"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "name": panel.title,
    }
    layout = _layout(
        max(HEAT_HEIGHT, LABELS + ROW * len(panel.rows)) if panel.crowded else HEAT_HEIGHT
    )
    category = {"type": "category", "showgrid": False, "fixedrange": True, "showline": False}
    layout["xaxis"] |= {**category, "title": {"text": panel.x_label, "standoff": 6}}
    layout["yaxis"] |= {**category, "autorange": "reversed", "title": {"text": panel.y_label}}
    if panel.crowded:  # the names say what they are; each has a place
        for axis, turned in (("xaxis", -90), ("yaxis", 0)):
            layout[axis] |= {
                "title": {"text": ""},
                "tickangle": turned,
                "dtick": 1,
                "tickfont": {"size": 10},
            }
    return {"data": [data], "layout": layout}


def _markers(symbol: str, colour: str, size: int) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"symbol": symbol, "color": colour, "size": size, "line": _outline(symbol)},
    }


def _outline(symbol: str) -> Spec:
    """An open symbol is its outline; a filled one has none, or dark edges drown small marks."""
    return {"width": 1.5 if symbol.endswith("open") else 0}


def _bars(mean: float, se: float | None, colour: str, log: bool) -> Spec:
    if se is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [se],
        "arrayminus": [lower_whisker(mean, se, log)],
        "color": colour,
        "thickness": 1.5,
        "width": 4,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _layout(height: int) -> Spec:
    axis: Spec = {
        "color": "--ink-soft",
        "gridcolor": "--grid",
        "linecolor": "--rule",
        "zeroline": False,
        "automargin": True,
        "ticks": "",
        "tickfont": {"size": 11},
        "title": {"font": {"size": 12}},
    }
    return {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 6, "b": 8},
        "showlegend": False,
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "--plot-font", "size": 12, "color": "--ink"},
        "hoverlabel": {
            "bgcolor": "--surface",
            "bordercolor": "--rule",
            "font": {"family": "--plot-font", "size": 12, "color": "--ink"},
        },
        "xaxis": {**axis, "showgrid": False, "showline": True},
        "yaxis": {**axis, "showline": False},
    }

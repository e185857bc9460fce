"""The page: templates filled in, plots as data, Plotly's script once, nothing fetched."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
from plotly.offline import get_plotlyjs

from sibling_replay.artefacts.layout import CLOSE, CONFIDENT
from sibling_replay.report import plotly_ink
from sibling_replay.report.style import DIVERGING, STYLES

if TYPE_CHECKING:
    from sibling_replay.report.build import Report

DIGITS = 6  # significant, of numbers in plots


def render(report: Report) -> str:
    """One self-contained HTML document."""
    plots: list[Any] = []
    places: dict[str, list[int]] = {}  # artefact -> its plots
    for artefact in report.artefacts:
        if artefact.figure:
            specifications = plotly_ink.specifications(artefact.figure)
            places[artefact.entry.name] = list(range(len(plots), len(plots) + len(specifications)))
            plots += specifications
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["variable"] = plotly_ink.variable
    return environment.get_template("page.html.j2").render(
        report=report,
        places=places,
        styles=STYLES,
        heat=DIVERGING,
        confident=CONFIDENT,
        close=CLOSE,
        css=_template("style.css"),
        script=_script(_template("plots.js")),
        plotly=_script(get_plotlyjs()) if plots else "",
        plots=embedded(plots),
    )


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: no `<` that could end it."""
    return json.dumps(_rounded(data), ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )


def _script(text: str) -> str:
    """A script that may stand inside an element; `</script` occurs in strings only."""
    return text.replace("</script", "<\\/script")


def _rounded(data: Any) -> Any:
    """Six digits are more than a plot shows, and a third of the bytes."""
    if isinstance(data, float):
        return float(f"{data:.{DIGITS}g}") if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    return data


def _template(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text("utf-8")

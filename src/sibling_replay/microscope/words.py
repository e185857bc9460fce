"""Numbers and stored values as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.diagnostics.worst import ROUNDING
from sibling_replay.terminal import printable

FLAGS = ("terminated", "truncated")
_MOST_ELEMENTS = 4  # of an array that is printed; of a larger one its row is named


def label_of(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...], entry: int) -> str:
    """The values of some columns at an entry; of the two flags, those that are set. What a file
    holds is shown and never obeyed: control characters are escaped."""
    parts = []
    for name in names:
        values = np.asarray(columns[name][entry])
        if name in FLAGS:
            parts += [name] if values else []
        elif values.size > _MOST_ELEMENTS:
            parts.append(f"{name} of row {entry}")
        else:
            shown = ", ".join(_plain(value) for value in values.ravel().tolist())
            parts.append(f"{name} ({shown})" if values.ndim else f"{name} {shown}")
    return printable(", ".join(parts))


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shown_number(value: float) -> str:
    """Three digits, or every digit before the point. Rounding errors are zero."""
    if abs(value) < ROUNDING:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e9:
        return f"{value:.2e}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def signed(value: float) -> str:
    shown = shown_number(value)
    return shown if value <= 0 or shown == "0" else f"+{shown}"


def percent(share: float) -> str:
    """Three digits; 100% only of everything."""
    if share > 1.0 - ROUNDING:
        return "100%"
    if share < ROUNDING:
        return "0%"
    return f"{100 * share:.3g}%" if share < 0.9995 else f"{min(100 * share, 99.99):.2f}%"

"""The look of every name that a figure draws, the same in all figures and both renderers.

Hues are those of Okabe and Ito, told apart by colour-blind readers, made darker for white paper
and lighter for a dark screen. Marker and dash repeat the distinction without colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Marker = Literal["circle", "square", "triangle", "diamond", "cross", "pentagon", "hollow"]
Dash = Literal["solid", "dash", "dot", "dashdot"]


@dataclass(frozen=True)
class Style:
    light: str  # on white
    dark: str  # on near-black
    marker: Marker = "circle"
    dash: Dash = "solid"


STYLES: dict[str, Style] = {
    "DDQN": Style("#3f4753", "#ccd3dc", "square"),
    "PER": Style("#c44e00", "#ff9a56", "triangle", "dash"),
    "SAMPLE": Style("#0069a8", "#5bb8f5", "circle"),
    "MODEL": Style("#00805d", "#3fcf9f", "diamond", "dashdot"),
    "AVG": Style("#a8447f", "#e79cc7", "pentagon", "dot"),
    "AVG-g2": Style("#a8447f", "#e79cc7", "pentagon", "dot"),
    "AVG-g4": Style("#6b4bb0", "#b49df0", "cross", "dash"),
    # contenders of the bench whose profiles are drawn
    "AVG-uniform": Style("#a8447f", "#e79cc7", "pentagon", "solid"),
    "GROUP-mean": Style("#6b4bb0", "#b49df0", "cross", "dot"),
    "CV": Style("#00805d", "#3fcf9f", "diamond", "dashdot"),
    "LAP": Style("#8a5a00", "#e8c15a", "square", "dash"),
    "LABER": Style("#007c89", "#5fd3df", "triangle", "dot"),
    # PER at the sweep's exponents: one hue, more of it as alpha grows
    "alpha-1": Style("#e29a5e", "#8f5a30", "circle", "dot"),
    "alpha-2": Style("#d4752b", "#bd733a", "square", "dashdot"),
    "alpha-3": Style("#b04600", "#ff9a56", "triangle", "dash"),
    "alpha-4": Style("#6e2b00", "#ffd3b0", "diamond", "solid"),
    "stored": Style("#3f4753", "#ccd3dc", "square", "solid"),
    "corrected": Style("#8a5a00", "#e8c15a", "diamond", "dashdot"),
    "identity": Style("#0069a8", "#5bb8f5", "circle", "dot"),
    "paper": Style("#14181d", "#f4f6f8", "hollow", "dash"),
}

# A heat map runs from PER's hue through the page to SAMPLE's; one ink is legible on all of it.
DIVERGING = {"light": ("#f0a066", "#ffffff", "#7dbbe6"), "dark": ("#99490b", "#1d222a", "#155e95")}

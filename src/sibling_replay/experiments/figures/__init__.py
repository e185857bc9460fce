"""The paper's figures: one pure builder each, from a frame of runs to panels."""

from .comparison import exact_diagnostics, exact_results, lake_auc, lake_late
from .learning import lake_curves
from .minatar import minatar_curves, minatar_diagnostics
from .outcomes import bandit_distortion, outcome_grid
from .panels import Figure
from .sweep import matched_grid

__all__ = [
    "Figure",
    "bandit_distortion",
    "exact_diagnostics",
    "exact_results",
    "lake_auc",
    "lake_curves",
    "lake_late",
    "matched_grid",
    "minatar_curves",
    "minatar_diagnostics",
    "outcome_grid",
]

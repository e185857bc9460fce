"""The paper's figures of exact groups: one pure builder each, from a frame of runs to panels."""

from .comparison import exact_diagnostics, exact_results, lake_auc, lake_late
from .learning import lake_curves
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
    "outcome_grid",
]

"""The microscope: diagnostics of within-group self-selection, as pure functions of arrays."""

from sibling_replay.diagnostics.census import (
    OUTCOME_FIELDS,
    Census,
    outcome_numbers,
    take_census,
    take_tabular_census,
)
from sibling_replay.diagnostics.distortion import (
    by_mass,
    corrected_shift,
    entry_concentration,
    mean_target,
    outcome_tv,
    range_bound,
    target_shift,
    variance_bound,
)
from sibling_replay.diagnostics.minibatch import (
    action_l1,
    effective_sample_size,
    selection_ratio,
    shift_terms,
)

__all__ = [
    "OUTCOME_FIELDS",
    "Census",
    "action_l1",
    "by_mass",
    "corrected_shift",
    "effective_sample_size",
    "entry_concentration",
    "mean_target",
    "outcome_numbers",
    "outcome_tv",
    "range_bound",
    "selection_ratio",
    "shift_terms",
    "take_census",
    "take_tabular_census",
    "target_shift",
    "variance_bound",
]

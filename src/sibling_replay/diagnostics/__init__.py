"""The microscope: diagnostics of within-group self-selection, as pure functions of arrays."""

from sibling_replay.diagnostics.analytic import (
    average_variance,
    huber_minimiser,
    prioritized_target_shift,
)
from sibling_replay.diagnostics.census import (
    OUTCOME_FIELDS,
    Census,
    equal_rows,
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
from sibling_replay.diagnostics.granularity import (
    Entries,
    Granularity,
    RareOutcome,
    granularity,
    rare_outcome,
)
from sibling_replay.diagnostics.microscope import (
    EXACT_KEY,
    Findings,
    examine,
    examine_transitions,
)
from sibling_replay.diagnostics.minibatch import (
    action_l1,
    effective_sample_size,
    expected_ess,
    selection_ratio,
    shift_terms,
)
from sibling_replay.diagnostics.split_test import (
    halves,
    heterogeneous,
    mixed_draws,
    positions_of,
    split_test,
)
from sibling_replay.diagnostics.summary import Summary, summarize
from sibling_replay.diagnostics.verdict import RULES, Verdict, judge
from sibling_replay.diagnostics.worst import GroupFinding, OutcomeFinding, most_distorted

__all__ = [
    "EXACT_KEY",
    "OUTCOME_FIELDS",
    "RULES",
    "Census",
    "Entries",
    "Findings",
    "Granularity",
    "GroupFinding",
    "OutcomeFinding",
    "RareOutcome",
    "Summary",
    "Verdict",
    "action_l1",
    "average_variance",
    "by_mass",
    "corrected_shift",
    "effective_sample_size",
    "entry_concentration",
    "equal_rows",
    "examine",
    "examine_transitions",
    "expected_ess",
    "granularity",
    "halves",
    "heterogeneous",
    "huber_minimiser",
    "judge",
    "mean_target",
    "mixed_draws",
    "most_distorted",
    "outcome_numbers",
    "outcome_tv",
    "positions_of",
    "prioritized_target_shift",
    "range_bound",
    "rare_outcome",
    "selection_ratio",
    "shift_terms",
    "split_test",
    "summarize",
    "take_census",
    "take_tabular_census",
    "target_shift",
    "variance_bound",
]

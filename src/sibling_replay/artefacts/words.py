"""What quantities are called in tables and figures, and between which bounds they lie."""

from __future__ import annotations

WORDS = {
    "env": "environment",
    "method": "method",
    "alpha": "α",
    "beta": "β",
    "metric": "quantity",
    "auc_return": "AUC return",
    "auc_success": "AUC success",
    "late_return": "late / final return",
    "final_return": "late / final return",
    "late_success": "late / final success",
    "final_success": "late / final success",
    "per_auc": "PER",
    "sample_auc": "SAMPLE",
    "diff": "SAMPLE − PER [simultaneous 95 %]",
    "per_conditional_abs_before_is": "PER, absolute, before IS",
    "per_conditional_abs_after_is": "PER, absolute, after IS",
    "sampled_signed_per": "sampled, signed, PER",
    "sampled_signed_sample": "sampled, signed, SAMPLE",
    "risky_outcome_tv": "outcome TV",
    "risky_shift_before_is": "target shift before IS",
    "risky_shift_after_is": "target shift after IS",
}

LABELS = {
    "auc_return": "AUC return",
    "late_return": "late return",
    "late_success": "late success",
    "final_success": "final success",
    "ess": "IS-weight ESS",
    "td_std": "TD-error std",
    "ratio_mean": "mean ratio R",
    "action_l1": "action L1",
}

# of quantities with bounds; ESS is at most the batch size, 32
RANGES = {"late_success": (0.0, 1.05), "final_success": (0.0, 1.05), "ess": (0.0, 34.0)}

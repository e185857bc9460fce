"""The verdict follows its printed rules, in their order, up to their edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sibling_replay.diagnostics import RULES, examine_transitions, judge, summarize


def summary(**changes):
    ones = np.ones(4)
    columns = {
        "obs": ones,
        "action": ones,
        "reward": np.array([0.0, 0.0, 1.0, 1.0]),
        "next_obs": ones,
        "terminated": ones == 1,
        "truncated": ones == 0,
    }
    return replace(summarize(examine_transitions(columns, ones)), **changes)


def test_equal_masses_are_faithful():
    assert judge(summary()).name == "faithful"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"draws_with_siblings": 0.0999, "tv": 0.9}, "mostly singletons"),
        ({"draws_with_siblings": 0.1, "tv": 0.9}, "distorted"),
        ({"draws_with_outcomes": 0.0099, "tv": 0.9}, "little outcome variability"),
        ({"draws_with_outcomes": 0.01, "tv": 0.9}, "distorted"),
        ({"tv": 0.05}, "distorted"),
        ({"tv": 0.0499}, "mildly distorted"),
        ({"tv": 0.0099}, "faithful"),
        ({"shift_in_spreads": 0.25}, "distorted"),
        ({"shift_in_spreads": 0.2499}, "mildly distorted"),
        ({"shift_in_spreads": 0.05}, "mildly distorted"),
        ({"shift_in_spreads": 0.0499}, "faithful"),
        ({"tv": 0.9, "repeated": 0.49}, "faithful"),
        ({"tv": 0.9, "repeated": 0.49, "shift_in_spreads": 0.3}, "distorted"),
        ({"tv": 0.9, "repeated": 0.5}, "distorted"),
    ],
)
def test_the_rules(changes, name):
    verdict = judge(summary(**changes))
    assert verdict.name == name
    assert any(rule.startswith(f"{name}:") for rule in RULES)
    assert ("rests on the shift alone" in verdict.meaning) == (changes.get("repeated", 1) < 0.5)

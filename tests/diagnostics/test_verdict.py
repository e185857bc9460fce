"""The verdict follows its printed rules, in their order, up to their edges."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import Prioritized, ReplayBuffer, Uniform
from sibling_replay.diagnostics import RULES, examine, examine_transitions, judge, summarize


def summary(**changes):
    """Of a buffer that PER distorts in nothing, though its masses are said to differ."""
    ones = np.ones(4)
    columns = {
        "obs": ones,
        "action": ones,
        "reward": np.array([0.0, 0.0, 1.0, 1.0]),
        "next_obs": ones,
        "terminated": ones == 1,
        "truncated": ones == 0,
    }
    return replace(summarize(examine_transitions(columns, ones)), equal_masses=False, **changes)


def test_no_priorities_are_no_praise_for_PER():
    """As in a buffer of uniform replay, where nothing was ever refreshed."""
    assert judge(summary()).name == "faithful"
    verdict = judge(replace(summary(), equal_masses=True))
    assert verdict.name == "no priorities" and "says nothing about PER" in verdict.meaning
    assert any(rule.startswith("no priorities:") for rule in RULES)


def test_a_buffer_of_uniform_replay_has_none():
    env = gym.make("FrozenLake-v1")
    for strategy, expected in ((Uniform(), True), (Prioritized(), False)):
        buffer = ReplayBuffer.for_env(env, 10, strategy, seed=0)
        buffer.extend([0] * 4, [1] * 4, [0.0, 0.0, 1.0, 1.0], [4] * 4, [False] * 4, [False] * 4)
        batch = buffer.sample(4)
        buffer.update_priorities(batch, batch.reward - 0.2)
        found = summarize(examine(buffer))
        assert found.equal_masses == expected
        assert (judge(found).name == "no priorities") == expected


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

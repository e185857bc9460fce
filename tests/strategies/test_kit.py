"""The public kit itself: what it says when something is wrong, and what it lets a strategy use."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import sibling_replay.testing
from sibling_replay import Draw, Law, Needs, Prioritized, Refresh, Strategy
from sibling_replay.testing import CheckFailed, SaboteurPassed, check_strategy
from support.numpy_strategies import PlainPER


def per_law(entries, size):
    total = sum(entry.mass for entry in entries)
    return ([entry.mass / total for entry in entries],) * 3


def per_refresh(entries, rows):
    return [(row.slot, abs(row.td_error) + 1e-6) for row in rows]


def test_a_right_saboteur_is_named() -> None:
    """A call whose checks cannot fail is no test."""
    with pytest.raises(SaboteurPassed, match=r"^PlainPER\(alpha=0.6.* passed every check"):
        check_strategy(Prioritized(), law=per_law, refresh=per_refresh, saboteurs=[PlainPER()])


def failure(**changes) -> str:
    given = {"law": per_law, "refresh": per_refresh, **changes}
    with pytest.raises(CheckFailed) as raised:
        check_strategy(given.pop("strategy", Prioritized()), **given)
    return str(raised.value)


def test_another_law_is_told_with_scene_slot_and_numbers() -> None:
    said = failure(law=lambda entries, size: ([1 / len(entries)] * len(entries),) * 3)
    assert said.startswith("Prioritized: check `law` failed in a ReplayBuffer, scene 'fixed': ")
    assert "the anchor probability" in said and "the naive law 0.0416667" in said


def test_a_naive_law_that_is_none_is_told() -> None:
    assert "the naive anchor law adds up to 2" in failure(
        law=lambda entries, size: (np.full(len(entries), 2 / len(entries)),) * 3
    )
    assert "gives 2 parts" in failure(law=lambda entries, size: per_law(entries, size)[:2])
    assert "shape (1,), expected (24,)" in failure(law=lambda entries, size: ([1.0],) * 3)


def test_another_refresh_is_told_with_both_masses() -> None:
    said = failure(refresh=lambda entries, rows: [(row.slot, 32.0) for row in rows])
    assert "check `refresh` failed in a ReplayBuffer, scene 'fixed': after a refresh slot" in said
    assert "expected 8 (" in said  # 32^0.6


def test_another_count_of_dropped_updates_is_told() -> None:
    said = failure(refresh=lambda entries, rows: 2 * per_refresh(entries, rows))
    assert "scene 'churned'" in said and "updates were dropped as stale, expected" in said


def test_other_weights_are_told() -> None:
    said = failure(weights="ones")
    assert "check `weights` failed" in said and "expected 1 (weights='ones', beta=" in said


def test_weights_of_any_kind_where_they_are_not_checked() -> None:
    class Odd(PlainPER):
        def weights(self, view, slots, beta):
            return 3.0 + slots

    check_strategy(Odd(), law=per_law, refresh=per_refresh, weights=None)
    assert "check `weights`" in failure(strategy=Odd())


def test_mistakes_in_a_strategy_s_code_are_no_rejection() -> None:
    class Broken(PlainPER):
        def refresh(self, view, draw, td_errors, signals):
            return draw.nothing

    with pytest.raises(AttributeError, match="nothing"):
        check_strategy(Prioritized(), law=per_law, refresh=per_refresh, saboteurs=[Broken()])


class Recent(Strategy):
    """By age; priorities come from a signal, and nothing draws by them."""

    needs = Needs(signals=("surprise",))
    offset = 1.0

    def each(self, view):
        chances = 1.0 / (self.offset + view.age(view.slots))
        return chances / chances.sum()

    def draw(self, view, size, stream, beta):
        each = self.each(view)
        ends = np.cumsum(each)
        places = np.searchsorted(ends, stream.take(size) * ends[-1], side="right")
        weights = self.importance_weights(view, each[places], beta)
        return Draw(slots=view.slots[places], weights=weights)

    def refresh(self, view, draw, td_errors, signals):
        return Refresh(slots=draw.slots, priorities=signals["surprise"])

    def law(self, view, size):
        return Law(*[self.each(view)] * 3)


class LessRecent(Recent):
    offset = 1.2


class ErrorsInstead(Recent):
    refresh = PlainPER.refresh


def test_ages_and_signals() -> None:
    def law(entries, size):
        chances = [1 / (1 + entry.age) for entry in entries]
        return ([chance / sum(chances) for chance in chances],) * 3

    reasons = check_strategy(
        Recent(),
        law=law,
        refresh=lambda entries, rows: [(row.slot, row.signals["surprise"]) for row in rows],
        signals=lambda rng, size: {"surprise": 0.1 + rng.random(size)},
        saboteurs=[LessRecent(), ErrorsInstead()],
    )
    assert "LessRecent: check `law`" in reasons[0]
    assert "ErrorsInstead: check `refresh`" in reasons[1]


def test_the_kit_needs_no_test_runner() -> None:
    for path in Path(sibling_replay.testing.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                assert "pytest" not in ast.unparse(node)

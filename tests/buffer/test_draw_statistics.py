"""How many draws have siblings is told, and said aloud once when hardly any has; as is it where
siblings are unlike, and trained toward each other's outcomes."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from buffer_kit import differences, schema, snapshot, tabular

from sibling_replay import (
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    SlotSampler,
    Strategy,
)
from sibling_replay.grouping import Auto, Exact, Grid

FEW = "of the last .* draws looked at have siblings"


def singletons(strategy: Strategy, count: int, capacity: int = 5_000, **options: Any):
    """A buffer in which no observation repeats, as CartPole's."""
    fields = schema(Field(np.float32))
    buffer = ReplayBuffer(fields, capacity, strategy, seed=0, **options)
    obs = np.arange(count, dtype=np.float32)
    ends = np.zeros(count, bool)
    buffer.extend(obs, np.zeros(count, int), obs, obs, ends, ends)
    return buffer


def draw(buffer: ReplayBuffer | SlotSampler, batches: int, size: int = 32) -> list[str]:
    """What is said while some batches are drawn."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(batches):
            buffer.sample(size)
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingModel(), SiblingAverage()])
def test_draws_without_siblings_are_said_once_with_figure_and_remedy(strategy) -> None:
    buffer = singletons(strategy, 2_000)
    said = draw(buffer, 2_000)
    assert len(said) == 1
    assert said[0].startswith("0.0% of the last 1,024 draws looked at have siblings")
    assert "mean group size 1.00" in said[0]
    assert type(strategy).__name__ in said[0] and "key(obs, action)" in said[0]
    assert buffer.draw_statistics() == {"draws_with_siblings": 0.0, "group_size": 1.0}


def test_the_warning_points_at_the_caller() -> None:
    buffer = singletons(SiblingSample(), 2_000)
    with pytest.warns(UserWarning, match=FEW) as said:
        buffer.sample(1_000)
    assert said[0].filename == __file__


def test_a_slot_sampler_says_it_too() -> None:
    sampler = SlotSampler(2_000, SiblingSample(), seed=0)
    sampler.put(np.arange(2_000), np.arange(2_000))
    assert len(draw(sampler, 2_000)) == 1
    assert sampler.draw_statistics() == {"draws_with_siblings": 0.0, "group_size": 1.0}


def test_nothing_is_said_where_groups_do_not_matter_or_are_there() -> None:
    assert draw(singletons(Prioritized(), 2_000), 1_000) == []
    assert draw(singletons(Prioritized(), 2_000, key="exact"), 1_000) == []
    binned = singletons(SiblingSample(), 2_000, key=lambda obs, action: obs // 4)
    assert draw(binned, 1_000) == []
    assert binned.draw_statistics() == {"draws_with_siblings": 1.0, "group_size": 4.0}


def test_nothing_is_said_before_learning_has_begun() -> None:
    """A young buffer has few siblings whatever the environment."""
    buffer = singletons(SiblingSample(), 999)
    assert draw(buffer, 1_000) == []
    buffer.add(-1.0, 0, 0.0, 0.0, False, False)
    assert len(draw(buffer, 100)) == 1
    assert draw(singletons(SiblingSample(), 2_000), 30) == []
    assert len(draw(singletons(SiblingSample(), 50, capacity=50), 1_000)) == 1  # full: it is old


def test_the_figures_are_those_of_the_draws() -> None:
    buffer = tabular(SiblingSample(), capacity=1_000)
    for i in range(1_000):  # 100 entries of one group, 900 alone
        buffer.add(max(0, i - 99), 0, 0.0, 0, False, False)
    batches = [buffer.sample(500) for _ in range(1)]
    sizes = np.concatenate([batch.group_sizes for batch in batches])
    found = buffer.draw_statistics()
    assert 0.05 < found["draws_with_siblings"] < 0.15
    assert found == {"draws_with_siblings": np.mean(sizes > 1), "group_size": np.mean(sizes)}


def test_before_the_first_draw_nothing_is_known() -> None:
    found = tabular(SiblingSample()).draw_statistics()
    assert set(found) == {"draws_with_siblings", "group_size"}
    assert all(math.isnan(value) for value in found.values())


def test_states_and_streams_do_not_know_of_it() -> None:
    """A buffer that has looked and warned has the state of one that had to do neither."""
    buffer = singletons(SiblingSample(), 2_000)
    silent = singletons(SiblingSample(), 2_000)
    silent._unseen = -1  # never looks
    assert len(draw(buffer, 700)) == 1 and draw(silent, 700) == []
    assert differences(snapshot(buffer), snapshot(silent)) == []
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert np.array_equal(twin.sample(32).slots, copy.deepcopy(buffer).sample(32).slots)


MIXED = "of the draws fall in groups that mix states"


def halved(
    strategy: Strategy, key: Any, merged: float, count: int = 4_000, capacity: int = 8_000
) -> ReplayBuffer:
    """Observations in the unit square. Rewards are noise, but in a share `merged` of it, at the
    left, they are higher by one standard deviation in the upper half."""
    rng = np.random.default_rng(0)
    fields = schema(Field(np.float32, (2,)))
    buffer = ReplayBuffer(fields, capacity, strategy, key=key, seed=0)
    obs = rng.random((count, 2)).astype(np.float32)
    reward = rng.normal(size=count) + ((obs[:, 0] < merged) & (obs[:, 1] > 0.5))
    ends = np.zeros(count, bool)
    buffer.extend(obs, np.zeros(count, int), reward, obs, ends, ends)
    return buffer


def by_column(obs: Any, action: Any) -> Any:
    return obs[0] // 0.05  # 20 groups of 200


COLUMNS = Grid(20, dims=(0,))
MIXING = [SiblingModel(), SiblingAverage(), SiblingAverage(max_siblings=3)]


@pytest.mark.parametrize("strategy", MIXING, ids=repr)
@pytest.mark.parametrize("key", [by_column, COLUMNS], ids=["function", "map"])
def test_groups_that_mix_states_are_said_once_with_figure_and_remedy(strategy, key) -> None:
    buffer = halved(strategy, key, merged=0.5)
    said = draw(buffer, 2_000)
    assert len(said) == 1 and MIXED in said[0]
    share = float(said[0].partition("%")[0])
    assert 45.0 <= share <= 55.0  # at first all entries have one mass
    assert type(strategy).__name__ in said[0]
    assert "4,000 entries" in said[0] and "--ladder" in said[0] and "SiblingSample" in said[0]


def test_a_tenth_of_the_draws_may_be_mixed() -> None:
    assert draw(halved(SiblingModel(), by_column, merged=0.05), 500) == []
    assert len(draw(halved(SiblingModel(), by_column, merged=0.15), 500)) == 1


def test_mixed_groups_are_weighed_by_their_draws() -> None:
    buffer = halved(SiblingModel(), by_column, merged=0.1 - 1e-6)
    batch = buffer.batch_of(np.arange(4_000))
    buffer.update_priorities(batch, np.where(batch.obs[:, 0] < 0.1, 100.0, 1.0))
    (text,) = draw(buffer, 500)
    left = 100**0.6
    assert float(text.partition("%")[0]) / 100 == pytest.approx(left / (left + 9), abs=0.03)


@pytest.mark.parametrize("strategy", MIXING, ids=repr)
def test_pure_groups_are_not_complained_of(strategy) -> None:
    assert draw(halved(strategy, by_column, merged=0.0), 2_000) == []
    assert draw(halved(strategy, Grid(20), merged=0.5), 2_000) == []  # they have their own


@pytest.mark.parametrize("strategy", [SiblingSample(), Prioritized()], ids=lambda s: s.name)
def test_where_outcomes_stay_with_their_states_nothing_is_said(strategy) -> None:
    assert draw(halved(strategy, by_column, merged=1.0), 2_000) == []


def test_equal_observations_are_never_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from sibling_replay import draw_statistics

    def fail(*args: Any) -> Any:
        raise AssertionError("tested")

    monkeypatch.setattr(draw_statistics, "mixed_draws", fail)
    for key in ("exact", Exact()):
        buffer = tabular(SiblingModel(), capacity=3_000, key=key)
        for i in range(3_000):
            buffer.add(i % 10, 0, float(i % 3), 0, False, False)
        assert draw(buffer, 1_000) == []


def test_groups_are_tested_at_2000_entries_and_when_they_have_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sibling_replay import draw_statistics

    tested: list[int] = []
    test = draw_statistics.mixed_draws

    def noted(groups: Any, *others: Any) -> float:
        tested.append(len(groups))
        return test(groups, *others)

    monkeypatch.setattr(draw_statistics, "mixed_draws", noted)
    rows = halved(SiblingModel(), by_column, merged=0.0, count=8_000).transitions()
    rows.pop("group_key")
    buffer = halved(SiblingModel(), by_column, merged=0.0, count=0)
    for start in range(0, 8_000, 500):
        buffer.extend(**{name: column[start : start + 500] for name, column in rows.items()})
        assert draw(buffer, 300) == []
        assert tested == [size for size in (2_000, 4_000, 8_000) if size <= start + 500]
    draw(buffer, 1_000)
    assert tested == [2_000, 4_000, 8_000]
    small = halved(SiblingModel(), by_column, merged=1.0, count=3_000, capacity=1_999)
    assert draw(small, 500) == [] and len(tested) == 3  # never so many
    odd = halved(SiblingModel(), by_column, merged=0.0, count=2_500, capacity=3_000)
    draw(odd, 500)
    odd.extend(**{name: column[:500] for name, column in rows.items()})
    draw(odd, 500)
    assert tested[3:] == [2_500, 3_000]  # a last time when it is full


def test_of_many_entries_some_of_every_group_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from sibling_replay import draw_statistics

    monkeypatch.setattr(draw_statistics, "_TESTED", 3_000)
    (text,) = draw(halved(SiblingModel(), by_column, merged=0.5, count=8_000), 500)
    assert 40.0 <= float(text.partition("%")[0]) <= 55.0 and "3,000 entries" in text
    monkeypatch.setattr(draw_statistics, "_TESTED", 1_000)  # of every other group 100
    (text,) = draw(halved(SiblingModel(), by_column, merged=1.0, count=8_000), 500)
    assert "1,000 entries" in text


def test_auto_says_it_once_however_often_it_chooses() -> None:
    buffer = halved(SiblingModel(), Auto(noise=0.004), merged=1.0, count=3_000, capacity=20_000)
    said = draw(buffer, 500)
    more = buffer.transitions()
    more.pop("group_key")
    for _ in range(3):
        buffer.extend(**more)
        said += draw(buffer, 500)
    assert len(buffer.key_choices) == 3
    assert len(said) == 1 and MIXED in said[0]


def test_what_is_not_finite_is_no_obstacle() -> None:
    buffer = ReplayBuffer(
        schema(Field(np.float32, (9,))), 3_000, SiblingModel(), key=lambda obs, action: obs[0]
    )
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(3_000, 9)).astype(np.float32)
    obs[:, 0] = np.arange(3_000) % 20
    obs[5:500, 1:] = np.nan
    ends = np.zeros(3_000, bool)
    buffer.extend(obs, np.zeros(3_000, int), rng.normal(size=3_000), obs, ends, ends)
    assert draw(buffer, 500) == []

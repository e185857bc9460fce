"""How many draws have siblings is told, and said aloud once when hardly any has."""

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

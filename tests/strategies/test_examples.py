"""The strategies under examples/strategies: short, complete, and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sibling_replay import SlotSampler, View
from sibling_replay.testing.chi_square import check_draws
from support.example_files import load_example
from support.scenes import add_entries, draw_many, new_buffer

FOLDER = Path(__file__).parent.parent.parent / "examples" / "strategies"
FILES = {"even_groups": "EvenGroups", "rank_based": "RankBasedNumPy", "group_mean": "GroupMean"}


def example(name: str):
    """The strategy of a file, loaded as a stranger would."""
    return getattr(load_example(f"strategies/{name}.py"), FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_at_most_forty_lines(name) -> None:
    lines = (FOLDER / f"{name}.py").read_text().splitlines()
    code = [line for line in lines if line.strip()]
    assert len(code) <= 40, len(code)


def trained_buffer(name: str, turns: int = 60):
    buffer = new_buffer(example(name)(), 30, seed=4)
    rng = np.random.default_rng(4)
    for _ in range(turns):
        add_entries(buffer, rng.choice([0, 0, 0, 1, 2], 2), rng.integers(0, 4, 2))
        batch = buffer.sample(8, 0.5)
        buffer.update_priorities(batch, rng.normal(size=8) + batch.groups)
    return buffer


@pytest.mark.parametrize("name", FILES)
def test_draws_follow_the_law(name) -> None:
    buffer = trained_buffer(name, 130)
    assert buffer.check_valid() == (True, "")
    law = buffer.probabilities()
    check_draws(draw_many(buffer, 20_000, 1).trained, law.trained)


@pytest.mark.parametrize("name", FILES)
def test_weights_undo_the_law(name) -> None:
    """At beta = 1 without normalization every entry counts 1/N in expectation."""
    kind = example(name)
    buffer = new_buffer(kind(normalize=None), 30, seed=4)
    rng = np.random.default_rng(4)
    add_entries(buffer, rng.choice([0, 0, 0, 1, 2], 40), rng.integers(0, 4, 40))
    for _ in range(101):
        buffer.update_priorities(buffer.sample(8), rng.normal(size=8))
    batch = buffer.sample(64, 1.0)
    law = buffer.probabilities().trained
    np.testing.assert_allclose(batch.weights * law[batch.slots], 1.0 / 30, rtol=1e-5)


def test_ranks() -> None:
    kind = example("rank_based")
    buffer = new_buffer(kind(every=1, alpha=0.7), 30, seed=4, key=None)
    add_entries(buffer, np.arange(20), np.arange(20))
    errors = {}
    rng = np.random.default_rng(1)
    for _ in range(50):
        batch = buffer.sample(8)
        given = rng.normal(size=8)
        errors.update(zip(batch.slots.tolist(), np.abs(given), strict=True))
        buffer.update_priorities(batch, given)
    assert len(errors) == 20
    ranked = sorted(range(20), key=lambda slot: -errors[slot])
    expected = np.empty(20)
    expected[ranked] = np.arange(1.0, 21.0) ** -0.7
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)


def test_group_means() -> None:
    """A group whose errors cancel is drawn less than one whose errors agree."""
    buffer = new_buffer(example("group_mean")(), 40, seed=4)
    add_entries(buffer, np.repeat([0, 1], 20), np.arange(40))
    rng = np.random.default_rng(1)
    for _ in range(200):
        batch = buffer.sample(16)
        noisy = batch.slots < 20
        given = np.where(noisy, rng.choice([-5.0, 5.0], 16), 2.0)
        buffer.update_priorities(batch, given)
    view = View(buffer._memory)
    first, second = view.scores(view.groups(np.array([0, 39])))
    assert second == pytest.approx(2.0, abs=1e-5) and first < 2.5
    law = buffer.probabilities().trained
    np.testing.assert_allclose(law[:20], law[0], rtol=1e-12)  # siblings alike, whatever their error
    counts, total, _ = view.column_sums("error", view.groups(np.array([0])))
    assert counts == [20] and first == pytest.approx(abs(total[0] / 20) + 1e-6)


@pytest.mark.parametrize("name", FILES)
def test_over_somebody_elses_slots(name) -> None:
    sampler = SlotSampler(60, example(name)(), seed=1)
    sampler.put(np.arange(0, 60, 2), np.arange(30) % 4)
    rng = np.random.default_rng(2)
    for _ in range(120):
        batch = sampler.sample(8)
        sampler.update_priorities(batch, rng.normal(size=8))
    sampler.remove([4, 8])
    law = sampler.probabilities().trained
    assert law[4] == law[5] == 0.0 and law.sum() == pytest.approx(1.0)
    assert not np.isin(sampler.sample(500).slots, [4, 8, 5]).any()
    assert sampler.check_valid() == (True, "")

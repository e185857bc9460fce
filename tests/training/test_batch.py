"""Draws and refreshes of the compiled trainer against a twin in plain Python.

The twin knows no tree and no group index: it sums masses from left to right, lists siblings by
scanning, and takes maxima and last values with dictionaries. Where the order of a group's members
decides which one a uniform picks, it asks the index for that order and checks it against the scan.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from sibling_replay.replay.partition import member
from sibling_replay.training.config import METHODS, paper_config
from sibling_replay.training.tabular import batch as kernels
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import TabularRun, advance
from sibling_replay.training.tabular.trainer import new_run

BETA = 0.55
CAPACITY = 300


EPSILON = 1e-6  # of the paper


@njit(cache=True)
def draw(memory, batch, rule, live, beta, rng):
    kernels.draw(memory, batch, rule, live, live - 1, beta, False, rng)


@njit(cache=True)
def refresh(memory, batch, rule, alpha, epsilon):
    return kernels.refresh(memory, batch, rule, alpha, epsilon, 0, 0)


class Twin:
    """The buffer of a run as plain lists."""

    def __init__(self, run: TabularRun, method: str) -> None:
        self.run = run
        self.method = method
        memory = run.memory
        self.live = int(run.clock["live"][0])
        self.groups = memory.group[: self.live].tolist()
        self.outcomes = memory.outcome[: self.live].tolist()
        self.masses = memory.entries.tree[: self.live].tolist()

    def members(self, group: int) -> list[int]:
        entries = self.run.memory.entries
        ordered = [
            int(member(entries.vec, entries.pool, group, k))
            for k in range(int(entries.vec[group, 0]))
        ]
        assert sorted(ordered) == [i for i, g in enumerate(self.groups) if g == group]
        return ordered

    def anchor(self, target: float) -> int:
        total = 0.0
        for slot, mass in enumerate(self.masses):
            total += mass
            if total > target:
                return slot
        return self.live - 1

    def draw(self, rng: np.random.Generator, size: int, subset: int) -> dict[str, Any]:
        """Anchors, trained slots, weights and the outcome terms {outcome: share} of every row."""
        uniforms = rng.random(size)
        if self.method == "DDQN":
            slots = [int(u * self.live) for u in uniforms]
            terms = [{self.outcomes[s]: 1.0} for s in slots]
            return {"slots": slots, "terms": terms, "weights": np.ones(size)}
        total = sum(self.masses)
        anchors = [self.anchor((b + u) * total / size) for b, u in enumerate(uniforms)]
        slots, terms, used = list(anchors), [], []
        means = []
        for b, anchor in enumerate(anchors):
            group = self.groups[anchor]
            mass, count = self.masses[anchor], 1
            if self.method != "PER":
                siblings = self.members(group)
                mass, count = sum(self.masses[s] for s in siblings), len(siblings)
            means.append(mass / count)
            chosen = [anchor]
            if self.method in ("SAMPLE", "MODEL"):
                chosen = [siblings[int(rng.random() * count)]]
                if self.method == "SAMPLE":
                    slots[b] = chosen[0]
            elif self.method == "AVG":
                chosen = siblings
            elif self.method.startswith("AVG-g"):
                chosen = floyd(siblings, rng.random(subset), subset)
            used.append(chosen)
            row: dict[int, float] = {}
            for slot in chosen:
                outcome = self.outcomes[slot]
                row[outcome] = row.get(outcome, 0.0) + 1.0 / len(chosen)
            terms.append(row)
        ratios = [self.live * m / total for m in means]
        weights = np.array(ratios) ** -BETA
        return {
            "anchors": anchors,
            "slots": slots,
            "terms": terms,
            "used": used,
            "weights": weights / weights.max(),
        }

    def refreshed(self, drawn: dict[str, Any], errors: list[float], every: bool) -> list[float]:
        """All masses after a refresh with alpha = 0.6."""
        masses = list(self.masses)
        proposed: dict[int, float] = {}
        for b, error in enumerate(errors):
            priority = abs(error) + EPSILON
            if self.method.startswith("AVG"):
                for slot in drawn["used"][b] if every else [drawn["anchors"][b]]:
                    proposed[slot] = max(proposed.get(slot, 0.0), priority)
            elif self.method != "DDQN":
                proposed[drawn["slots"][b]] = priority
        for slot, priority in proposed.items():
            masses[slot] = priority**0.6
        return masses


def floyd(siblings: list[int], uniforms: Any, wanted: int) -> list[int]:
    if len(siblings) <= wanted:
        return siblings
    chosen: list[int] = []
    for j in range(wanted):
        bound = len(siblings) - wanted + j
        pick = siblings[int(uniforms[j] * (bound + 1))]
        chosen.append(siblings[bound] if pick in chosen else pick)
    return chosen


@pytest.mark.parametrize("env", ["TwoChains", "FrozenLake-H50"])
@pytest.mark.parametrize(
    ("method", "every"),
    [(m, e) for m in METHODS for e in ((False, True) if m.startswith("AVG") else (False,))],
)
def test_draw_and_refresh_match_a_plain_twin(method: str, every: bool, env: str) -> None:
    config = paper_config(
        env, method, 2, steps=2_000, capacity=CAPACITY, learning_starts=50,
        update_all_siblings=every,
    )  # fmt: skip
    run, draws = new_run(config)
    rule, subset = run.settings.rule, config.max_siblings or 0
    repeated = 0
    for until in (60, 200, 450, 1_000, 2_000):  # not full, full, after evictions
        advance(Lent(run), draws, until, False)
        twin = Twin(run, method)
        seed = until
        drawn = twin.draw(np.random.default_rng(seed), config.batch_size, subset)
        draw(run.memory, run.batch, rule, twin.live, BETA, np.random.default_rng(seed))

        batch = run.batch
        assert batch.slots.tolist() == drawn["slots"]
        np.testing.assert_allclose(batch.weights, drawn["weights"], rtol=1e-6)
        for b in range(config.batch_size):
            assert batch.groups[b] == twin.groups[drawn["slots"][b]]
            terms: dict[int, float] = {}
            for t in range(batch.starts[b], batch.starts[b + 1]):
                terms[int(batch.outcomes[t])] = (
                    terms.get(int(batch.outcomes[t]), 0.0) + batch.shares[t]
                )
            assert terms == pytest.approx(drawn["terms"][b], rel=1e-12)
        if method == "DDQN":
            continue
        assert batch.anchors.tolist() == drawn["anchors"]
        repeated += config.batch_size - len(set(drawn["slots"]))

        # errors that differ also where a slot was drawn twice: order decides, or size
        errors = np.random.default_rng(seed + 1).normal(size=config.batch_size) * 3
        batch.td[:] = errors
        row = refresh(run.memory, batch, rule, config.alpha, EPSILON)
        assert row == int(np.argmax(np.abs(batch.td)))
        expected = twin.refreshed(drawn, batch.td.astype(np.float64).tolist(), every)
        np.testing.assert_allclose(run.memory.entries.tree[: twin.live], expected, rtol=1e-10)
        assert not run.memory.best.any()
    assert repeated > 0 or method == "DDQN"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_diverged_run_says_so(bad: float) -> None:
    config = paper_config("TwoChains", "PER", 2, steps=2_000, capacity=CAPACITY, learning_starts=50)
    run, draws = new_run(config)
    advance(Lent(run), draws, 100, False)
    before = run.memory.entries.tree.copy()
    run.batch.td[5] = bad
    with pytest.raises(ValueError, match="training has diverged"):
        refresh(run.memory, run.batch, run.settings.rule, 0.6, EPSILON)
    np.testing.assert_array_equal(before, run.memory.entries.tree)


def test_so_does_one_that_refreshes_nothing() -> None:
    config = paper_config("TwoChains", "DDQN", 2, steps=2_000, learning_starts=50)
    run, draws = new_run(config)
    advance(Lent(run), draws, 100, False)
    run.network.theta[:] = np.nan
    with pytest.raises(ValueError, match="training has diverged"):
        advance(Lent(run), draws, 110, False)

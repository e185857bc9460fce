"""Grouping anew: as if entries had come with the other key, and nothing else moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sibling_replay import (
    Draw,
    Field,
    KeyMap,
    Law,
    Needs,
    Prioritized,
    RankBased,
    Refresh,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    SlotSampler,
    Strategy,
    View,
    register,
)
from sibling_replay.grouping import Exact, Grid, KMeans, SimHash
from support.averaging import averaged

FIELDS = {
    "obs": Field(np.dtype(np.float32), (3,)),
    "action": Field(np.dtype(np.int64)),
    "reward": Field(np.dtype(np.float32)),
    "next_obs": Field(np.dtype(np.float32), (3,)),
    "terminated": Field(np.dtype(np.bool_)),
    "truncated": Field(np.dtype(np.bool_)),
    "mark": Field(np.dtype(np.int16)),
}
STRATEGIES = [
    SiblingSample(), SiblingSample(normalize="buffer", alpha=0.3), SiblingModel(),
    SiblingAverage(), SiblingAverage(max_siblings=2, update_all_siblings=True),
    SiblingAverage(update_all_siblings=True), SiblingSample(initial="median"),
]  # fmt: skip


class Modulo(KeyMap):
    """So many keys, of the first dimension."""

    def __init__(self, count: int) -> None:
        self.count = count

    def keys(self, obs: Any, action: Any) -> Any:
        return np.floor(np.asarray(obs)[:, 0] * 10).astype(np.int64) % self.count

    @property
    def digest(self) -> str:
        return f"modulo {self.count}"


def columns(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, 3)).astype(np.float32)
    return {
        "obs": obs, "action": rng.integers(2, size=count), "reward": obs[:, 1], "next_obs": obs,
        "terminated": obs[:, 0] > 2, "truncated": obs[:, 0] < -2, "mark": np.arange(count),
    }  # fmt: skip


def new(key: Any, strategy: Any = None, capacity: int = 200) -> ReplayBuffer:
    return ReplayBuffer(FIELDS, capacity, strategy or SiblingSample(), key=key, seed=0)


def refresh_all(buffer: ReplayBuffer, seed: int = 0) -> None:
    errors = np.random.default_rng(seed).exponential(size=len(buffer))
    buffer.update_priorities(buffer.batch_of(np.arange(len(buffer))), errors)


def go_on(buffer: ReplayBuffer, turns: int = 6) -> list[Any]:
    """All that draws give, with refreshes and evictions in between."""
    found = []
    for turn in range(turns):
        batch = averaged(buffer.sample(16, 0.7))
        found += [batch.slots.copy(), batch.outcome_slots.copy(), batch.groups.copy()]
        found += [batch.weights.copy(), batch.average(batch.outcomes.reward)]
        buffer.update_priorities(batch, np.linspace(-2, 2, 16) + turn)
        buffer.extend(**columns(17, seed=50 + turn))
    return [*found, buffer.masses, buffer.groups]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize(
    "before",
    ["exact", Modulo(3), lambda obs, action: obs[0] > 0],
    ids=["exact", "a map", "a function"],
)
def test_a_buffer_grouped_anew_is_one_built_anew(strategy, before) -> None:
    rekeyed, built = new(before, strategy), new(Modulo(7), strategy)
    for buffer in (rekeyed, built):
        buffer.extend(**columns(150))
    rekeyed.rekey(Modulo(7))
    assert rekeyed.check_valid() == (True, "")
    assert rekeyed.state_dict()["header"] == built.state_dict()["header"]
    mine, theirs = rekeyed.state_dict(), built.state_dict()
    for name in theirs:
        if name not in ("header", "index.pool"):  # in which wear of sums is noted
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    for a, b in zip(go_on(rekeyed), go_on(built), strict=True):
        np.testing.assert_array_equal(a, b)
    stored = rekeyed.transitions()
    for name, column in built.transitions().items():
        np.testing.assert_array_equal(stored[name], column)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_masses_slots_and_the_random_stream_stay(strategy) -> None:
    """After evictions and refreshes: anchors are drawn as before, siblings from the new groups."""
    buffer = new("exact", strategy)
    buffer.extend(**columns(330))
    refresh_all(buffer)
    state, stored = buffer.state_dict(), buffer.transitions()
    before = buffer.masses, buffer.max_priority, buffer.generations
    key = Grid(2).fit(stored["obs"])
    buffer.rekey(key)
    assert buffer.check_valid() == (True, "")
    for a, b in zip(before, (buffer.masses, buffer.max_priority, buffer.generations), strict=True):
        np.testing.assert_array_equal(a, b)
    after = buffer.state_dict()
    assert after["header"]["uniforms"] == state["header"]["uniforms"]
    for name in ("index.tree", "index.slot_floors", "peaks"):
        np.testing.assert_array_equal(after[name], state[name])
    now = buffer.transitions()
    np.testing.assert_array_equal(now.pop("group_key"), key.keys(stored["obs"]))
    for name, column in now.items():
        np.testing.assert_array_equal(column, stored[name])
    pairs = key.keys(stored["obs"]) * 2 + stored["action"]
    _, first, groups = np.unique(pairs, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(buffer.groups[first][groups], buffer.groups)
    assert len(np.unique(buffer.groups)) == first.size
    sizes, sums = np.bincount(groups), np.bincount(groups, buffer.masses)
    if type(strategy) is SiblingSample:
        law = (sums / sizes / sums.sum())[groups]
        np.testing.assert_allclose(buffer.probabilities().trained, law, rtol=1e-12)
    twin = new("exact", strategy)
    twin.load_state_dict(state)
    np.testing.assert_array_equal(twin.sample(64).anchors, buffer.sample(64).anchors)


def test_random_traffic_with_many_keys() -> None:
    rng = np.random.default_rng(5)
    keys = ["exact", Modulo(1), Modulo(5), Modulo(100), lambda obs, action: obs[0] > 0]
    keys += [m.fit(columns(300)["obs"]) for m in (Grid(3), SimHash(9), KMeans(6), Exact())]
    for strategy in (SiblingSample(normalize="buffer"), SiblingAverage(update_all_siblings=True)):
        buffer = new("exact", strategy, capacity=60)
        for turn in range(80):
            buffer.extend(**columns(int(rng.integers(1, 9)), seed=turn))
            late = averaged(buffer.sample(8))
            if turn % 3 == 0:
                buffer.rekey(keys[rng.integers(len(keys))])
            buffer.update_priorities(late, rng.normal(size=8))
            buffer.update_priorities(averaged(buffer.sample(8)), rng.normal(size=8))
            assert buffer.check_valid() == (True, ""), turn
            assert len(buffer) == min(60, buffer._memory.added)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_batches_from_before_refresh_the_slots_they_trained(strategy) -> None:
    buffer = new("exact", strategy, capacity=50)
    buffer.extend(**columns(50))
    batch = averaged(buffer.sample(4))
    slots = batch.slots.copy()
    buffer.rekey(Modulo(4))
    buffer.rekey(Modulo(2))
    buffer.update_priorities(batch, np.full(4, 9.0))
    expected = np.ones(50)
    expected[slots] = (9.0 + 1e-6) ** strategy.alpha
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)
    batch, slots = averaged(buffer.sample(4)), None
    buffer.rekey("exact")
    buffer.extend(**columns(50, seed=1))  # all gone
    buffer.update_priorities(batch, np.full(4, 99.0))
    assert buffer.dropped_updates >= 4 and buffer.max_priority < 10 and slots is None
    other = new("exact", strategy, capacity=50)
    other.extend(**columns(50))
    with pytest.raises(ValueError, match="not drawn from this buffer"):
        buffer.update_priorities(averaged(other.sample(4)), np.ones(4))


@register
@dataclass(frozen=True, kw_only=True)
class NotingGroups(Strategy):
    """A column and a score a group, to be kept."""

    name = "noting groups"

    @property
    def needs(self):
        return Needs(groups=True, scores=True, kappa=0.5, columns={"error": np.nan})

    def draw(self, view, size, stream, beta):
        return Draw(slots=view.slots[(stream.take(size) * view.size).astype(np.int64)])

    def refresh(self, view, draw, td_errors, signals):
        return Refresh(
            slots=draw.slots, columns={"error": td_errors},
            groups=view.groups(draw.slots), scores=np.abs(td_errors) + 0.1,
        )  # fmt: skip

    def law(self, view, size):
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)


def test_columns_stay_and_scores_are_means_over_members() -> None:
    buffer = new(Modulo(12), NotingGroups())
    buffer.extend(**columns(260))
    for seed in range(5):
        errors = np.random.default_rng(seed).normal(size=20)
        buffer.update_priorities(buffer.sample(20), errors)
    view = View(buffer._memory)
    column = view.column("error").copy()
    scores = view.scores(view.groups(view.slots))  # of each entry's group
    buffer.rekey(Modulo(4))  # unions
    assert buffer.check_valid() == (True, "")
    view = View(buffer._memory)
    np.testing.assert_array_equal(view.column("error"), column)
    groups = view.groups(view.slots)
    for group in view.group_ids:
        members = groups == group
        np.testing.assert_allclose(view.scores(np.array([group])), scores[members].mean())
        values = column[members][np.isfinite(column[members])]
        found = np.array(view.column_sums("error", np.array([group]))).ravel()
        np.testing.assert_allclose(found, [values.size, values.sum(), (values**2).sum()])
    unions = view.scores(groups).copy()
    buffer.rekey(Modulo(8))  # parts of them: each keeps what the whole had, bit for bit
    view = View(buffer._memory)
    np.testing.assert_array_equal(view.scores(view.groups(view.slots)), unions)
    rank = new("exact", RankBased(alpha=0.7), 50)
    rank.extend(**columns(50))
    rank.update_priorities(rank.sample(10), np.arange(10.0))
    noted = View(rank._memory).column(rank._memory.noted[0]).copy()
    rank.rekey(Modulo(2))
    assert rank.check_valid() == (True, "")
    np.testing.assert_array_equal(View(rank._memory).column(rank._memory.noted[0]), noted)


def test_what_cannot_be_rekeyed_is_refused_and_changes_nothing() -> None:
    buffer = new(Modulo(5))
    buffer.extend(**columns(80))
    before, groups = buffer.state_dict(), buffer.groups

    class Broken(KeyMap):
        def keys(self, obs: Any, action: Any) -> Any:
            if len(action) > 1:
                raise RuntimeError("broken")
            return np.zeros(1, np.int64)

    for wrong, kind, match in (
        ("given", ValueError, "by a map or function, not by 'given'"),
        (None, ValueError, "needs groups"),
        ("cells", ValueError, "key must be"),
        (Broken(), RuntimeError, "broken"),
        (Grid(2).fit(np.zeros((4, 9))), ValueError, r"of shape \(9,\)"),
    ):
        with pytest.raises(kind, match=match):
            buffer.rekey(wrong)
        assert (
            buffer.check_valid() == (True, "") and buffer.state_dict()["header"] == before["header"]
        )
        np.testing.assert_array_equal(buffer.groups, groups)
    with pytest.raises(ValueError, match="keeps no groups"):
        new(None, Prioritized()).rekey(Modulo(2))
    with pytest.raises(ValueError, match="nothing to fit it to"):
        new(Modulo(2)).rekey(Grid(2))
    empty = new(Modulo(2))
    empty.rekey(Modulo(3))
    empty.extend(**columns(80))
    assert empty.support().groups == 6


def test_keys_that_cannot_be_stored_are_refused_as_by_add() -> None:
    class Single(KeyMap):
        def keys(self, obs: Any, action: Any) -> Any:
            return np.zeros(1, np.int64)

    buffer = new(Modulo(5))
    buffer.extend(**columns(80))
    groups = buffer.groups
    for wrong, match in (
        (lambda obs, action: 0 if not np.any(obs) else 1.5, "expected dtype int64"),
        (Single(), "keys of 80 entries must be whole numbers"),
    ):
        with pytest.raises(TypeError, match=match):
            buffer.rekey(wrong)
        np.testing.assert_array_equal(buffer.groups, groups)


def test_slots_of_a_host_are_grouped_anew() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(30, size=100), rng.integers(4, size=100).astype(np.int16)
    for strategy in (SiblingSample(), SiblingAverage(), NotingGroups()):
        sampler, built = (SlotSampler(100, strategy, seed=0) for _ in range(2))
        order = rng.permutation(100)[:70]
        sampler.put(order, (first[order], second[order]))
        built.put(order, second[order])
        live = sampler.live_slots
        late = averaged(sampler.sample(5))
        built.sample(5)
        sampler.rekey(second[live])
        assert sampler.check_valid() == (True, "")
        np.testing.assert_array_equal(sampler.groups, built.groups)
        for turn in range(5):
            drawn = averaged(sampler.sample(8)), averaged(built.sample(8))
            np.testing.assert_array_equal(drawn[0].slots, drawn[1].slots)
            np.testing.assert_array_equal(drawn[0].weights, drawn[1].weights)
            for one, batch in zip((sampler, built), drawn, strict=True):
                one.update_priorities(batch, np.arange(8.0))
                one.put(order[turn], second[order[turn]])
        sampler.update_priorities(late, np.ones(5))
        assert sampler.support().groups == 4 and sampler.check_valid() == (True, "")
        with pytest.raises(ValueError, match="keys"):
            sampler.rekey(second[:3])
    counted = SlotSampler(20, SiblingAverage(), seed=0)
    counted.put(np.arange(10), np.arange(10), np.arange(10) % 2)
    counted.rekey(np.zeros(10, np.int64))
    batch = counted.sample(3)
    assert len(batch.outcomes) == 6 and counted.check_valid() == (True, "")


@pytest.mark.parametrize("count", [1, 40])
def test_one_group_is_uniform_and_single_entries_are_prioritized(count) -> None:
    data = columns(count)
    data["action"][:] = 0
    together = new(Grid(1).fit(data["obs"]))
    apart = new(Exact())
    plain = new(None, Prioritized())
    for buffer in (together, apart, plain):
        buffer.extend(**data)
        refresh_all(buffer)
    np.testing.assert_allclose(together.probabilities().trained, 1 / count, rtol=1e-12)
    for a, b in zip(apart.probabilities(), plain.probabilities(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("size", [400, 4_000])
@pytest.mark.parametrize("bins", [2, 4, 8])
def test_the_law_of_granularity(bins, size) -> None:
    """Where siblings share an outcome law, a rare outcome is over-represented by
    R = 1 + (R_PER - 1) G / N: what of the excess is kept is G / N.

    Exactly it is (G - 1) / (N - 1), over all ways to deal the outcomes of a buffer to its entries;
    G / N is more by at most 1 / N.
    """
    rng = np.random.default_rng(7)
    replicates = 250
    obs = rng.random((size, 3)).astype(np.float32)
    zeros, ends = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    buffer = new(Grid(bins, "uniform").fit(obs), SiblingSample(alpha=1.0), size)
    buffer.extend(obs, zeros, zeros, obs, ends, ends, mark=zeros)
    groups = buffer.support().groups
    kept = (groups - 1) / (size - 1)
    everything = buffer.batch_of(np.arange(size))
    excess = np.empty(replicates)
    for replicate in range(replicates):
        rare = rng.random(size) < 0.05
        buffer.update_priorities(everything, np.where(rare, 30.0, 1.0))
        drawn = buffer.probabilities().trained[rare].sum() / rare.mean()
        prioritized = buffer.masses[rare].sum() / buffer.masses.sum() / rare.mean()
        assert prioritized > 8
        excess[replicate] = drawn - (1.0 + (prioritized - 1.0) * kept)
    error = 3 * excess.std(ddof=1) / np.sqrt(replicates)
    assert abs(excess.mean()) < error < 0.2 * kept * prioritized
    assert 0.0 <= groups / size - kept < 1 / size

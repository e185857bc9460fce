"""Buffers that fit the map they were given: when, to what, and what a file keeps of it."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import (
    Field,
    Parts,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    StateError,
)
from sibling_replay.checkpoint import read_state, write_state
from sibling_replay.grouping import Auto, Downscale, Entries, Exact, Grid, KMeans, SimHash
from support.averaging import averaged

OBS, FLAG = Field(np.dtype(np.float32), (4,)), Field(np.dtype(np.bool_))


def fields(obs: Field = OBS, action: Field | None = None) -> dict[str, Field]:
    return {
        "obs": obs, "action": action or Field(np.dtype(np.int64)),
        "reward": Field(np.dtype(np.float32)), "next_obs": obs,
        "terminated": FLAG, "truncated": FLAG,
    }  # fmt: skip


def transitions(count: int, seed: int = 0, action: Any = None) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, 4)).astype(np.float32)
    ends = np.zeros(count, np.bool_)
    action = rng.integers(2, size=count) if action is None else action
    return obs, action, obs[:, 0], obs, ends, ends


def new(key: Any, strategy: Any = None, capacity: int = 6_000) -> ReplayBuffer:
    return ReplayBuffer(fields(), capacity, strategy or SiblingSample(), key=key, seed=0)


def train(buffer: ReplayBuffer, seeds: range, count: int = 100) -> list[Any]:
    found = []
    for seed in seeds:
        buffer.extend(*transitions(count, seed))
        batch = averaged(buffer.sample(16))
        found += [batch.slots.copy(), batch.weights.copy(), batch.groups.copy()]
        buffer.update_priorities(batch, np.random.default_rng(seed).normal(size=16))
    return found


def equal(a: list[Any], b: list[Any]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingModel(), SiblingAverage()])
@pytest.mark.parametrize("kind", [Grid(3), SimHash(6), KMeans(9)], ids=repr)
def test_a_map_is_fitted_to_the_first_entries_and_all_are_grouped_by_it(kind, strategy) -> None:
    buffer, values = new(kind, strategy), transitions(2_500)
    for row in zip(*(column[:1_999] for column in values), strict=True):
        buffer.add(*row)
    assert buffer.support().groups == 2  # by action alone
    assert buffer.support().reason == "siblings are entries with equal action until then"
    buffer.add(*(column[1_999] for column in values))
    fitted = kind.unfitted().fit(values[0][:2_000])
    assert buffer.support().key == repr(kind) and not kind.fitted
    assert buffer.state_dict()["header"]["key_digest"] == fitted.digest
    buffer.extend(*(column[2_000:] for column in values))
    built = new(fitted, strategy)
    built.extend(*values)
    np.testing.assert_array_equal(buffer.groups, built.groups)
    np.testing.assert_array_equal(buffer.transitions()["group_key"], fitted.keys(values[0]))
    assert equal(train(buffer, range(5)), train(built, range(5)))
    assert buffer.check_valid() == (True, "")


def test_a_template_serves_several_buffers_and_a_fitted_map_is_used_as_it_is() -> None:
    template = Grid(4)
    a, b = new(template), new(template)
    a.extend(*transitions(2_000, seed=1))
    b.extend(*transitions(2_000, seed=2))
    digests = [x.state_dict()["header"]["key_digest"] for x in (a, b)]
    assert digests[0] != digests[1] and not template.fitted
    mine = Grid(4).fit(transitions(50)[0])
    buffer = new(mine)
    buffer.extend(*transitions(5_000))
    assert buffer.state_dict()["header"]["key_digest"] == mine.digest


def test_a_small_buffer_is_fitted_when_it_is_full() -> None:
    buffer = new(Grid(2), capacity=300)
    buffer.extend(*transitions(299))
    assert buffer.support().groups == 2
    buffer.extend(*transitions(1))
    assert buffer.support().groups == 32


@pytest.mark.parametrize("when", [500, 2_500])
@pytest.mark.parametrize(
    "kind", [Grid(3), SimHash(6), KMeans(9), Auto(), Auto(noise=0.3)], ids=repr
)
def test_files_hold_the_map_and_continue_bit_for_bit(kind, when, tmp_path) -> None:
    buffer = new(kind)
    train(buffer, range(when // 100))
    path = tmp_path / "buffer.npz"
    buffer.save(path)
    twins = [ReplayBuffer.load(path), ReplayBuffer.load(path, key=kind)]
    twins += [copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer)), new(kind)]
    twins[-1].load_state_dict(buffer.state_dict())
    busy = new(kind)
    train(busy, range(30, 60))
    busy.load_state_dict(buffer.state_dict())
    twins.append(busy)
    expected = train(buffer, range(70, 100))
    for twin in twins:
        assert equal(train(twin, range(70, 100)), expected)
        assert twin.support() == buffer.support() and twin.key_choices == buffer.key_choices
        assert twin.state_dict()["header"] == buffer.state_dict()["header"]
        assert twin.check_valid() == (True, "")


def test_files_of_fitted_maps_and_of_the_encoder_need_no_key(tmp_path) -> None:
    path = tmp_path / "buffer.npz"
    key = SimHash(7).fit(transitions(400)[0])
    buffer = new(key)
    buffer.extend(*transitions(900))
    buffer.save(path)
    for again in (ReplayBuffer.load(path), ReplayBuffer.load(path, key=key)):
        np.testing.assert_array_equal(again.groups, buffer.groups)
        again.extend(*transitions(2_000))
        assert again.state_dict()["header"]["key_digest"] == key.digest
    for other in (SimHash(7).fit(transitions(400, seed=1)[0]), SimHash(7), Grid(2)):
        with pytest.raises(StateError, match="the state is of another buffer: key"):
            ReplayBuffer.load(path, key=other)
    from sibling_replay.grouping import VQVAE

    frames = Field(np.dtype(np.bool_), (10, 10, 4))
    encoded = ReplayBuffer(fields(frames), 50, SiblingSample(), key=VQVAE("Breakout"), seed=0)
    obs = np.random.default_rng(0).random((40, 10, 10, 4)) < 0.1
    encoded.extend(obs, np.arange(40) % 2, np.zeros(40), obs, obs[:, 0, 0, 0], obs[:, 0, 0, 0])
    encoded.save(path)
    again = ReplayBuffer.load(path)
    np.testing.assert_array_equal(again.sample(30).slots, encoded.sample(30).slots)
    again.extend(obs, np.arange(40) % 2, np.zeros(40), obs, obs[:, 0, 0, 0], obs[:, 0, 0, 0])
    state = encoded.state_dict()
    old = {name: array for name, array in state.items() if not name.startswith("key_map/")}
    old["header"] = {name: value for name, value in old["header"].items() if name != "key_map"}
    twin = ReplayBuffer(fields(frames), 50, SiblingSample(), key=VQVAE("Breakout"))
    twin.load_state_dict(old)  # from before maps were saved
    np.testing.assert_array_equal(twin.groups, encoded.groups)


def test_a_tampered_map_is_refused(tmp_path) -> None:
    path = tmp_path / "buffer.npz"
    buffer = new(Grid(3))
    buffer.extend(*transitions(2_100))
    buffer.save(path)
    header, arrays = read_state(path)

    def refused(header: Any, arrays: Any, match: str) -> None:
        write_state(path, header, arrays)
        with pytest.raises(StateError, match=match):
            ReplayBuffer.load(path)

    moved = arrays["key_map/edges"].copy()
    moved[0, 0] += 0.01
    refused(header, {**arrays, "key_map/edges": moved}, "not the one it was saved with")
    bins = copy.deepcopy(header)
    bins["key_map"]["spec"]["options"]["edges"] = "uniform"
    refused(bins, arrays, "not the one it was saved with")
    refused(header, {**arrays, "key_map/dims": arrays["key_map/dims"] + 9}, "cannot be restored")
    lacking = {name: array for name, array in arrays.items() if name != "key_map/least"}
    refused(header, lacking, "cannot be restored")
    unnamed = {name: value for name, value in header.items() if name != "key_map"}
    refused(unnamed, arrays, "arrays of a key map that its header does not name")
    late = copy.deepcopy(header)
    late["key_map"]["due"] = -4
    refused(late, arrays, "cannot be restored")
    other = copy.deepcopy(header)  # a whole map, but not that of these rows
    key = Grid(3).fit(transitions(300, seed=9)[0])
    other["key_map"] |= {"spec": key.state().spec, "digest": key.digest}
    own = {f"key_map/{name}": array for name, array in key.state().arrays.items()}
    refused(other, {**arrays, **own}, "key_digest")


def test_auto_chooses_when_entries_have_doubled_and_at_no_other_time() -> None:
    buffer = new(Auto(fit_after=500), capacity=4_500)
    chosen_at = []
    for row in zip(*transitions(9_500), strict=True):
        buffer.add(*row)
        if len(buffer.key_choices) > len(chosen_at):
            chosen_at.append(buffer._memory.added)
    assert chosen_at == [500, 1_000, 2_000, 4_000]
    assert [choice.entries for choice in buffer.key_choices] == chosen_at
    found = buffer.support()
    last = buffer.key_choices[-1]
    assert found.key == f"{last.key}, chosen by Auto(noise=0.02, fit_after=500)"
    assert found.reason == last.reason and last.groups_per_entry <= 0.02
    assert 0.004 < found.groups_per_entry <= 0.02
    assert len({choice.digest for choice in buffer.key_choices}) == 4
    assert buffer.check_valid() == (True, "")


def test_auto_takes_equal_observations_where_they_repeat(tmp_path) -> None:
    tabular = ReplayBuffer(
        fields(Field(np.dtype(np.float64))), 8_000, SiblingSample(), key=Auto(fit_after=400), seed=0
    )
    exact = ReplayBuffer(fields(Field(np.dtype(np.float64))), 8_000, SiblingSample(), seed=0)
    for start in range(0, 2_000, 100):
        obs = np.arange(start, start + 100.0) % 9
        for buffer in (tabular, exact):
            buffer.extend(obs, (obs % 2).astype(int), obs, obs, obs < 0, obs < 0)
    assert tabular.key_kind == "exact" and tabular.state_dict()["header"]["key_form"] is None
    np.testing.assert_array_equal(tabular.groups, exact.groups)
    assert "equal observations repeat" in tabular.support().reason
    assert "group_key" not in tabular.transitions()  # nothing more is stored
    np.testing.assert_array_equal(tabular.sample(40).slots, exact.sample(40).slots)
    tabular.save(tmp_path / "exact.npz")
    again = ReplayBuffer.load(tmp_path / "exact.npz")
    assert again.support() == tabular.support()
    many = np.arange(5_000.0)  # no more: the next choice sees it
    again.extend(many, (many % 2).astype(int), many, many, many < 0, many < 0)
    assert len(again.key_choices) == len(tabular.key_choices) + 1 and again.key_kind == "map"
    assert again.support().groups_per_entry < 0.05 and again.check_valid() == (True, "")


def test_continuous_control_has_groups() -> None:
    env = gym.make("Pendulum-v1")
    for key in (Grid(3), Auto(), KMeans(30)):
        buffer = ReplayBuffer.for_env(env, 3_000, SiblingSample(), key=key, seed=0)
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(2_500, 3)).astype(np.float32)
        action = rng.uniform(-2, 2, size=(2_500, 1)).astype(np.float32)
        ends = np.zeros(2_500, np.bool_)
        buffer.extend(obs[:600], action[:600], ends[:600], obs[:600], ends[:600], ends[:600])
        assert buffer.support().groups == 1
        buffer.extend(obs[600:], action[600:], ends[600:], obs[600:], ends[600:], ends[600:])
        assert 16 <= buffer.support().groups <= 81 and buffer.support().singletons < 0.05
        batch = buffer.sample(200)
        spread = [np.ptp(action[buffer.groups == group]) for group in np.unique(batch.groups)]
        assert 0.0 < np.mean(spread) < 3.9  # siblings have like actions
        assert buffer.check_valid() == (True, "")
    exact = ReplayBuffer.for_env(env, 3_000, SiblingSample(), key=Exact(), seed=0)
    exact.extend(obs, action, ends, obs, ends, ends)
    assert exact.support().groups == 2_500 and exact.key_kind == "exact"


def test_what_a_fit_would_refuse_is_refused_before_it_is_stored() -> None:
    for key in (Grid(3), Auto()):
        buffer = new(key)
        buffer.extend(*transitions(100))
        wrong = transitions(3, seed=1)
        wrong[0][2, 1] = np.nan
        with pytest.raises(ValueError, match="must be finite: dimension 1 of row 2 is nan"):
            buffer.extend(*wrong)
        with pytest.raises(ValueError, match="must be finite: dimension 1 of row 0 is nan"):
            buffer.add(*(column[2] for column in wrong))
        assert len(buffer) == 100 and buffer.check_valid() == (True, "")
    with pytest.raises(ValueError, match="Downscale is for images"):
        new(Downscale())
    with pytest.raises(ValueError, match="dims has 7, and observations have 4"):
        new(Grid(2, dims=(7,)))


@pytest.mark.parametrize(
    ("obs", "kind"),
    [
        (OBS, Grid(3)), (OBS, SimHash(9)), (OBS, KMeans(7)), (OBS, Auto(noise=0.2)),
        (Field(np.dtype(np.float32), (40,)), Grid(4)),  # two integers a key
        (Field(np.dtype(np.float64), (2, 2)), SimHash(5)),
        (Field(np.dtype(np.float16), (3,)), Grid(2)),
        (Field(np.dtype(np.int64)), Grid(3)),
        (Field(np.dtype(np.bool_), (5, 5)), KMeans(6)),
        (Field(np.dtype(np.uint8), (9, 8)), Downscale((3, 2), 4, KMeans(5))),
        (Field(np.dtype(np.float32), (2, 9, 8)), Downscale((3, 2), None, SimHash(5))),
        (Field(np.dtype(np.uint8), (9, 8, 3)), Downscale((2, 2), 4, Exact())),
    ],
)  # fmt: skip
def test_entries_one_by_one_have_the_keys_of_a_batch(obs, kind) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, *obs.shape)) * 50
    values[rng.random(values.shape) < 0.1] = -0.0
    values = values > 60 if obs.dtype.kind == "b" else np.abs(values).astype(obs.dtype)
    if obs.dtype.kind == "f":
        values *= rng.choice(np.array([-1, 1], obs.dtype), values.shape)
    alone, whole = (
        ReplayBuffer(fields(obs), 300, SiblingSample(), key=kind, seed=0) for _ in range(2)
    )
    key = kind.unfitted().fit(values[:150])
    for buffer in (alone, whole):
        buffer.rekey(key)
    action, ends = rng.integers(3, size=300), np.zeros(300, np.bool_)
    for i in range(300):
        one = values[i]
        if obs.shape and i % 3 == 1:
            one = np.asfortranarray(one) if i % 2 else one.astype(obs.dtype.newbyteorder(">"))
        if obs.dtype.kind == "b" and i % 3 == 2:
            one = (one * np.uint8(6)).view(np.bool_)  # true, if not 1
        alone.add(one, action[i], 0.0, values[i], False, False)
    whole.extend(values, action, np.zeros(300), values, ends, ends)
    if not key.is_exact:
        found = alone.transitions()["group_key"]
        np.testing.assert_array_equal(found, key.keys(values))
        np.testing.assert_array_equal(found, whole.transitions()["group_key"])
        assert len(np.unique(found, axis=0)) > 2
    np.testing.assert_array_equal(alone.groups, whole.groups)
    if obs.dtype.kind == "f":
        with pytest.raises(ValueError, match="must be finite: dimension 0 of row 0 is nan"):
            alone.add(np.full(obs.shape, np.nan, obs.dtype), 0, 0.0, values[0], False, False)


def test_a_choice_that_cannot_be_made_again_is_told() -> None:
    buffer = ReplayBuffer(
        fields(Field(np.dtype(np.float32))), 500, SiblingSample(), key=Auto(fit_after=100), seed=0
    )
    obs, ends = (np.arange(100) % 3).astype(np.float32), np.zeros(100, np.bool_)
    buffer.extend(obs, ends, ends, obs, ends, ends)
    assert buffer.key_kind == "exact"  # which may be NaN
    with pytest.warns(UserWarning, match=r"siblings stay those of Auto\(.*must be finite"):
        buffer.extend(np.full(100, np.nan), ends, ends, obs, ends, ends)
    buffer.extend(obs, ends, ends, obs, ends, ends)
    assert len(buffer) == 300 and buffer.support().groups == 4


def test_an_unfitted_map_can_be_given_to_rekey() -> None:
    buffer = new("exact")
    buffer.extend(*transitions(700))
    buffer.rekey(Grid(2))
    assert buffer.support().groups == 32
    buffer.extend(*transitions(2_000))
    assert buffer.support().key == "Grid(bins=2)" and buffer.support().groups == 32
    buffer.rekey(Auto())
    assert [choice.entries for choice in buffer.key_choices] == [2_700]
    buffer.extend(*transitions(2_700))
    assert [choice.entries for choice in buffer.key_choices] == [2_700, 5_400]
    plain = new(Grid(2), Prioritized())
    plain.extend(*transitions(2_000))
    assert plain.support().groups == 32
    with pytest.raises(ValueError, match="so this buffer keeps none"):
        new(None, Prioritized()).support()


def test_corrections_that_correct_nothing_are_told() -> None:
    def said(buffer: ReplayBuffer) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(400):
                buffer.sample(32)
        return [str(warning.message) for warning in found]

    waiting = new(Auto(fit_after=5_000))
    waiting.extend(*transitions(3_000))
    assert said(waiting) == []  # it is known to be coarse, and for how long
    waiting.extend(*transitions(3_000))
    assert said(waiting) == [] and len(waiting.key_choices) == 1
    data = list(transitions(3_000))
    coarse = new(Grid(1))
    coarse.extend(data[0], np.zeros(3_000, int), *data[2:])
    (text,) = said(coarse)
    assert "have 100.0% of all entries on average" in text and "nearly what Uniform does" in text
    fine = new(Grid(4_000))
    fine.extend(*data)
    (text,) = said(fine)
    assert "have siblings" in text and "key=Auto()" in text
    fine.rekey(Grid(2))
    assert said(fine) == [] and fine.draw_statistics()["group_size"] > 50


def test_auto_within_entries_chooses_as_often() -> None:
    number = np.dtype(np.float32)
    parts = Parts({"seen": Field(number, (2,)), "noise": Field(number, (3,))})
    key = Entries(("seen",), then=Auto(fit_after=200))
    buffer = ReplayBuffer(fields(parts), 1_000, SiblingSample(), key=key, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(1_000):
        obs = {"seen": rng.normal(size=2), "noise": rng.normal(size=3)}
        buffer.add(obs, 0, 0.0, obs, False, False)
    assert [choice.entries for choice in buffer.key_choices] == [200, 400, 800]
    assert buffer.key_choices[-1].key in buffer.support().key

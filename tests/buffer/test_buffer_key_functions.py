"""Siblings by a function of the user, or by groups that are given: what is one group, and what is
refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from buffer_kit import (
    assert_refused,
    assert_same_partition,
    assert_valid,
    differences,
    schema,
    snapshot,
    tabular,
)

from sibling_replay import (
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
)
from support.averaging import averaged
from support.numpy_strategies import NumPyAverage

KEY_FUNCTIONS = {
    "int": lambda obs, action: int(obs) // 2,
    "numpy int": lambda obs, action: obs % np.int32(3),
    "bool": lambda obs, action: obs > 2,
    "float": lambda obs, action: float(obs) / 2 * 0 - 0.0 if obs < 3 else 1.5,
    "vector": lambda obs, action: np.array([obs % 2, action]),
    "bool vector": lambda obs, action: np.arange(5) == obs % 2,
    "list": lambda obs, action: [int(obs) % 2, int(action)],
}


@pytest.mark.parametrize("key", KEY_FUNCTIONS.values(), ids=KEY_FUNCTIONS)
@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingAverage(), SiblingModel()])
def test_key_functions(strategy, key) -> None:
    """Equal results and actions, equal groups, for add and extend alike."""
    one, many = tabular(strategy, 20, key=key), tabular(strategy, 20, key=key)
    rng = np.random.default_rng(1)
    obs, action, next_obs = (rng.integers(6, size=50) for _ in range(3))
    ends = np.zeros(50, bool)
    for i in range(50):
        one.add(int(obs[i]), action[i], 0.0, next_obs[i], False, False)
    many.extend(obs.tolist(), action, np.zeros(50), next_obs, ends, ends)
    assert differences(snapshot(one), snapshot(many)) == []
    assert_valid(one)
    labels = [
        ((np.asarray(key(obs[i], action[i]), dtype=float) + 0.0).tobytes(), action[i])
        for i in (*range(40, 50), *range(30, 40))
    ]
    assert_same_partition(labels, one.groups)
    batch = one.sample(100)
    newest = [obs[slot + 40 if slot < 10 else slot + 20] for slot in batch.slots]
    np.testing.assert_array_equal(batch.obs, newest)
    assert "group_key" in batch.columns


def test_a_key_function_is_given_what_is_stored() -> None:
    seen = []

    def key(obs: Any, action: Any) -> int:
        seen.append((obs.dtype, obs.shape, action.dtype))
        return int(obs.sum())

    buffer = ReplayBuffer(schema(Field(np.float32, (2,))), 8, SiblingSample(), key=key)
    buffer.add([1.0, 2.0], 1, 0.0, [0.0, 0.0], False, False)
    buffer.extend([[1.0, 2.0], [3.0, 0.0]], [1, 1], [0.0, 0.0], np.zeros((2, 2)), [0, 0], [0, 0])
    assert set(seen) == {(np.dtype(np.float32), (2,), np.dtype(np.int64))}
    assert buffer.groups.tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(), (1,), (2,)])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.bool_])
def test_a_key_function_is_given_one_form_of_observation_and_action(dtype, shape) -> None:
    """Arrays of the field's shape, NumPy scalars for shape (), whatever was handed in, and at
    construction; without the sign of zero, which is not stored."""
    seen: list[tuple[Any, Any]] = []

    def key(obs: Any, action: Any) -> int:
        seen.append((obs, action))
        return 0

    field = Field(dtype, shape)
    buffer = ReplayBuffer(schema(field, field), 8, SiblingSample(), key=key)
    one = np.ones(shape, dtype)
    for value in (one, one[()], one.tolist()):
        buffer.add(value, value, 0.0, value, False, False)
        buffer.extend([value] * 2, [value] * 2, [0.0] * 2, [value] * 2, [0] * 2, [0] * 2)
    assert len(seen) == 1 + 3 * 3
    for pair in seen:
        for value in pair:
            assert value.dtype == dtype and value.shape == shape
            assert isinstance(value, np.ndarray if shape else np.generic)
    buffer.add(-0 * one, -0.0 * one if dtype is np.float32 else one, 0.0, one, False, False)
    assert not np.signbit(seen[-1][1].astype(np.float64)).any()
    wrong = np.ones((3, 3), dtype)
    calls = len(seen)
    assert_refused(
        buffer, lambda: buffer.add(wrong, one, 0.0, one, False, False), "obs: expected shape"
    )
    assert len(seen) == calls, "the function never sees other shapes"


def test_the_binning_example_of_the_docstring() -> None:
    edges = [np.linspace(-2, 2, 9), np.linspace(-2, 2, 9), np.linspace(-0.2, 0.2, 9),
             np.linspace(-2, 2, 9)]  # fmt: skip
    with gym.make("CartPole-v1") as env:
        buffer = ReplayBuffer.for_env(
            env, 50_000, SiblingSample(),
            key=lambda obs, action: [np.digitize(x, e) for x, e in zip(obs, edges, strict=True)],
        )  # fmt: skip
        obs, _ = env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(1_500):
            action = env.action_space.sample()
            following, reward, terminated, truncated, _ = env.step(action)
            buffer.add(obs, action, reward, following, terminated, truncated)
            obs = env.reset()[0] if terminated or truncated else following
    buffer.sample(2_000)  # a warning would be an error
    assert buffer.draw_statistics()["draws_with_siblings"] > 0.9


@pytest.mark.parametrize("action", [Field(np.int64), Field(np.float32, (2,)), Field(np.bool_)])
@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingAverage(), SiblingModel()])
def test_siblings_share_their_action_whatever_a_key_looks_at(strategy, action) -> None:
    """A key of the observation alone gave SiblingModel the outcomes of other actions."""
    fields = schema(Field(np.float32, (2,)), action)
    buffer = ReplayBuffer(fields, 64, strategy, key=lambda obs, action: np.round(obs), seed=0)
    rng = np.random.default_rng(0)
    obs = rng.random((150, 2)).astype(np.float32)
    number = rng.integers(2, size=150)
    ends = np.zeros(150, bool)
    actions = np.stack([np.full(action.shape, a, action.dtype) for a in number])
    buffer.extend(obs, actions, number, obs, ends, ends)  # the reward tells the action
    assert_valid(buffer)
    labels = [(*np.round(o).tolist(), a) for o, a in zip(obs[-64:], number[-64:], strict=True)]
    order = np.roll(np.arange(64), 150 % 64)  # the ring has wrapped around
    assert_same_partition([labels[place] for place in order], buffer.groups)
    batch = buffer.sample(500)
    assert (batch.group_sizes > 2).mean() > 0.5
    own = batch.action.reshape(500, -1)[:, 0]
    np.testing.assert_allclose(batch.average(batch.outcomes.reward), own, rtol=1e-12)


def test_a_key_may_still_look_at_the_action() -> None:
    """Then adding it changes nothing: not a group, not a draw."""
    keys = (lambda o, a: [int(o) % 3, int(a)], lambda o, a: int(o) % 3)
    for strategy in (SiblingSample(), SiblingAverage(update_all_siblings=True), SiblingModel()):
        one, other = (tabular(strategy, 20, key=key) for key in keys)
        for turn in range(6):
            rng = np.random.default_rng(turn)
            values = rng.integers(6, size=50), rng.integers(3, size=50)
            for buffer in (one, other):
                buffer.extend(*values, values[0], values[1], [False] * 50, [False] * 50)
                batch = averaged(buffer.sample(16))
                buffer.update_priorities(batch, np.arange(16.0))
            assert np.array_equal(one.groups, other.groups)
            assert np.array_equal(one.masses, other.masses)


MIXED = "group 5 has action 1 and was given for action 2, too"


@pytest.mark.parametrize("strategy", [SiblingAverage(), SiblingAverage(max_siblings=2),
                                      SiblingModel(), NumPyAverage()])  # fmt: skip
def test_given_groups_that_mix_actions_are_refused(strategy) -> None:
    buffer = tabular(strategy, 8, key="given")

    def extend(actions: list[int], groups: list[int]) -> None:
        n = len(actions)
        buffer.extend([0] * n, actions, [0.0] * n, [0] * n, [0] * n, [0] * n, group=groups)

    buffer.add(0, 1, 0.0, 0, False, False, group=5)
    add = lambda a, g: buffer.add(0, a, 0.0, 0, False, False, group=g)  # noqa: E731
    assert_refused(buffer, lambda: add(2, 5), MIXED)
    assert_refused(buffer, lambda: extend([2], [5]), MIXED)
    assert_refused(buffer, lambda: extend([1, 0, 2], [5, 6, 5]), MIXED)
    assert_refused(buffer, lambda: extend([0, 3, 0, 1], [5, 6, 7, 7]), "group 5 has action 1")
    assert_refused(
        buffer,
        lambda: extend([4, 0, 3, 1], [7, 6, 7, 6]),
        "group 7 has action 4 and was given for action 3, too: .*SiblingSample",
    )
    add(1, 5)
    extend([1, 2, 2], [5, 6, 6])
    assert buffer.groups.tolist() == [0, 0, 0, 1, 1]
    for _ in range(8):  # nothing of group 5 is left
        add(0, 9)
    add(2, 5)
    extend([2, 2], [5, 5])
    assert_valid(buffer)


def test_given_groups_may_mix_actions_where_no_outcome_is_borrowed() -> None:
    for strategy in (SiblingSample(), Prioritized()):
        buffer = tabular(strategy, 8, key="given")
        buffer.add(0, 1, 0.0, 0, False, False, group=5)
        buffer.add(0, 2, 0.0, 0, False, False, group=5)
        buffer.extend([0, 0], [3, 4], [0.0] * 2, [0] * 2, [0] * 2, [0] * 2, group=[5, 5])
        assert buffer.groups.tolist() == [0] * 4


def test_actions_of_given_groups_are_compared_as_stored() -> None:
    fields = schema(action=Field(np.float32, (2,)))
    buffer = ReplayBuffer(fields, 8, SiblingModel(), key="given", seed=0)
    for zero in (0.0, -0.0):
        buffer.add(0, np.array([zero, 1.0], np.float32), 0.0, 0, False, False, group=0)
        buffer.extend([0], [[zero, 1.0]], [0.0], [0], [False], [False], group=[0])
    assert buffer.groups.tolist() == [0] * 4
    other = np.array([0.5, 1.0], np.float32)
    assert_refused(
        buffer, lambda: buffer.add(0, other, 0.0, 0, False, False, group=0), r"action \[0.5 1. \]"
    )


def test_wrong_key_functions_are_refused() -> None:
    for key in (lambda o, a: "left", lambda o, a: None, lambda o, a: [], lambda o, a: 1j):
        with pytest.raises(TypeError, match="a key function must return a number"):
            tabular(SiblingSample(), key=key)

    def changing(obs: Any, action: Any) -> Any:
        return {0: 0, 1: 1.5, 2: [1, 2], 3: "x", 4: 2**70, 5: None, 6: True}[int(obs)]

    buffer = tabular(SiblingSample(), key=changing)
    buffer.add(0, 0, 0.0, 0, False, False)
    for obs in range(1, 6):
        one = (obs, 0, 0.0, 0, False, False)
        assert_refused(buffer, lambda one=one: buffer.add(*one), "the key by .*: expected")
        columns = [[x, x] for x in one]
        assert_refused(buffer, lambda c=columns: buffer.extend(*c), "the key by .*: expected")
    buffer.add(6, 0, 0.0, 0, False, False)  # True is a whole number
    assert_refused(buffer, lambda: buffer.add([0, 1], 0, 0.0, 0, False, False), ".", Exception)
    assert_refused(
        buffer,
        lambda: buffer.extend([0, 0], [0], [0.0] * 2, [0] * 2, [False] * 2, [False] * 2),
        "obs and action: expected as many",
    )


def test_given_groups() -> None:
    for strategy in (SiblingSample(), SiblingAverage(), SiblingModel(), Prioritized()):
        buffer = tabular(strategy, key="given")
        labels = [5, -7, 5, 2**63 - 1, -(2**63), 0, -7]
        for i, label in enumerate(labels[:4]):
            buffer.add(i, 0, 0.0, 0, False, False, group=label)
        rest = len(labels) - 4
        zeros = np.zeros(rest, np.int64)
        buffer.extend(zeros, zeros, zeros, zeros, [False] * rest, [False] * rest, group=labels[4:])
        assert_same_partition(labels, buffer.groups)
        assert_valid(buffer)


def test_wrong_use_of_groups_is_refused() -> None:
    one = (0, 0, 0.0, 0, False, False)
    two = tuple([x, x] for x in one)
    given = tabular(SiblingSample(), key="given")
    given.add(*one, group=1)
    assert_refused(given, lambda: given.add(*one), "needs a group for every transition")
    assert_refused(given, lambda: given.extend(*two), "needs a group for every transition")
    for group, match in [
        (1.5, "group: expected dtype int64, got float64"), ("a", "group: expected dtype"),
        ([1, 2], "group: expected shape"), (2**64, "group: expected|group: .* out of range"),
        (np.uint64(2**63), "group: 9223372036854775808 is out of range"),
    ]:  # fmt: skip
        assert_refused(given, lambda g=group: given.add(*one, group=g), match)
    for group, match in [(1, "group: expected"), ([1], "group: expected 2 entries"),
                         ([1, 2, 3], "group: expected 2 entries"), ([1.0, 2.0], "group: expected"),
                         ([[1], [2]], "group: expected")]:  # fmt: skip
        assert_refused(given, lambda g=group: given.extend(*two, group=g), match)
    for other in (tabular(SiblingSample()), tabular(SiblingSample(), key=lambda o, a: 0),
                  tabular(Prioritized())):  # fmt: skip
        other.add(*one)
        assert_refused(other, lambda o=other: o.add(*one, group=1), "group was given, but")
        assert_refused(other, lambda o=other: o.extend(*two, group=[1, 2]), "group was given, but")


def test_a_prioritized_buffer_can_keep_groups() -> None:
    """For diagnostics: the draw is that of plain PER, the groups are known."""
    plain, grouped = tabular(Prioritized()), tabular(Prioritized(), key="exact")
    for buffer in (plain, grouped):
        for i in range(30):
            buffer.add(i % 3, 0, 0.0, 0, False, False)
        buffer.update_priorities(buffer.sample(8), np.arange(8.0))
    a, b = plain.sample(64), grouped.sample(64)
    np.testing.assert_array_equal(a.slots, b.slots)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(b.groups, grouped.groups[b.slots])
    assert (a.groups == -1).all()

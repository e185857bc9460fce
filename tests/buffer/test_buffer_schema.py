"""What a buffer is made of: fields from spaces or a schema, options; and what is refused."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
from buffer_kit import (
    STRATEGIES,
    assert_refused,
    schema,
    tabular,
)

from sibling_replay import (
    Field,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)


def test_spaces_become_fields() -> None:
    class Env(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (3,), np.float64)
        action_space = gym.spaces.MultiDiscrete([3, 4])

    buffer = ReplayBuffer.for_env(Env(), 4, SiblingSample())
    buffer.add(np.ones(3), np.array([1, 2]), 0.5, np.zeros(3), False, True)
    batch = buffer.sample(1)
    assert batch.obs.dtype == np.float64 and batch.action.tolist() == [[1, 2]]

    class Actions(gym.Env):
        observation_space = gym.spaces.MultiBinary(5)
        action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    buffer = ReplayBuffer.for_env(Actions(), 4, SiblingSample())
    buffer.add([1, 0, 1, 0, 1], [0.5, -0.5], 1, [0, 0, 0, 0, 1], 0, 1)
    batch = buffer.sample(1)
    assert batch.obs.tolist() == [[1, 0, 1, 0, 1]] and batch.action.tolist() == [[0.5, -0.5]]
    assert not batch.terminated[0] and batch.truncated[0]


class Discrete(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, n: int = 3, start: int = 0) -> None:
        self.action_space = gym.spaces.Discrete(n, start=start)


@pytest.mark.parametrize("start", [0, 2, -1])
@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.array])
def test_actions_outside_a_discrete_space_are_refused(start, kind) -> None:
    """Today's network would index out of its row of values, or another action's, much later."""
    buffer = ReplayBuffer.for_env(Discrete(3, start), 8, SiblingSample(), seed=0)
    obs = np.zeros(2, np.float32)
    for action in range(start, start + 3):
        buffer.add(obs, kind(action), 0.0, obs, False, False)
    space = f"Discrete\\(3{f', start={start}' if start else ''}\\)"
    for action in (start - 1, start + 3, 10**6):
        refusal = f"action: {action} is not in {space}: it must be from {start} to {start + 2}"
        assert_refused(
            buffer, lambda a=action: buffer.add(obs, kind(a), 0.0, obs, False, False), refusal
        )
        columns = ([obs] * 2, [start, action], [0.0] * 2, [obs] * 2, [False] * 2, [False] * 2)
        assert_refused(buffer, lambda c=columns: buffer.extend(*c), refusal)
    buffer.extend([obs] * 2, [start, start + 2], [0.0] * 2, [obs] * 2, [False] * 2, [False] * 2)
    assert buffer.transitions()["action"].tolist() == [
        start,
        start + 1,
        start + 2,
        start,
        start + 2,
    ]


def test_a_loaded_buffer_still_knows_its_actions(tmp_path) -> None:
    buffer = ReplayBuffer.for_env(Discrete(3), 8, SiblingSample(), seed=0)
    obs = np.zeros(2, np.float32)
    buffer.add(obs, 2, 0.0, obs, False, False)
    buffer.save(tmp_path / "state")
    for twin in (ReplayBuffer.load(tmp_path / "state"), copy.deepcopy(buffer)):
        assert_refused(
            twin, lambda t=twin: t.add(obs, 3, 0.0, obs, False, False), r"not in Discrete\(3\)"
        )
    plain = ReplayBuffer(schema(Field(np.float32, (2,))), 8, SiblingSample())
    plain.load_state_dict(buffer.state_dict())  # a schema without bounds takes it, too
    plain.add(obs, 3, 0.0, obs, False, False)


def test_wrong_bounds_are_refused() -> None:
    for arguments in ((np.float32, (), (0, 1)), (np.int64, (2,), (0, 1)), (np.int64, (), (2, 1))):
        with pytest.raises(ValueError, match="bounds are of one whole number"):
            Field(*arguments)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Sequence(gym.spaces.Discrete(2)),
        gym.spaces.Text(5),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_an_array_form_are_refused(space) -> None:
    class Env(gym.Env):
        observation_space = space
        action_space = gym.spaces.Discrete(2)

    with pytest.raises(TypeError, match=f"observation: a {type(space).__name__} space"):
        ReplayBuffer.for_env(Env(), 4, Uniform())


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Gymnasium environment"):
        ReplayBuffer.for_env("FrozenLake-v1", 4, Uniform())  # type: ignore[arg-type]


def test_extra_fields_come_back() -> None:
    extra = {
        "discount": Field(np.float32),
        "tag": Field(np.uint8),
        "mask": Field(np.bool_, (11,)),
        "policy": Field(np.float16, (3,)),
        "hit": Field(np.bool_),
    }
    buffer = ReplayBuffer.for_env(
        gym.make("FrozenLake-v1"), 8, SiblingSample(), extra_fields=extra, seed=0
    )
    mask = np.arange(11) % 3 == 0
    for i in range(12):  # keyword order does not matter
        buffer.add(
            i % 4, 0, 0.0, 1, False, False,
            tag=i, hit=i % 2 == 0, policy=np.full(3, i, np.float16), discount=i / 4, mask=mask,
        )  # fmt: skip
    buffer.extend(
        [1, 2], [0, 0], [0.0, 1.0], [1, 1], [False, True], [False, False],
        tag=[12, 13], hit=[True, False], policy=np.array([[12.0] * 3, [13.0] * 3], np.float32),
        discount=[3.0, 3.25], mask=[mask, mask],
    )  # fmt: skip
    batch = buffer.sample(64)
    newest = {slot: tag for tag in range(14) for slot in [tag % 8]}
    tags = np.array([newest[slot] for slot in batch.slots])
    np.testing.assert_array_equal(batch.tag, tags)
    np.testing.assert_array_equal(batch.hit, tags % 2 == 0)
    np.testing.assert_array_equal(batch.discount, (tags / 4).astype(np.float32))
    np.testing.assert_array_equal(batch.policy, np.repeat(tags[:, None], 3, 1).astype(np.float16))
    np.testing.assert_array_equal(batch.mask, np.tile(mask, (64, 1)))
    assert {"tag", "hit", "policy", "discount", "mask"} <= set(batch.columns) <= set(dir(batch))
    with pytest.raises(AttributeError, match="no column 'nonsense'"):
        _ = batch.nonsense


@pytest.mark.parametrize("name", [
    "slots", "weights", "anchors", "groups", "group_sizes", "outcome_slots", "added", "group",
    "record", "plan", "block", "size", "columns", "outcomes", "average", "self", "_mine", "a b",
    "group_key", "",
])  # fmt: skip
def test_a_field_cannot_take_a_name_that_means_something_else(name) -> None:
    with pytest.raises(ValueError, match="a field cannot be called"):
        ReplayBuffer({**schema(), name: Field(np.int64)}, 4, Uniform())


def test_wrong_schemas_are_refused() -> None:
    lacking = schema()
    del lacking["next_obs"]
    for fields, error, match in [
        (lacking, ValueError, "missing: \\['next_obs'\\]"),
        ({**schema(), "reward": Field(np.int64)}, TypeError, "reward must be a float"),
        ({**schema(), "reward": Field(np.float32, (2,))}, ValueError, "reward must be a scalar"),
        ({**schema(), "terminated": Field(np.int8)}, TypeError, "terminated must be boolean"),
        ({**schema(), "next_obs": Field(np.int32)}, ValueError, "obs and next_obs"),
        ({**schema(), "x": np.float32}, TypeError, "field 'x' must be a Field"),
        ({**schema(), 3: Field(np.int8)}, ValueError, "cannot be called 3"),
        ([("obs", Field(np.int8))], TypeError, "fields must be a mapping"),
    ]:
        with pytest.raises(error, match=match):
            ReplayBuffer(fields, 4, Uniform())
    for arguments, error in [
        ((np.complex64,), TypeError),
        ((np.dtype("U3"),), TypeError),
        ((object,), TypeError),
        ((np.longdouble,), TypeError),
        ((np.float32, (0, 2)), ValueError),
        ((np.float32, (-1,)), ValueError),
        ((np.float32, (2.5,)), TypeError),
        ((np.float32, 3), TypeError),
        (("no such type",), TypeError),
    ]:
        with pytest.raises(error):
            Field(*arguments)


def test_fields_are_stored_in_the_byte_order_of_the_machine() -> None:
    """A schema read from a file may name the other order; the values must be the same."""
    swapped = Field(np.dtype(np.int32).newbyteorder())
    buffer = ReplayBuffer(schema(swapped), 4, SiblingSample())
    buffer.add(258, 1, 0.0, 7, False, False)
    buffer.extend(np.array([258], swapped.dtype), [1], [0.0], [7], [0], [0])
    assert buffer.sample(5).obs.tolist() == [258] * 5
    assert buffer.groups.tolist() == [0, 0]


def test_wrong_constructions_are_refused() -> None:
    for strategy in (Uniform, "uniform", None, 3):
        with pytest.raises(TypeError, match=r"strategy must be one of .*Uniform.* \(an instance\)"):
            ReplayBuffer(schema(), 4, strategy)
    for capacity in (0, -1, 2**29 + 1):
        with pytest.raises(ValueError, match=f"capacity must be from 1 to .* got {capacity}"):
            ReplayBuffer(schema(), capacity, Uniform())
    for capacity in (4.0, "4", None, [4]):
        with pytest.raises(TypeError, match="capacity must be a whole number"):
            ReplayBuffer(schema(), capacity, Uniform())
    with pytest.raises(ValueError, match="SiblingSample needs groups"):
        tabular(SiblingSample(), key=None)
    with pytest.raises(ValueError, match="key must be"):
        tabular(SiblingSample(), key="exactly")


BAD_OPTIONS = [
    ({"alpha": -0.1}, ValueError, "alpha must be"),
    ({"alpha": np.nan}, ValueError, "alpha must be"),
    ({"alpha": np.inf}, ValueError, "alpha must be"),
    ({"alpha": "0.6"}, TypeError, "alpha must be"),
    ({"alpha": True}, TypeError, "alpha must be"),
    ({"epsilon": 0.0}, ValueError, "epsilon must be"),
    ({"epsilon": np.nan}, ValueError, "epsilon must be"),
    ({"normalize": "max"}, ValueError, "normalize must be"),
    ({"gamma": 0.9}, TypeError, "gamma"),
]


@pytest.mark.parametrize("kind", [type(s) for s in STRATEGIES.values()])
@pytest.mark.parametrize("options, error, match", BAD_OPTIONS)
def test_unknown_strategy_options_are_refused(kind, options, error, match) -> None:
    with pytest.raises(error, match=match):
        kind(**options)


@pytest.mark.parametrize("value, error", [(0, ValueError), (-2, ValueError), (1.5, TypeError),
                                          (True, TypeError), ("2", TypeError)])  # fmt: skip
def test_wrong_numbers_of_siblings_are_refused(value, error) -> None:
    with pytest.raises(error):
        SiblingAverage(max_siblings=value)


@pytest.mark.parametrize(
    "strategy", [SiblingModel(), SiblingAverage(), SiblingAverage(max_siblings=2)]
)
def test_a_discount_belongs_to_the_outcome(strategy) -> None:
    """Outcomes that differ in their discount alone are two, and each keeps its own."""
    discount = {"discount": Field(np.dtype(np.float32))}
    env = gym.make("FrozenLake-v1")
    buffer = ReplayBuffer.for_env(env, 8, strategy, extra_fields=discount, seed=0)
    for power in (1, 2, 3, 3):
        buffer.add(0, 1, 0.0, 4, False, False, discount=0.5**power)
    batch = buffer.sample(64)
    rows = batch.outcomes
    slots = batch.outcome_slots if rows is batch else rows.slots
    stored = buffer.transitions()["discount"]
    np.testing.assert_array_equal(rows.discount, stored[slots])
    assert set(rows.discount) == {0.5, 0.25, 0.125}
    if strategy.name == "SiblingModel":
        assert (rows.discount != stored[batch.slots]).any()

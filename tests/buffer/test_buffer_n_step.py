"""n-step outcomes in the buffer, against a naive twin that keeps every step of every episode."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from buffer_kit import (
    REFRESHING,
    STRATEGIES,
    assert_refused,
    assert_valid,
    differences,
    schema,
    snapshot,
)

from sibling_replay import Field, Prioritized, ReplayBuffer, SiblingSample, Uniform
from sibling_replay.checkpoint import StateError
from sibling_replay.grouping import Grid
from support.averaging import averaged

GAMMA = 0.9
COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "discount")


class Twin:
    """A list of steps by environment; every entry is looked up again whenever it is asked for."""

    def __init__(self, n_steps, capacity, n_envs=1):
        self.n_steps, self.capacity = n_steps, capacity
        self.steps = [[] for _ in range(n_envs)]  # of each environment
        self.order = []  # (environment, step) of every entry ever stored

    def step(self, rows):
        for env, row in enumerate(rows):
            self.order.append((env, len(self.steps[env])))
            self.steps[env].append((*row, False))

    def cut(self):
        for steps in self.steps:
            if steps:
                steps[-1] = (*steps[-1][:6], True)

    def entries(self):
        """By slot: what the last `capacity` entries are, as columns."""
        found = {}
        for number, (env, first) in enumerate(self.order):
            if number >= len(self.order) - self.capacity:
                found[number % self.capacity] = self.outcome(self.steps[env], first)
        rows = [found[slot] for slot in sorted(found)]
        return {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}

    def outcome(self, steps, first):
        obs, action = steps[first][:2]
        total, count = 0.0, 0
        for _, _, reward, next_obs, terminated, truncated, cut in steps[first:][: self.n_steps]:
            total += GAMMA**count * reward
            count += 1
            last = next_obs, terminated, truncated
            if terminated or truncated or cut:
                break
        return obs, action, total, *last, GAMMA**count


def random_row(rng):
    end = rng.random()
    return (
        int(rng.integers(3)), int(rng.integers(2)), float(rng.integers(3)), int(rng.integers(3)),
        bool(end < 0.15), bool(0.1 < end < 0.25),
    )  # fmt: skip


def assert_same(buffer, twin):
    assert_valid(buffer)
    found, expected = buffer.transitions(), twin.entries()
    for name in COLUMNS:
        if name in ("reward", "discount"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
        else:
            assert found[name].tolist() == expected[name], name


def new_buffer(strategy, capacity, n_steps, **options):
    return ReplayBuffer(schema(), capacity, strategy, n_steps=n_steps, gamma=GAMMA, **options)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_steps", [2, 3, 7])
@pytest.mark.parametrize("name", STRATEGIES)
def test_entries_are_those_of_the_twin_after_every_step(name, n_steps, n_envs):
    """Ends of both kinds, episodes shorter and longer than n, and a ring that is no multiple of the
    number of environments and wraps often; priorities are refreshed in between."""
    rng = np.random.default_rng([n_steps, n_envs])
    capacity = 23
    buffer = new_buffer(STRATEGIES[name], capacity, n_steps, seed=1)
    twin = Twin(n_steps, capacity, n_envs)
    for step in range(60):
        rows = [random_row(rng) for _ in range(n_envs)]
        if n_envs == 1:
            buffer.add(*rows[0])
        else:
            buffer.extend(*map(list, zip(*rows, strict=True)))
        twin.step(rows)
        assert_same(buffer, twin)
        if name in REFRESHING and step % 5 == 0:
            batch = averaged(buffer.sample(4))
            buffer.update_priorities(batch, rng.random(4))


def test_masses_and_groups_do_not_move_when_an_entry_grows():
    """Siblings agree in the first observation and action, and an entry keeps its priority."""
    buffer = new_buffer(SiblingSample(), 20, 3, seed=0)
    for obs in (0, 1, 0, 1):
        buffer.add(obs, 0, 1.0, 1 - obs, False, False)
    batch = buffer.sample(8)
    buffer.update_priorities(batch, np.arange(1.0, 9.0))
    masses, groups = buffer.masses, buffer.groups
    buffer.add(0, 0, 5.0, 1, True, False)
    assert np.array_equal(buffer.masses[:4], masses) and np.array_equal(buffer.groups[:4], groups)
    assert buffer.groups.tolist() == [groups[0], groups[1], groups[0], groups[1], groups[0]]
    np.testing.assert_allclose(buffer.transitions()["reward"][2:], [1 + 0.9 + 0.81 * 5, 5.5, 5.0])


def test_a_batch_drawn_before_an_entry_grew_still_refreshes_it():
    buffer = new_buffer(Prioritized(alpha=1.0), 8, 4, seed=0)
    buffer.add(0, 0, 1.0, 1, False, False)
    batch = buffer.sample(1)
    buffer.add(1, 0, 1.0, 2, False, False)
    buffer.update_priorities(batch, [3.0])
    assert buffer.masses[0] == pytest.approx(3.0) and buffer.dropped_updates == 0
    assert batch.reward[0] == 1.0  # what was drawn is the learner's own


def test_targets_of_an_n_step_batch():
    """reward + discount * ~terminated * value, with the discount of the steps there were."""
    buffer = new_buffer(Uniform(), 8, 3, seed=0)
    for step in range(4):
        buffer.add(step, 0, 1.0, step + 1, step == 3, False)
    batch = buffer.sample(64)
    value = 10.0
    targets = batch.reward + batch.outcomes.discount * ~batch.terminated * value
    expected = {0: 2.71 + 0.729 * value, 1: 2.71, 2: 1.9, 3: 1.0}
    np.testing.assert_allclose(targets, [expected[obs] for obs in batch.obs], rtol=1e-6)
    assert set(batch.obs.tolist()) == {0, 1, 2, 3}


def test_environments_in_any_order():
    """By their numbers: some take more steps than others, one at a time or together, and entries
    that still grow are overwritten."""
    rng = np.random.default_rng(5)
    buffer, twin = new_buffer(SiblingSample(), 17, 4, seed=0), Twin(4, 17, 3)
    for _ in range(80):
        envs = rng.permutation(3)[: rng.integers(1, 4)] if rng.random() < 0.5 else np.array([0])
        rows = [random_row(rng) for _ in envs]
        if len(envs) == 1:
            buffer.add(*rows[0], env_id=int(envs[0]))
        else:
            buffer.extend(*map(list, zip(*rows, strict=True)), env_ids=envs)
        for env, row in zip(envs, rows, strict=True):
            twin.order.append((int(env), len(twin.steps[env])))
            twin.steps[env].append((*row, False))
        if rng.random() < 0.1:
            buffer.end_episodes(1)
            if twin.steps[1]:
                twin.steps[1][-1] = (*twin.steps[1][-1][:6], True)
        assert_same(buffer, twin)


def test_an_entry_that_is_overwritten_by_the_step_that_fills_the_ring_does_not_grow():
    """The first of its two rows takes the last empty slot, the second the oldest entry's."""
    buffer = ReplayBuffer(schema(), 4, Uniform(), n_steps=2, gamma=0.5, seed=0)
    row = (0, 0, 1.0, 1, False, False)
    buffer.add(*row, env_id=1)
    buffer.add(*row, env_id=0)
    buffer.add(*row, env_id=0)
    buffer.extend(
        [0, 0], [0, 0], [1.0, 100.0], [1, 1], [False] * 2, [False] * 2, env_ids=np.array([0, 1])
    )
    found = buffer.transitions()
    assert found["reward"].tolist() == [100.0, 1.5, 1.5, 1.0]
    assert found["discount"].tolist() == [0.5, 0.25, 0.25, 0.5]


def test_environments_that_are_reset_early_do_not_continue():
    buffer, twin = new_buffer(Uniform(), 30, 4, seed=0), Twin(4, 30, 2)
    rng = np.random.default_rng(0)
    for step in range(12):
        rows = [(*random_row(rng)[:4], False, False) for _ in range(2)]
        buffer.extend(*map(list, zip(*rows, strict=True)))
        twin.step(rows)
        if step == 5:
            buffer.end_episodes()
            twin.cut()
        assert_same(buffer, twin)
    new_buffer(Uniform(), 3, 1).end_episodes()  # nothing to end


# ------------------------------------------------------------------------ state


@pytest.mark.parametrize("way", ["file", "state", "copy"])
@pytest.mark.parametrize("key", ["exact", "map"])
def test_a_saved_buffer_continues_its_open_entries(way, key, tmp_path):
    key = Grid(2) if key == "map" else "exact"
    buffer, twin = new_buffer(SiblingSample(), 10, 3, seed=0, key=key), Twin(3, 10)
    rng = np.random.default_rng(3)
    rows = [(*random_row(rng)[:4], False, False) for _ in range(30)]
    for row in rows[:17]:
        buffer.add(*row)
        twin.step([row])
    if way == "file":
        buffer.save(tmp_path / "buffer.npz")
        other = ReplayBuffer.load(tmp_path / "buffer.npz")
    elif way == "state":
        other = new_buffer(SiblingSample(), 10, 3, seed=9, key=key)
        other.load_state_dict(buffer.state_dict())
    else:
        other = copy.deepcopy(buffer)
    assert differences(snapshot(buffer), snapshot(other)) == []
    for row in rows[17:]:
        twin.step([row])
        for each in (buffer, other):
            each.add(*row)
            assert_same(each, twin)
    assert differences(snapshot(buffer), snapshot(other)) == []


def test_states_of_other_steps_are_refused():
    buffer = new_buffer(Uniform(), 10, 3)
    buffer.add(0, 0, 1.0, 1, False, False)
    state = buffer.state_dict()
    others = {
        "n_step": new_buffer(Uniform(), 10, 4),
        "gamma": ReplayBuffer(schema(), 10, Uniform(), n_steps=3, gamma=0.5),
        "several steps": ReplayBuffer(
            schema(discount=Field(np.dtype(np.float32))), 10, Uniform(), key=None
        ),
    }
    for match, other in others.items():
        assert_refused(other, lambda other=other: other.load_state_dict(state), match, StateError)
    single = ReplayBuffer(schema(), 10, Uniform())
    assert_refused(
        buffer, lambda: buffer.load_state_dict(single.state_dict()), "lacks|another", StateError
    )


@pytest.mark.parametrize("wrong", [[[0, 99]], [[0, 0]], [[0]], [["a", 1]], None, [[0.5, 1.0]]])
def test_damaged_open_entries_are_refused(wrong):
    buffer = new_buffer(Uniform(), 10, 3)
    for _ in range(4):
        buffer.add(0, 0, 1.0, 1, False, False)
    state = buffer.state_dict()
    state["header"]["n_step_open"] = wrong
    assert_refused(buffer, lambda: buffer.load_state_dict(state), "open entries", StateError)


# -------------------------------------------------------------------- bad input


def test_bad_options_are_named():
    for options, match in (
        (dict(n_steps=0, gamma=0.9), "n_steps"),
        (dict(n_steps=2.5, gamma=0.9), "n_steps"),
        (dict(n_steps=3), "needs gamma"),
        (dict(n_steps=3, gamma=1.5), "needs gamma"),
        (dict(n_steps=3, gamma="0.9"), "needs gamma"),
        (dict(n_steps=30, gamma=0.9), "capacity"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            ReplayBuffer(schema(), 10, Uniform(), **options)
    with pytest.raises(ValueError, match="leave it out"):
        fields = schema(discount=Field(np.dtype(np.float64)))
        ReplayBuffer(fields, 10, Uniform(), n_steps=2, gamma=0.9)


def test_bad_steps_leave_no_trace():
    buffer = new_buffer(Prioritized(), 9, 3)
    row = (0, 0, 1.0, 1, False, False)
    two = [[value] * 2 for value in row]
    buffer.extend(*two)
    for call, match in (
        (lambda: buffer.add(*row, env_id=-1), "env_ids must be 1 different"),
        (lambda: buffer.extend(*two, env_ids=[1, 1]), "env_ids must be 2 different"),
        (lambda: buffer.extend(*two, env_ids=[0.0, 1.0]), "env_ids must be 2 different"),
        (lambda: buffer.extend(*two, env_ids=[0, 9]), "10 environments do not fit"),
        (lambda: buffer.extend(*[[value] * 3 for value in row]), "there were 2, and now 3"),
        (lambda: buffer.extend(*two, discount=[0.1, 0.1]), "leave it out"),
        (lambda: buffer.extend([0, 0], [0, 0], [1.0, np.nan], [1, 1], *two[4:]), "reward"),
        (lambda: buffer.extend([0, 0], [0], [1.0, 1.0], [1, 1], *two[4:]), "action"),
    ):
        assert_refused(buffer, call, match)
    buffer.end_episodes()
    assert_refused(
        buffer, lambda: buffer.extend(*[[value] * 4 for value in row]), "do not fit into a capacity"
    )
    buffer.add(0, 0, 3e38, 1, False, False)
    assert_refused(buffer, lambda: buffer.add(0, 0, 3e38, 1, False, False), "add up to more")
    buffer.add(0, 0, 1.0, 1, False, False)
    assert buffer.transitions()["reward"][2] == np.float32(3e38)


def test_a_buffer_for_an_environment():
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    buffer = ReplayBuffer.for_env(env, 100, Uniform(), n_steps=3, gamma=0.99)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        next_obs, reward, terminated, truncated, _ = env.step(0)
        buffer.add(obs, 0, reward, next_obs, terminated, truncated)
        obs = next_obs
    found = buffer.transitions()
    np.testing.assert_allclose(found["reward"], [2.9701, 2.9701, 2.9701, 1.99, 1.0], rtol=1e-6)
    assert np.array_equal(found["next_obs"][0], found["obs"][3])
    assert np.array_equal(found["next_obs"][4], obs)


def test_an_environment_that_there_cannot_be_is_refused():
    buffer = new_buffer(Uniform(), 8, 3)
    with pytest.raises(ValueError, match="env_id must be a whole number from 0 on, got -1"):
        buffer.end_episodes(-1)


def test_a_step_of_no_environment_may_be_a_list() -> None:
    """All of them were reset at once, and a list of none has no type."""
    buffer = ReplayBuffer(schema(), 30, Uniform(), seed=0, n_steps=3, gamma=np.float32(0.5))
    row = {name: np.zeros((0, *field.shape), field.dtype) for name, field in schema().items()}
    for none in ([], (), np.array([], np.int64)):
        buffer.extend(**row, env_ids=none)
    assert len(buffer) == 0
    for wrong in (1.5, -1, "0"):
        with pytest.raises((TypeError, ValueError), match="env_id must be a whole number"):
            buffer.end_episodes(wrong)

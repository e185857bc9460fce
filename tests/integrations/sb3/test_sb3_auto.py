"""Maps of `grouping` in SB3, on CartPole, whose observations never repeat."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from sb3_kit import SMALL, parameters, small_model
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger

from sibling_replay import SiblingSample, Uniform
from sibling_replay.grouping import Auto, Grid, KMeans, SimHash, support
from sibling_replay.integrations.sb3 import SiblingDQN

STEPS = 2_400
CART = dict(buffer_size=8_000, learning_starts=200, train_freq=8)
MAPS = {"auto": Auto(fit_after=1_000), "grid": Grid(4), "hash": SimHash(6), "means": KMeans(16)}


def cart_model(key, strategy=None, n_envs=1, **options) -> SiblingDQN:
    env = make_vec_env("CartPole-v1", n_envs=n_envs, seed=1)
    strategy = SiblingSample(alpha=0.6) if strategy is None else strategy
    return small_model(strategy, env, key=key, **{**CART, **options})


def key_of(model):
    """The map in use, which must be fitted."""
    found = model.replay_buffer.storage._key
    assert found.fitted
    return found


def check_storage(storage) -> None:
    """Groups are the map's, one at a time and with the action; the law is SiblingSample's."""
    stored, members = storage.transitions(), {}
    for slot, (obs, action) in enumerate(zip(stored["obs"], stored["action"], strict=True)):
        members.setdefault((int(storage._key(obs)), int(action)), []).append(slot)
    found = {}
    for slot, group in enumerate(storage.groups.tolist()):
        found.setdefault(group, []).append(slot)
    assert sorted(found.values()) == sorted(members.values())
    law, masses = np.zeros(len(storage)), storage.masses
    for slots in members.values():
        law[slots] = masses[slots].sum() / masses.sum() / len(slots)
    np.testing.assert_allclose(storage.probabilities().outcome, law, rtol=1e-9)
    assert np.abs(law / (masses / masses.sum()) - 1.0).max() > 0.25  # not prioritized replay's


def test_the_issues_snippet():
    """As a user writes it, but for fewer steps: the correction has groups to correct in."""
    env = gym.make("CartPole-v1")
    model = SiblingDQN(
        "MlpPolicy", env, strategy=SiblingSample(alpha=0.6), key=Auto(), loss="mse", seed=0,
        device="cpu", train_freq=8,
    )  # fmt: skip
    model.learn(4_504, progress_bar=False)
    storage = model.replay_buffer.storage
    found = storage.support()
    assert found.entries == 4_504 and 0.003 <= found.groups_per_entry <= 0.03
    assert found.singletons < 0.02
    assert [choice.entries for choice in storage.key_choices] == [2_000, 4_000]
    assert found.key.endswith("chosen by Auto(noise=0.02)") and "G/N at most 0.02" in found.reason
    assert f"(G/N {found.groups_per_entry:.4f})" in repr(model.replay_buffer)
    check_storage(storage)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("key", MAPS.values(), ids=MAPS)
def test_groups_form_and_are_drawn_by_their_law(key, n_envs):
    model = cart_model(key, n_envs=n_envs).learn(STEPS)
    storage = model.replay_buffer.storage
    check_storage(storage)
    found = storage.support()
    assert found.entries == STEPS and 0.003 < found.groups_per_entry < 0.1
    assert not key.fitted  # theirs is


def test_the_log_says_how_much_noise_is_kept():
    """As of the entries at that time: few groups while a map is awaited, then the map's."""
    rows, model = [], cart_model(Grid(3))

    class Rows(KVWriter):
        def write(self, key_values, key_excluded, step=0):
            rows.append((dict(key_values), np.array(model.replay_buffer.storage.groups)))

        def close(self):
            pass

    model.set_logger(Logger(None, [Rows()]))
    model.learn(3_400, log_interval=1)
    measured = []
    for row, groups in rows:
        if "replay/noise_kept" in row:
            measured.append(row["replay/noise_kept"])
            assert measured[-1] == row["replay/groups_per_entry"]
            assert measured[-1] == np.unique(groups).size / groups.size
    assert len(measured) >= 3 and 0.01 < measured[-1] < 0.05
    assert support(key_of(model), *stored(model)).groups_per_entry == pytest.approx(
        measured[-1], rel=0.2
    )


def stored(model):
    found = model.replay_buffer.storage.transitions()
    return found["obs"], found["action"]


# ------------------------------------------------------------------------------- files


def loaded(model, tmp_path, **options) -> SiblingDQN:
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = SiblingDQN.load(tmp_path / "model", env=model.get_env(), device="cpu", **options)
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    return twin


def check_same(one, other) -> None:
    """Bit for bit the same map, choices, groups and law."""
    one, other = one.replay_buffer.storage, other.replay_buffer.storage
    assert one._key.digest == other._key.digest
    assert one.key_choices == other.key_choices and one.support() == other.support()
    assert np.array_equal(one.groups, other.groups)
    assert np.array_equal(one.probabilities().outcome, other.probabilities().outcome)


def add_random(model, count: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(count):
        obs, after = rng.normal(size=(2, 1, 4)).astype(np.float32)
        action, no = rng.integers(0, 2, 1), np.zeros(1)
        model.replay_buffer.add(obs, after, action, np.ones(1), no, [{}])


@pytest.mark.parametrize("again", [False, True], ids=["from the files", "given again"])
@pytest.mark.parametrize("grown", [False, True], ids=["awaited", "fitted"])
def test_a_loaded_model_goes_on_with_its_map(grown, again, tmp_path):
    key = Auto(fit_after=1_000 if grown else STEPS + 500)
    model = cart_model(key).learn(STEPS)
    assert len(model.replay_buffer.storage.key_choices) == 2 * grown
    twin = loaded(model, tmp_path, **({"key": key} if again else {}))
    check_same(twin, model)
    for each in (model, twin):
        add_random(each, 2_500)
        each.train(10, batch_size=32)
    assert len(model.replay_buffer.storage.key_choices) == 1 + 2 * grown
    check_same(twin, model)
    assert np.array_equal(parameters(twin), parameters(model))
    twin.learn(20, reset_num_timesteps=False)


def test_a_fitted_map_is_in_the_files_too(tmp_path):
    key = SimHash(6).fit_env(gym.make("CartPole-v1"), 1_000)
    model = cart_model(key).learn(600)
    twin = loaded(model, tmp_path)
    check_same(twin, model)
    assert twin.key.digest == key.digest and key_of(twin).digest == key.digest
    copies = [copy.deepcopy(model.replay_buffer), pickle.loads(pickle.dumps(model.replay_buffer))]
    for each in copies:
        assert np.array_equal(each.sample(8).batch.slots, twin.replay_buffer.sample(8).batch.slots)
        twin.load_replay_buffer(tmp_path / "buffer")


def test_a_buffer_of_another_map_is_refused(tmp_path):
    model = cart_model(Grid(4)).learn(300)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    for other in (Grid(3), Auto(), lambda obs, action: 0):
        twin = SiblingDQN.load(tmp_path / "model", env=model.get_env(), device="cpu", key=other)
        with pytest.raises(ValueError, match=r"has the key Grid\(bins=4\), and this model has"):
            twin.load_replay_buffer(tmp_path / "buffer")
        assert len(twin.replay_buffer.storage) == 0


def test_a_map_that_no_file_can_hold_is_refused_at_construction():
    class Local(Grid):
        pass

    with pytest.raises(TypeError, match=r"key Local\(bins=4\) cannot be pickled.*top level"):
        cart_model(Local(4))


# ---------------------------------------------------------------------- said and left alone


def test_without_a_key_it_says_that_it_corrects_nothing():
    with pytest.warns(UserWarning, match=r"does nearly what Prioritized\s+does.*key=Auto\(\)"):
        model = cart_model("exact", train_freq=2).learn(STEPS)
    assert model.replay_buffer.storage.support().groups_per_entry > 0.99
    assert "(G/N 1.0000)" in repr(model.replay_buffer)


def test_a_map_that_does_not_suit_the_observations_is_refused_at_once():
    with pytest.raises(ValueError, match="7"):
        cart_model(Grid(3, dims=(0, 7)))


def test_uniform_with_a_map_stays_the_stock_dqn():
    models = []
    for make in (
        lambda env, **o: SiblingDQN("MlpPolicy", env, strategy=Uniform(), key=Auto(), **o),
        lambda env, **o: DQN("MlpPolicy", env, **o),
    ):
        env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
        models.append(make(env, **{**SMALL, "buffer_size": 3_000, "train_freq": 8}).learn(2_400))
    assert np.array_equal(*map(parameters, models))

"""Key functions in SB3: what they are given, and files that do not hold them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_kit import SMALL, filled_buffer, parameters, small_model, step_of
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sibling_replay import (
    KeyMap,
    Prioritized,
    ReplayBuffer,
    SiblingSample,
    StateError,
    Uniform,
)
from sibling_replay.integrations.sb3 import SiblingDQN, SiblingReplayBuffer
from support.outside import EvenGroups

# ------------------------------------------------------------- what a key is given


def forms_seen(make):
    """(type, dtype, shape) of all that a key was given while a buffer was made and filled."""
    seen = set()

    def key(obs, action):
        seen.add(tuple((type(x), x.dtype, x.shape) for x in (obs, action)))
        return 0

    make(key)
    return seen


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("env", ["FrozenLake-v1", "CartPole-v1"])
def test_a_key_is_given_what_our_own_buffer_gives(env, n_envs):
    """One contract: a Discrete element is a NumPy scalar, a Box one an array of its shape."""

    def own(key):
        world = gym.make(env)
        buffer = ReplayBuffer.for_env(world, 10, SiblingSample(), key=key)
        obs, _ = world.reset(seed=1)
        buffer.add(obs, 1, 0.0, obs, False, False)

    def sb3(key):
        vector = make_vec_env(env, n_envs=n_envs, seed=1)
        small_model(SiblingSample(), vector, key=key, learning_starts=50).learn(10)

    assert forms_seen(sb3) == forms_seen(own)
    ((_, action),) = forms_seen(sb3)
    assert action == (np.int64, np.dtype(np.int64), ())


def test_a_box_action_has_its_own_shape():
    obs, actions = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2, 2))

    def fill(key):
        buffer = SiblingReplayBuffer(8, obs, actions, device="cpu", n_envs=2, key=key)
        zeros = np.zeros((2, 3), dtype=np.float32)
        buffer.add(
            zeros, zeros, np.zeros((2, 2, 2), np.float32), np.zeros(2), np.zeros(2), [{}, {}]
        )
        assert buffer.sample(5).actions.shape == (5, 4)  # as SB3 has them

    ((_, action),) = forms_seen(fill)
    assert action == (np.ndarray, np.dtype(np.float32), (2, 2))


CELLS = np.array([1.0, 1.0, 0.1, 1.0])


def bins(obs, action):
    return np.append(np.floor(obs / CELLS), action)


def test_a_key_bins_raw_observations_under_vec_normalize():
    """Groups are cells of CartPole's own units, whatever the running mean and variance."""
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=1))
    model = small_model(SiblingSample(), env, key=bins, buffer_size=2_000).learn(1_001)
    storage = model.replay_buffer.storage
    stored = storage.transitions()
    cells = np.column_stack([np.floor(stored["obs"] / CELLS), stored["action"]])
    _, expected = np.unique(cells, axis=0, return_inverse=True)
    _, found = np.unique(storage.groups, return_inverse=True)
    pairs = {(int(a), int(b)) for a, b in zip(expected, found, strict=True)}
    assert len(pairs) == expected.max() + 1 == found.max() + 1  # the same partition
    assert np.abs(stored["obs"][:, 2]).max() < 0.5  # radians: not normalised
    assert storage.draw_statistics()["draws_with_siblings"] > 0.8


class Binned(KeyMap):
    """The same cells, of all environments at once."""

    digest = "cells"

    def __init__(self):
        self.seen = []

    def keys(self, obs, action):
        self.seen.append((obs.shape, action.shape))
        return np.floor(obs / CELLS).astype(np.int64)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_key_map_bins_all_environments_at_once(n_envs, tmp_path):
    models, key = [], Binned()
    for each in (bins, key):
        env = make_vec_env("CartPole-v1", n_envs=n_envs, seed=1)
        models.append(small_model(SiblingSample(), env, key=each, buffer_size=600).learn(300))
    assert set(key.seen[1:]) == {((n_envs, 4), (n_envs,))}
    function, mapped = (model.replay_buffer.storage for model in models)
    assert np.array_equal(function.groups, mapped.groups)
    assert np.array_equal(function.masses, mapped.masses)  # so all draws were the same
    model = models[1]
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = SiblingDQN.load(tmp_path / "model", env=model.get_env(), device="cpu", key=Binned())
    twin.load_replay_buffer(tmp_path / "buffer")
    assert np.array_equal(twin.replay_buffer.storage.groups, mapped.groups)
    other = SiblingDQN.load(tmp_path / "model", env=model.get_env(), device="cpu", key=bins)
    with pytest.raises(StateError, match="key is 'map' there and 'function' here"):
        other.load_replay_buffer(tmp_path / "buffer")


def test_groups_by_number_are_refused_at_once():
    with pytest.raises(ValueError, match=r'key="given".*key\(obs, action\)'):
        small_model(SiblingSample(), key="given")


# ------------------------------------------------------------------------- files


def unpicklable():
    lock = threading.Lock()  # neither pickle nor cloudpickle takes one

    def key(obs, action):
        with lock:
            return obs // 2 * 10 + action

    return key


KEYS = {
    "lambda": lambda: lambda obs, action: obs // 2 * 10 + action,
    "holding a lock": unpicklable,
}


@pytest.mark.parametrize("name", KEYS)
def test_checkpoints_of_a_run_with_a_key_function(name, tmp_path):
    """Saved on the way, and continued bit for bit by a model that is given the key again."""
    key = KEYS[name]()
    model = small_model(SiblingSample(), key=key)
    model.learn(100, callback=CheckpointCallback(50, str(tmp_path), save_replay_buffer=True))
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = SiblingDQN.load(tmp_path / "model", env=gym.make("FrozenLake-v1"), device="cpu", key=key)
    twin.load_replay_buffer(tmp_path / "buffer")
    assert twin.replay_buffer.storage.groups.tolist() == model.replay_buffer.storage.groups.tolist()
    twin.set_logger(model.logger)
    for each in (model, twin):
        each.train(10, batch_size=16)
    assert np.array_equal(parameters(model), parameters(twin))
    twin.learn(20, reset_num_timesteps=False)
    assert callable(twin.key) and len(twin.replay_buffer.storage) == 120
    halfway = SiblingDQN.load(
        tmp_path / "rl_model_50_steps", env=gym.make("FrozenLake-v1"), device="cpu", key=key
    )
    halfway.load_replay_buffer(tmp_path / "rl_model_replay_buffer_50_steps")
    assert len(halfway.replay_buffer.storage) == 49


def test_without_its_key_a_loaded_model_predicts_and_says_what_it_lacks(tmp_path):
    model = small_model(SiblingSample(), key=KEYS["lambda"]()).learn(60)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = SiblingDQN.load(tmp_path / "model", env=gym.make("FrozenLake-v1"), device="cpu")
    assert twin.predict(3, deterministic=True)[0] == model.predict(3, deterministic=True)[0]
    missing = r"key function.*SiblingDQN.load\(path, key=...\)"
    for attempt in (
        lambda: twin.learn(10),
        lambda: twin.load_replay_buffer(tmp_path / "buffer"),
    ):
        with pytest.raises(ValueError, match=missing):
            attempt()
    assert twin.num_timesteps == 60
    twin.save(tmp_path / "again")  # what is lacking is not forgotten
    again = SiblingDQN.load(tmp_path / "again", env=gym.make("FrozenLake-v1"), device="cpu")
    with pytest.raises(ValueError, match=missing):
        again.learn(10)
    changed = SiblingDQN.load(
        tmp_path / "again", env=gym.make("FrozenLake-v1"), device="cpu", key="exact"
    )
    assert changed.learn(40).replay_buffer.key_kind == "exact"


def test_a_buffer_saved_in_one_script_is_loaded_in_another(tmp_path):
    """The key is defined in the main script of each, under names of their own."""
    common = (
        "import sys, gymnasium as gym\n"
        "from sibling_replay import SiblingSample\n"
        "from sibling_replay.integrations.sb3 import SiblingDQN\n"
        "def {name}(obs, action): return obs // 2 * 10 + action\n"
    )
    write = common.format(name="mine") + (
        "model = SiblingDQN('MlpPolicy', gym.make('FrozenLake-v1'), strategy=SiblingSample(),\n"
        "    key=mine, device='cpu', learning_starts=20, buffer_size=100).learn(60)\n"
        "model.save('model'); model.save_replay_buffer('buffer')\n"
    )
    read = common.format(name="other") + (
        "model = SiblingDQN.load('model', env=gym.make('FrozenLake-v1'), device='cpu', key=other)\n"
        "model.load_replay_buffer('buffer')\n"
        "model.learn(40, reset_num_timesteps=False)\n"
        "print(len(model.replay_buffer.storage))\n"
    )
    for number, code in enumerate((write, read)):
        (tmp_path / f"script{number}.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "-W", "error", f"script{number}.py"],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["100"]


def test_an_unpickled_buffer_waits_for_its_key():
    """As a stock algorithm loads it."""

    def key(obs, action):
        return obs

    buffer = filled_buffer(SiblingSample(), key=key)
    twin = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(buffer))))
    for use in (lambda: twin.sample(4), lambda: twin.add(*step_of(np.random.default_rng(0), 0))):
        with pytest.raises(ValueError, match="attach_key"):
            use()
    with pytest.raises(ValueError, match="key function"):
        twin.attach_key("exact")
    with pytest.raises(ValueError, match="key_form"):
        twin.attach_key(lambda obs, action: np.array([obs, action, 1.0]))
    twin.attach_key(key)
    assert twin.sample(8).batch.slots.tolist() == buffer.sample(8).batch.slots.tolist()
    with pytest.raises(ValueError, match="once"):
        twin.attach_key(key)
    assert np.array_equal(copy.deepcopy(buffer).storage.groups, buffer.storage.groups)


def test_what_no_file_can_hold_is_refused_at_construction():
    class Local(SiblingSample):
        pass

    with pytest.raises(TypeError, match=r"strategy .*Local.* cannot be pickled.*top level"):
        small_model(Local())

    class LocalBuffer(SiblingReplayBuffer):
        pass

    with pytest.raises(TypeError, match=r"replay_buffer_class .*LocalBuffer.* cannot be pickled"):
        small_model(SiblingSample(), replay_buffer_class=LocalBuffer)


def test_a_buffer_that_does_not_fit_is_refused_and_nothing_is_changed(tmp_path):
    small_model(SiblingSample()).learn(40).save_replay_buffer(tmp_path / "exact")
    lake = make_vec_env("FrozenLake-v1", n_envs=2, seed=1)
    small_model(SiblingSample(), lake).learn(40).save_replay_buffer(tmp_path / "two")
    other = "sibling_replay/FrozenLakeH100-v0"
    small_model(SiblingSample(), other).learn(40).save_replay_buffer(tmp_path / "other")
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([1, 2]))
    keyed = small_model(SiblingSample(), key=KEYS["lambda"]()).learn(40)
    plain = small_model(SiblingSample()).learn(40)
    for model, name, error, match in (
        (keyed, "exact", ValueError, "key_kind of the buffer saved there is exact"),
        (plain, "two", ValueError, "n_envs of the buffer saved there is 2, here it is 1"),
        (plain, "other", ValueError, "observation_space of the buffer saved there"),
        (plain, "list.pkl", AssertionError, "ReplayBuffer"),
    ):
        own = model.replay_buffer
        with pytest.raises(error, match=match):
            model.load_replay_buffer(tmp_path / name)
        assert model.replay_buffer is own


# ------------------------------------------------------------ no-ops that look alright


def test_an_algorithm_that_never_refreshes_is_told_so():
    """The stock DQN over our buffer: all priorities stay equal."""

    def run(strategy, steps):
        options = dict(
            replay_buffer_class=SiblingReplayBuffer, replay_buffer_kwargs={"strategy": strategy}
        )
        DQN("MlpPolicy", gym.make("FrozenLake-v1"), **SMALL, **options).learn(steps)

    with pytest.warns(
        UserWarning, match="none was refreshed.*Prioritized draws as Uniform.*SiblingDQN"
    ):
        run(Prioritized(), 150)
    with pytest.warns(UserWarning, match="SiblingSample draws as Uniform"):
        run(SiblingSample(), 150)
    run(Prioritized(), 100)  # warnings are errors here: too early to say
    run(EvenGroups(), 150)  # equal priorities, but not what Uniform draws
    run(Uniform(), 150)
    small_model(Prioritized()).learn(150)

"""`DQN`, as its users use it: it learns, shows, stops, saves, survives, and says what is wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import UPER, Prioritized, SiblingAverage, SiblingSample, Uniform
from sibling_replay.checkpoint import StateError, read_state, write_state
from sibling_replay.grouping import Grid
from sibling_replay.training.dqn import DQN
from sibling_replay.training.minatar.config import MinAtarConfig

SHORT: dict[str, Any] = {"learning_starts": 100, "capacity": 700, "hidden": (16, 16)}


def model(env: Any = "CartPole-v1", **options: Any) -> DQN:
    return DQN(env, **{"strategy": Prioritized(), "seed": 1, **SHORT, **options})


def weights(of: DQN) -> list[np.ndarray]:
    return [part for layer in of.learner.layers for part in layer]


def same(one: DQN, other: DQN) -> bool:
    return all(map(np.array_equal, weights(one), weights(other)))


def test_it_learns_cart_pole() -> None:
    learnt = DQN("CartPole-v1", strategy=SiblingSample(), key="auto", seed=3, target_interval=250)
    before = learnt.evaluate(10).mean()
    learnt.learn(12_000)
    assert before < 60 and learnt.evaluate(10).mean() > 120
    assert learnt.buffer.support().groups_per_entry < 0.05, "there are siblings"


def test_schedules_that_are_left_open_fit_the_first_call() -> None:
    learnt = model(train_every=3, updates_a_round=2).learn(1_001)
    assert learnt.settings.epsilon_decay_steps == 200
    assert learnt.settings.beta_updates == 901 // 3 * 2
    assert learnt.updates == 2 * sum(step % 3 == 0 for step in range(100, 1_002))
    learnt.learn(99)
    assert learnt.settings.epsilon_decay_steps == 200 and learnt.steps == 1_100
    given = model(epsilon_decay_steps=7, beta_updates=9).learn(150).settings
    assert (given.epsilon_decay_steps, given.beta_updates) == (7, 9)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_same_seed_learns_the_same(n_envs: int) -> None:
    one, other, third = (model(n_envs=n_envs, seed=seed).learn(601) for seed in (5, 5, 6))
    assert one.steps == 601 and same(one, other) and not same(one, third)
    assert one.episodes == other.episodes > 10


def test_learning_in_parts_is_learning_at_once() -> None:
    options = {"epsilon_decay_steps": 300, "beta_updates": 500}
    whole, parts = model(**options).learn(600), model(**options).learn(233).learn(367)
    assert same(whole, parts)


def test_vectors_of_gymnasium() -> None:
    env = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
    learnt = model(env).learn(802)
    assert learnt.steps == 802 and learnt.episodes > 15 and len(learnt.buffer) == 700
    with pytest.raises(ValueError, match="checkpoints are for environments that are stepped here"):
        learnt.learn(10, checkpoint="nowhere")


def test_the_torch_learner_takes_the_same_actions() -> None:
    pytest.importorskip("torch")
    compiled, torch = model().learn(160), model(learner="torch").learn(160)
    for one, other in zip(weights(compiled), weights(torch), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_callback_sees_the_model_and_can_stop_it() -> None:
    seen: list[int] = []

    def stop_at_300(of: DQN) -> bool:
        seen.append(of.steps)
        return of.steps < 300

    assert model().learn(1_000, callback=stop_at_300, callback_every=100).steps == 300
    assert seen == [100, 200, 300]


def test_progress_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    model().learn(200, progress_bar=True, eval_every=100, eval_episodes=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    for word in ("200 of 200 steps", "return", "evaluated", "loss", "epsilon", "beta", "steps/s"):
        assert word in captured.err
    model().learn(200)
    assert capsys.readouterr().err == ""


def test_evaluations_do_not_change_what_is_learnt() -> None:
    assert same(model().learn(400), model().learn(400, eval_every=50, eval_episodes=3))


# ------------------------------------------------------------------------------ predicting, files


def test_predictions_of_one_and_of_many() -> None:
    learnt = model().learn(300)
    obs = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    many = learnt.predict(obs)
    assert many.shape == (9,) and [learnt.predict(each) for each in obs] == many.tolist()
    assert np.array_equal(learnt.values(obs).argmax(1), many)
    with pytest.raises(ValueError, match=r"shape \(4,\) or a batch, got \(3,\)"):
        learnt.predict(np.zeros(3))


def test_as_a_torch_network() -> None:
    torch = pytest.importorskip("torch")
    learnt = model(hidden=(8, 5, 3)).learn(200)
    obs = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    values = learnt.to_torch()(torch.as_tensor(obs)).detach().numpy()
    np.testing.assert_allclose(values, learnt.values(obs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", [SiblingSample(alpha=0.5), SiblingAverage(), Uniform()])
def test_a_file_holds_the_model(tmp_path: Path, strategy: Any) -> None:
    first = model(strategy=strategy, key="grid:3", loss="huber", tau=0.5).learn(450)
    first.save(tmp_path / "model.npz", replay=True)
    second = DQN.load(tmp_path / "model.npz")
    assert second.strategy == strategy and second.settings == first.settings
    assert second.steps == 450 and same(first, second)
    assert np.array_equal(first.buffer.masses, second.buffer.masses)
    first.save(tmp_path / "alone.npz")
    assert len(DQN.load(tmp_path / "alone.npz").buffer) == 0
    header, arrays = read_state(tmp_path / "model.npz")
    assert all(array.dtype != object for array in arrays.values()) and header["dqn"] == 3


def test_keys_that_are_objects_are_given_again(tmp_path: Path) -> None:
    first = model(strategy=SiblingSample(), key=Grid(3)).learn(450)
    first.save(tmp_path / "model.npz", replay=True)
    with pytest.raises(StateError, match="give it as key="):
        DQN.load(tmp_path / "model.npz")
    again = DQN.load(tmp_path / "model.npz", key=Grid(3))
    assert np.array_equal(first.buffer.groups, again.buffer.groups)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    model().learn(150).buffer.save(tmp_path / "buffer.npz")
    with pytest.raises(StateError, match="holds no DQN"):
        DQN.load(tmp_path / "buffer.npz")


# ------------------------------------------------------------------------------- surviving

CHILD = """
import sys
from sibling_replay import SiblingSample
from sibling_replay.training.dqn import DQN

directory, out = sys.argv[1:]
model = DQN("Acrobot-v1", strategy=SiblingSample(), key="grid:3", n_envs=2, seed=4,
            learning_starts=100, capacity=900, hidden=(16, 16))
print("begun", flush=True)
model.learn(3_003, checkpoint=directory, checkpoint_seconds=0.05, eval_every=1_000)
model.save(out, replay=True)
"""


def run_child(directory: Path, out: Path, kill_after: float | None) -> bool:
    command = [sys.executable, "-c", CHILD, str(directory), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"begun\n"
        if kill_after is not None:
            time.sleep(kill_after)
            child.send_signal(signal.SIGKILL)
        return child.wait() == 0


def test_killed_runs_end_with_the_same_bytes(tmp_path: Path) -> None:
    assert run_child(tmp_path / "whole", tmp_path / "whole.npz", None)
    delays = iter(np.random.default_rng(7).uniform(0.1, 0.9, 20))
    kills = 0
    while kills < 4 and not (tmp_path / "killed.npz").exists():
        kills += not run_child(tmp_path / "killed", tmp_path / "killed.npz", next(delays))
    if not (tmp_path / "killed.npz").exists():
        assert run_child(tmp_path / "killed", tmp_path / "killed.npz", None)
    assert kills >= 1
    assert (tmp_path / "killed.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_learning_on_with_the_same_checkpoint_learns_on(tmp_path: Path) -> None:
    """It once loaded its own last state, saw that it was done, and did nothing."""
    options = {"epsilon_decay_steps": 300, "beta_updates": 500}
    learnt = model(**options).learn(200, checkpoint=tmp_path).learn(200, checkpoint=tmp_path)
    assert learnt.steps == 400 and same(learnt, model(**options).learn(400))
    taken_up = model(**options)
    with pytest.raises(StateError, match=r"a run to step 400, .* learn\(400\) goes on with it"):
        taken_up.learn(200, checkpoint=tmp_path)
    assert same(taken_up.learn(400, checkpoint=tmp_path), learnt)


def test_a_file_never_causes_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    model().learn(150).save(tmp_path / "model.npz")
    header, arrays = read_state(tmp_path / "model.npz")
    write_state(tmp_path / "other.npz", {**header, "strategy": "trap:Strategy"}, dict(arrays))
    with pytest.raises(StateError, match="'trap:Strategy', which is not known here"):
        DQN.load(tmp_path / "other.npz")
    write_state(tmp_path / "other.npz", {**header, "env": "trap:CartPole-v1"}, dict(arrays))
    with pytest.raises(StateError, match="'trap:CartPole-v1', and a file never causes an import"):
        DQN.load(tmp_path / "other.npz")
    assert DQN.load(tmp_path / "other.npz", env="CartPole-v1").steps == 150
    game = {"env": "Breakout", "condition": "clean", "seed": 0, "learning_rate": 1e-4}
    assert MinAtarConfig(method="trap:Strategy", **game).method == "trap:Strategy"


def test_keys_are_kept_where_nothing_draws_by_them_but_somebody_asked() -> None:
    assert model(key="grid:2").learn(300).buffer.support().groups < 40
    assert model().learn(300).buffer.key_kind is None


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    model().learn(150, checkpoint=tmp_path)
    for options, message in (
        ({"seed": 2}, "another model: seed is 1 there and 2 here"),
        ({"strategy": Uniform()}, "another model"),
        ({"learning_rate": 0.1}, "other settings: learning_rate"),
    ):
        with pytest.raises(StateError, match=message):
            model(**options).learn(150, checkpoint=tmp_path)


class Failing(gym.Env[Any, Any]):
    """Goes wrong at its 217th step."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, part: str) -> None:
        self.part, self.steps = part, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        wrong = self.steps == 217
        obs = np.full(2, np.nan if wrong and self.part == "obs" else 0.5, np.float32)
        reward = np.nan if wrong and self.part == "reward" else 1.0
        return obs, reward, self.steps % 10 == 0, False, {}


@pytest.mark.parametrize("part", ["obs", "reward"])
def test_numbers_that_are_none_are_told_with_their_step(part: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"step 217 on Failing: .*nan"):
        model(Failing(part)).learn(500, checkpoint=tmp_path, checkpoint_seconds=0.0)
    header, _ = read_state(tmp_path / "checkpoint.npz")
    assert header["steps"] == 216, "the last checkpoint is kept"


# -------------------------------------------------------------------------------- bad input


class Shifted(gym.Env[Any, Any]):
    """Its actions are 1 and 2."""

    observation_space = gym.spaces.Box(0.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2, start=1)


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("Pendulum-v1", {}, TypeError, "Discrete actions, .* SAC of Stable-Baselines3"),
        ("CartPole-v1", {"learner": "jax"}, ValueError, "learner must be one of compiled, torch"),
        ("CartPole-v1", {"lr": 1e-3}, TypeError, "unknown settings lr: there are .*learning_rate"),
        ("CartPole-v1", {"hidden": (0,)}, ValueError, "hidden_layers must be units of layers"),
        ("CartPole-v1", {"key": "grids:4"}, ValueError, "grids"),
        ("CartPole-v1", {"n_envs": 0}, ValueError, "n_envs must be a whole number"),
        ("NoSuch-v0", {}, gym.error.NameNotFound, "NoSuch"),
        (
            "CartPole-v1",
            {"strategy": "sample"},
            TypeError,
            "strategy must be one of .* not 'sample'",
        ),
        ("CartPole-v1", {"strategy": UPER()}, ValueError, "UPER needs the signals epistemic"),
        (Shifted(), {}, TypeError, r"numbers actions from 0, .* Discrete\(2, start=1\)"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    env: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        DQN(env, **{"strategy": SiblingSample(), **options})


def test_it_warns_where_nothing_is_learnt() -> None:
    short = model(learning_starts=100, train_every=30)
    with pytest.warns(UserWarning, match=r"ends with step 60, .* follows step 120 \(learning_sta"):
        short.learn(60)
    assert short.learn(59).updates == 0  # said once
    assert short.learn(1).updates == 1


def test_it_warns_where_an_empty_buffer_takes_all(tmp_path: Path) -> None:
    """Of a loaded model, and of one whose buffer is smaller than its warm-up."""
    model(learning_starts=100).learn(150).save(tmp_path / "model.npz")
    loaded = DQN.load(tmp_path / "model.npz")
    with pytest.warns(UserWarning, match="nothing is learnt by this call"):
        loaded.learn(99)
    small = model(learning_starts=200, capacity=50)
    with pytest.warns(UserWarning, match="the first update follows step 200"):
        small.learn(199)
    assert small.updates == 0 and small.learn(1).updates == 1


def test_images_are_refused_with_what_to_use_instead() -> None:
    with pytest.raises(TypeError, match=r"images of shape .* CnnPolicy"):
        DQN("sibling_replay/MinAtar-Breakout-v0")


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_lengths_are_whole_numbers(steps: Any) -> None:
    with pytest.raises(ValueError, match="steps must be a whole number"):
        model().learn(steps)


def test_a_map_of_ones_own_is_taken_as_it_is() -> None:
    learnt = model(strategy=SiblingSample(), key=Grid(2)).learn(300)
    assert "Grid" in learnt.buffer.support().key


# ---------------------------------------------------------------- environments that are objects


class Sized(gym.Env[Any, Any]):
    """Observations of a space of one's own, any action ends."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: gym.Space[Any]) -> None:
        self.observation_space = space
        self.closed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), float(action), True, False, {}

    def close(self) -> None:
        self.closed += 1


def test_numbers_of_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="FlattenObservation, which tells kinds apart"):
        model(Sized(gym.spaces.MultiDiscrete([3, 4])))
    flat = gym.wrappers.FlattenObservation(Sized(gym.spaces.MultiDiscrete([3, 4])))
    assert model(flat).learn(120).updates == 21


@pytest.mark.parametrize("learner", ["compiled", "torch"])
def test_numbered_states_need_not_begin_at_zero_and_siblings_are_exact(learner: str) -> None:
    if learner == "torch":
        pytest.importorskip("torch")
    env = Sized(gym.spaces.Discrete(4, start=3))
    learnt = model(env, strategy=SiblingSample(), learner=learner).learn(150)
    assert learnt.updates == 51 and learnt.buffer.support().groups == 8


def test_evaluation_is_on_the_same_environment_and_closes_it() -> None:
    vector = gym.make_vec("FrozenLake-v1", num_envs=2, map_name="8x8", vectorization_mode="sync")
    learnt = model(vector).learn(101)
    assert learnt.made.another().observation_space == gym.spaces.Discrete(64)
    assert len(learnt.evaluate(2)) == 2
    wrapped = gym.wrappers.vector.RecordEpisodeStatistics(vector)
    with pytest.raises(ValueError, match=r"wrapped in RecordEpisodeStatistics.*give `make`"):
        model(wrapped).learn(101).evaluate(1)
    made: list[Sized] = []

    def make() -> Sized:
        made.append(Sized(gym.spaces.Discrete(64)))
        return made[-1]

    learnt.evaluate(3, make)
    assert [env.closed for env in made] == [1, 1, 1]


def test_environments_that_are_objects_are_given_again(tmp_path: Path) -> None:
    """A file cannot hold their arguments: the slippery lake is another one."""
    dry = gym.make("FrozenLake-v1", is_slippery=False)
    model(dry).learn(120).save(tmp_path / "dry.npz")
    with pytest.raises(StateError, match="an environment that is an object: give it as env="):
        DQN.load(tmp_path / "dry.npz")
    assert DQN.load(tmp_path / "dry.npz", dry).made.any.unwrapped is dry.unwrapped
    model(n_envs=2).learn(120).save(tmp_path / "two.npz")
    assert DQN.load(tmp_path / "two.npz").made.size == 2
    assert DQN.load(tmp_path / "two.npz", gym.make("CartPole-v1")).made.size == 1


def test_a_checkpoint_of_another_object_is_refused(tmp_path: Path) -> None:
    model(Sized(gym.spaces.Box(-1, 1, (4,)))).learn(120, checkpoint=tmp_path)
    with pytest.raises(StateError, match=r"env_form is .*Sized.* there and .*CartPole-v1.* here"):
        model(gym.make("CartPole-v1")).learn(120, checkpoint=tmp_path)


def test_a_model_without_its_buffer_fills_one_before_it_learns(tmp_path: Path) -> None:
    first = model().learn(300)
    first.save(tmp_path / "alone.npz")
    second = DQN.load(tmp_path / "alone.npz")
    with pytest.warns(UserWarning, match="nothing is learnt by this call"):
        second.learn(99)
    assert second.updates == first.updates and same(first, second)
    assert second.learn(2).updates == first.updates + 2 and not same(first, second)
    first.save(tmp_path / "whole.npz", replay=True)
    assert DQN.load(tmp_path / "whole.npz").learn(5).updates == first.updates + 5


class Seeds(gym.Wrapper[Any, Any, Any, Any]):
    """Notes what its episodes are seeded with."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seen: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seen.append(seed)
        return self.env.reset(seed=seed, options=options)


def test_a_loaded_model_goes_on_with_other_episodes(tmp_path: Path) -> None:
    first, second = (Seeds(gym.make("CartPole-v1")) for _ in range(2))
    DQN(first, seed=3, strategy=Uniform(), learning_starts=100).learn(300).save(
        tmp_path / "model.npz"
    )
    DQN.load(tmp_path / "model.npz", second).learn(300)
    assert len(first.seen) > 5 and len(second.seen) > 5
    assert not set(first.seen) & set(second.seen)


def test_so_does_one_on_a_vector(tmp_path: Path) -> None:
    def vector() -> Any:
        return gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")

    model = DQN(vector(), seed=3, strategy=Uniform(), learning_starts=100).learn(200)
    first = model.buffer.transitions()["obs"][0]
    model.save(tmp_path / "model.npz")
    loaded = DQN.load(tmp_path / "model.npz", vector()).learn(200)
    assert not np.array_equal(loaded.buffer.transitions()["obs"][0], first)

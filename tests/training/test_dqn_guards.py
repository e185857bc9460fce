"""`DQN` where something goes wrong in the middle, or is given in another form than expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeReward

from sibling_replay import SiblingSample, Uniform
from sibling_replay.checkpoint import StateError, read_state
from sibling_replay.training.dqn import DQN

SHORT: dict[str, Any] = {"learning_starts": 100, "capacity": 700, "hidden": (8, 8), "seed": 1}


def model(env: Any = "CartPole-v1", **options: Any) -> DQN:
    return DQN(env, **{"strategy": Uniform(), **SHORT, **options})


class Walk(gym.Env[Any, Any]):
    """Episodes of ten steps; observations and rewards count steps. `at` names the step (from 1)
    or the reset (from 0) at which `wrong` happens."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wrong: Any = None, step: int = -1, reset: int = -1) -> None:
        self.wrong, self.at = wrong, (step, reset)
        self.steps, self.resets = 0, -1

    def _shown(self, wrong: bool) -> Any:
        if wrong and isinstance(self.wrong, BaseException):
            raise self.wrong
        return self.wrong if wrong else np.array([self.steps % 10, 1.0], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets += 1
        return self._shown(self.resets == self.at[1]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        obs = self._shown(self.steps == self.at[0])
        return obs, float(self.steps), self.steps % 10 == 0, False, {}


NAN = np.array([np.nan, 0.0], np.float32)


@pytest.mark.parametrize("wrong", [NAN, [0.0, np.nan]], ids=["array", "list"])
@pytest.mark.parametrize(
    ("at", "step"), [({"step": 57}, 57), ({"reset": 5}, 50), ({"reset": 0}, 1)]
)
def test_observations_that_are_no_numbers_name_the_step(
    wrong: Any, at: dict[str, int], step: int, tmp_path: Path
) -> None:
    """Those of a reset once came into the buffer, and into every later checkpoint."""
    with pytest.raises(ValueError, match=rf"step {step} on Walk: the environment gave .*nan"):
        model(Walk(wrong, **at)).learn(150, checkpoint=tmp_path, checkpoint_seconds=0.0)
    if step > 1:
        assert read_state(tmp_path / "checkpoint.npz")[0]["steps"] == step - 1
        sound = DQN.load(tmp_path / "checkpoint.npz", env=Walk())
        assert np.isfinite(sound.buffer.transitions()["obs"]).all()
        sound.learn(150)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_so_do_those_of_vectors(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv([Walk, lambda: Walk(NAN, reset=3)], autoreset_mode=mode)
    with pytest.raises(ValueError, match=r"steps \d+ to \d+ on .*: environment 1 gave .*nan"):
        model(envs).learn(150)


def test_an_interrupted_step_is_no_transition() -> None:
    """The environment has gone on, and what it showed is lost: new episodes begin."""
    env = Walk(KeyboardInterrupt(), step=123)
    learner = model(env, n_steps=3, gamma=0.5)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(200)
    assert learner.steps == 122 and learner.episodes == 12
    learner.learn(78)
    assert learner.steps == 200
    stored = learner.buffer.transitions()
    for obs, paid, after, discount in zip(
        stored["obs"], stored["reward"], stored["next_obs"], stored["discount"], strict=True
    ):
        ahead = round(np.log2(1.0 / discount))
        assert (after[0] - obs[0]) % 10 == ahead, "no outcome goes over the gap"
        ends = [step for step in range(1, 210) if step % 10 == after[0]]
        sums = [sum(0.5**k * (end - ahead + 1 + k) for k in range(ahead)) for end in ends]
        assert np.isclose(paid, sums).any(), "its rewards are of steps that follow each other"


@pytest.mark.parametrize("answer", [False, np.False_, np.array(False)[()]])
def test_a_callback_stops_by_any_false(answer: Any) -> None:
    assert model().learn(300, callback=lambda _: answer, callback_every=100).steps == 100
    assert model().learn(300, callback=lambda _: None, callback_every=100).steps == 300
    assert model().learn(300, callback=lambda _: 0, callback_every=100).steps == 300


def test_a_run_that_a_callback_ended_is_at_its_end(tmp_path: Path) -> None:
    """Killed after that, the same call ends where the first did, not later."""

    def stop(of: DQN) -> bool:
        return of.steps < 200

    first = model().learn(400, callback=stop, callback_every=100, checkpoint=tmp_path)
    again = model().learn(400, callback=stop, callback_every=100, checkpoint=tmp_path)
    assert first.steps == again.steps == 200
    assert model().learn(400, checkpoint=tmp_path).steps == 400, "none stops it now"


def test_a_model_that_was_stopped_can_go_on(tmp_path: Path) -> None:
    stopped = model().learn(400, callback=lambda _: False, checkpoint=tmp_path, callback_every=150)
    assert stopped.learn(100, checkpoint=tmp_path).steps == 250


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    given = model(
        seed=np.int64(1), learning_rate=np.float32(0.5), batch_size=np.int32(8),
        through_time_limits=np.bool_(False),
    )  # fmt: skip
    given.notes.append([np.float32(0.5), np.arange(2)])
    given.learn(np.int64(120)).save(tmp_path / "model.npz")
    loaded = DQN.load(tmp_path / "model.npz")
    assert loaded.notes == [[0.5, [0, 1]]] and loaded.settings == given.settings
    assert loaded.seed == 1 and loaded.settings.through_time_limits is False


def test_what_is_kept_between_episodes_cannot_be_taken_up(tmp_path: Path) -> None:
    def normalised() -> DQN:
        return model(NormalizeReward(gym.make("CartPole-v1")))

    def fail(of: DQN) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        normalised().learn(
            400, checkpoint=tmp_path, checkpoint_seconds=0, callback=fail, callback_every=205
        )
    with pytest.raises(StateError, match=r"the same rewards .* DQN\.load\(.* goes on with new"):
        normalised().learn(400, checkpoint=tmp_path)
    with pytest.raises(StateError, match="env_form"):
        model(gym.make("CartPole-v1")).learn(400, checkpoint=tmp_path)


def test_objects_evaluate_by_a_function_that_makes_them(tmp_path: Path) -> None:
    learner = model(Walk())
    with pytest.raises(ValueError, match="another Walk cannot be made"):
        learner.learn(200, eval_every=150)
    assert learner.steps == 0, "it is said before the first step"
    assert learner.learn(200, eval_every=150, make=Walk).steps == 200


def test_values_are_of_observations() -> None:
    learner = model()
    one = np.zeros(4, np.float32)
    assert learner.values(one).shape == (2,) and learner.values([one, one]).shape == (2, 2)
    for wrong in (np.zeros(3), np.zeros((2, 8)), np.zeros((1, 2, 4))):
        with pytest.raises(ValueError, match=r"expected an observation of shape \(4,\)"):
            learner.values(wrong)
    lake = model("FrozenLake-v1")
    assert lake.values(3).shape == (4,) and lake.predict([3, 4]).shape == (2,)
    for state in (-1, 16, 1.7):
        with pytest.raises(ValueError, match="expected states of Discrete"):
            lake.predict(state)


@pytest.mark.parametrize("hidden", [(8, 8), (8,)])
def test_gradients_that_overflow_are_told(hidden: tuple[int, ...]) -> None:
    """They were clipped to nothing: updates were counted, and no weight moved."""
    huge = gym.wrappers.TransformObservation(
        gym.make("CartPole-v1"), lambda obs: obs * np.float32(1e25), Walk.observation_space
    )
    huge.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    with pytest.raises(ValueError, match=r"step 100 on CartPole-v1: update 1: the gradient is not"):
        model(huge, hidden=hidden).learn(300)


def test_a_file_fits_its_environment(tmp_path: Path) -> None:
    model().learn(120).save(tmp_path / "model.npz")
    with pytest.raises(StateError, match="does not fit the observations and actions of Acrobot-v1"):
        DQN.load(tmp_path / "model.npz", env="Acrobot-v1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callback_every": 0}, "callback_every must be a whole number from 1 on, got 0"),
        ({"eval_every": 7.5}, "eval_every must be a whole number from 0 on, got 7.5"),
        ({"eval_every": 50, "eval_episodes": 0}, "eval_episodes must be a whole number from 1 on"),
    ],
)
def test_odd_arguments_of_learn_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model().learn(100, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"hidden": 64},
            TypeError,
            r"hidden must be the units of each layer, as \(64, 64\), got 64",
        ),
        ({"hidden": "64-64"}, TypeError, "hidden must be the units of each layer"),
        ({"hidden_layers": "8"}, TypeError, "hidden and hidden_layers say the same"),
        ({"seed": -1}, ValueError, "seed must be a whole number from 0 on, got -1"),
        ({"through_time_limits": "no"}, ValueError, "through_time_limits must be True or False"),
    ],
)
def test_odd_settings_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        model(**options)


def test_the_last_state_is_shown_where_a_callback_stops(capsys: pytest.CaptureFixture[str]) -> None:
    model(strategy=SiblingSample(), key="grid:2").learn(
        300, progress_bar=True, callback=lambda _: False, callback_every=170
    )
    assert "170 of 300 steps" in capsys.readouterr().err

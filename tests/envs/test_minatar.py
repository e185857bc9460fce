"""The MinAtar environments play the package's games with our stickiness, limit, seeds and state."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from sibling_replay.envs import GAMES, MinAtarEnv, NoisyRewards, RewardNoise
from sibling_replay.envs.plain import plain, restored
from sibling_replay.testing.chi_square import LawRejected, check_counts

CHANNELS = {"Asterix": 4, "Breakout": 4, "Freeway": 7, "Seaquest": 10, "SpaceInvaders": 6}
MINIMAL = {"Asterix": 5, "Breakout": 3, "Freeway": 3, "Seaquest": 6, "SpaceInvaders": 4}


def make(game: str, **options: Any) -> MinAtarEnv:
    env = gym.make(f"sibling_replay/MinAtar-{game}-v0", **options).unwrapped
    assert isinstance(env, MinAtarEnv)
    return env


def walk(env: gym.Env[Any, Any], actions: np.ndarray) -> list[tuple[bytes, float, bool, bool]]:
    """The steps of a fixed sequence of actions, resetting where an episode ends."""
    steps = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        steps.append((obs.tobytes(), float(reward), terminated, truncated))
        if terminated or truncated:
            env.reset()
    return steps


def actions(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(6, size=n)


@pytest.mark.parametrize("game", GAMES)
def test_check_env_has_nothing_to_say(game: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(game))


@pytest.mark.parametrize("game", GAMES)
def test_spaces(game: str) -> None:
    env = make(game)
    assert env.observation_space.shape == (10, 10, CHANNELS[game])
    assert env.observation_space.dtype == np.bool_
    assert env.action_space == gym.spaces.Discrete(6)
    assert make(game, minimal=True).action_space == gym.spaces.Discrete(MINIMAL[game])
    obs, _ = env.reset(seed=0)
    assert obs.dtype == np.bool_ and obs.any()


@pytest.mark.parametrize("game", GAMES)
def test_a_seed_fixes_everything_and_another_does_not(game: str) -> None:
    env, twin, other = make(game), make(game), make(game)
    env.reset(seed=4)
    walk(env, actions(50, seed=9))  # what came before a seeded reset is forgotten
    first, _ = env.reset(seed=3)
    second, _ = twin.reset(seed=3)
    other.reset(seed=5)
    assert first.tobytes() == second.tobytes()
    trail = walk(env, actions(600))
    assert trail == walk(twin, actions(600))
    assert trail != walk(other, actions(600))


@pytest.mark.parametrize("game", GAMES)
def test_without_stickiness_it_is_the_package_game(game: str) -> None:
    """Step by step beside the package's own class, fed the same random numbers."""
    from importlib import import_module

    env = make(game, sticky=0.0)
    env.reset(seed=7)
    theirs = import_module(f"minatar.environments.{GAMES[game]}").Env()
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = make_generator(7).bit_generator.state
    theirs.random = type(env._game.random)(generator)
    theirs.reset()
    for action in actions(500):
        generator.random()  # the question whether to stick
        reward, over = theirs.act(int(action))
        obs, ours, terminated, _, _ = env.step(action)
        assert (obs == theirs.state()).all() and ours == reward and terminated == over
        if over:
            theirs.reset()
            env.reset()


def make_generator(seed: int) -> np.random.Generator:
    return gym.utils.seeding.np_random(seed)[0]


class Recorder:
    """Stands in for the game to see which action arrives. It is the stickiness that is tested."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.played: list[int] = []

    def act(self, action: int) -> tuple[int, bool]:
        self.played.append(action)
        return 0, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.game, name)


def repeats(sticky: float, given: np.ndarray) -> np.ndarray:
    env = make("Breakout", sticky=sticky, max_steps=10**9)
    env.reset(seed=11)
    env._game = recorder = Recorder(env._game)
    for action in given:
        env.step(action)
    return np.array(recorder.played)


def test_the_law_of_stickiness() -> None:
    """Alternate 1 and 2: where the last action was obeyed, playing it again means sticking."""
    given = np.tile([1, 2], 20_000)
    played = repeats(0.1, given)
    obeyed = played[:-1] == given[:-1]
    stuck = (played[1:] == played[:-1])[obeyed]
    counts = [int(stuck.sum()), int((~stuck).sum())]
    check_counts(counts, [0.1, 0.9])
    with pytest.raises(LawRejected):
        check_counts(counts, [0.12, 0.88])


def test_stickiness_is_applied_once_and_forgotten_at_reset() -> None:
    assert (repeats(0.0, actions(500)) == actions(500)).all()
    env = make("Breakout", sticky=1.0)
    env.reset(seed=0)
    env._previous = 3
    env.reset()
    env._game = recorder = Recorder(env._game)
    env.step(5)
    assert recorder.played == [0]  # always sticky, and nothing to stick to: no operation


def test_an_episode_ends_at_the_limit_as_truncated() -> None:
    env = make("Freeway", max_steps=40)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(40)]
    assert ends == [(False, False)] * 39 + [(False, True)]
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


def test_freeway_ends_by_itself_before_the_limit() -> None:
    env = make("Freeway")
    env.reset(seed=0)
    steps = 1
    while not (end := env.step(0)[2:4])[0]:
        assert not end[1]
        steps += 1
    assert (steps, end) == (2501, (True, False))


def test_termination_at_the_limit_is_no_truncation() -> None:
    env = make("Freeway", max_steps=2501)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(2501)][-1] == (True, False)


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        make("Breakout").step(0)


@pytest.mark.parametrize("action", [6, -1, 0.5])
def test_an_unknown_action_is_refused(action: Any) -> None:
    env = make("Breakout")
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction):
        env.step(action)


@pytest.mark.parametrize(
    ("parameter", "value"), [("sticky", 1.5), ("sticky", float("nan")), ("max_steps", 0)]
)
def test_bad_parameters_are_refused_by_name(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        make("Breakout", **{parameter: value})


def test_an_unknown_game_is_refused() -> None:
    with pytest.raises(ValueError, match="Pong"):
        MinAtarEnv("Pong")


@pytest.mark.parametrize("game", GAMES)
def test_a_state_survives_json_and_goes_on_bit_for_bit(game: str) -> None:
    env = make(game)
    env.reset(seed=2)
    walk(env, actions(300))
    for _ in range(20):  # at many moments of an episode
        state = json.loads(json.dumps(env.state_dict()))
        twin = make(game)
        twin.load_state_dict(state)
        assert (twin.observation() == env.observation()).all()
        assert {k: type(v) for k, v in vars(twin._game).items()} == {
            k: type(v) for k, v in vars(env._game).items()
        }
        assert walk(twin, actions(137)) == walk(env, actions(137))


def test_a_state_of_another_game_is_refused_and_changes_nothing() -> None:
    env = make("Breakout")
    env.reset(seed=0)
    other = make("Asterix")
    other.reset(seed=0)
    before = env.state_dict()
    with pytest.raises(ValueError, match="Asterix"):
        env.load_state_dict(other.state_dict())
    assert env.state_dict() == before


def test_plain_forms_keep_types() -> None:
    value = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": [np.int64(3), np.bool_(True), None, (1, 2.5), [np.float32(0.1)]],
        "c": "text",
    }
    back = restored(json.loads(json.dumps(plain(value))))
    assert type(back["b"][0]) is np.int64 and type(back["b"][1]) is np.bool_
    assert back["b"][2:] == [None, (1, 2.5), [np.float32(0.1)]]
    assert back["a"].dtype == np.float64 and (back["a"] == value["a"]).all()
    with pytest.raises(TypeError, match="no plain form"):
        plain({1, 2})


def test_the_tail_leaves_the_game_alone_and_is_seeded() -> None:
    bare = make("Asterix")
    tail = RewardNoise("tail", 30.0, positive_only=True)
    tailed, twin = (NoisyRewards(make("Asterix"), tail) for _ in range(2))
    for env in (bare, tailed, twin):
        env.reset(seed=6)
    trails = [walk(env, actions(3_000)) for env in (bare, tailed, twin)]
    assert trails[1] == trails[2]
    for plain_step, tail_step in zip(trails[0], trails[1], strict=True):
        assert plain_step[0] == tail_step[0] and plain_step[2:] == tail_step[2:]
        assert (plain_step[1] > 0) == (tail_step[1] != plain_step[1])
    assert any(step[1] < 0 for step in trails[1]), "3000 steps of Asterix show the tail"

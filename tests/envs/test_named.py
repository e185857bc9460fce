"""Environments by text: one spelling, safe in file names and shells, and what it makes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from sibling_replay.envs import (
    SHORT_NAMES,
    MeanRewards,
    NoisyRewards,
    RewardNoise,
    TabularModel,
    env_text,
    make_env,
    parse_env,
)
from sibling_replay.running.runs import path_part
from sibling_replay.training import DQN
from sibling_replay.training.config import gym_id


@pytest.mark.parametrize(
    ("text", "env_id", "parameters"),
    [
        ("FrozenLake-v1", "FrozenLake-v1", {}),
        ("FrozenLake-v1,map_name=8x8", "FrozenLake-v1", {"map_name": "8x8"}),
        ("own.envs:Mine-v0,a=1,b=-0.5,c=true,d=False,e=1e-3,f=x",
         "own.envs:Mine-v0", {"a": 1, "b": -0.5, "c": True, "d": False, "e": 1e-3, "f": "x"}),
    ],
)  # fmt: skip
def test_texts_are_read(text: str, env_id: str, parameters: dict[str, Any]) -> None:
    found, values = parse_env(text)
    assert (found, values) == (env_id, parameters)
    assert [type(value) for value in values.values()] == [type(v) for v in parameters.values()]
    assert parse_env(env_text(found, values)) == (env_id, parameters)


def test_there_is_one_spelling() -> None:
    assert env_text(*parse_env("X-v0,b=TRUE,a=0.50")) == "X-v0,a=0.5,b=true"


@pytest.mark.parametrize(
    "text",
    ["X-v0,", "X-v0,a", "X-v0,a=", "X-v0,=1", "X-v0,a=1,a=2", "X-v0, a=1", "X-v0,a=1/3", "X-v0,a=*",
     "X-v0,a=$b", "X-v0,a=1;b=2", ",a=1"],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"parameters as name=value.*FrozenLake-v1,map_name=8x8"):
        parse_env(text)


def test_texts_are_safe() -> None:
    text = env_text("CliffWalking-v1", {"is_slippery": True, "reward_noise": "tail-30"})
    assert re.fullmatch(r"[\w.,=+-]+", text)
    assert shlex.split(text) == [text] and path_part(text) == text


def test_parameters_reach_the_environment() -> None:
    lake = TabularModel.from_env(make_env("FrozenLake-v1,map_name=8x8,max_episode_steps=200"))
    assert (lake.n_states, lake.time_limit) == (64, 200)
    cliff = make_env("CliffWalking-v1,is_slippery=true,max_episode_steps=50").unwrapped
    assert cliff.is_slippery is True  # type: ignore[attr-defined]
    assert len(cliff.P[0][0]) == 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="no_such"):
        make_env("FrozenLake-v1,no_such=1")


def test_rewards_can_have_noise_or_be_means() -> None:
    noisy = make_env("FrozenLake-v1,reward_noise=student-0.5")
    assert isinstance(noisy, NoisyRewards) and noisy.noise == RewardNoise("student", 0.5)
    assert isinstance(make_env("FrozenLake-v1,rewards=mean"), MeanRewards)
    for text, says in (
        ("rewards=median", "rewards can be mean, or be left out, not 'median'"),
        ("reward_noise=tail", "kind-scale, such as tail-30, gauss-1 or student-2, not 'tail'"),
        ("reward_noise=cauchy-1", "one of tail, gauss, student"),
        ("reward_noise=gauss-x", "could not convert"),
        ("reward_noise=3", "not '3'"),
    ):
        with pytest.raises(ValueError, match=says):
            make_env(f"FrozenLake-v1,{text}")


def test_short_names_are_ours() -> None:
    assert gym_id("NoisyGridworld") == "sibling_replay/NoisyGridworld-v0"
    assert gym_id("PortalBridge,p=0.1") == "sibling_replay/PortalBridge-v0,p=0.1"
    assert gym_id("FrozenLake-H100/H300,p=1") == "sibling_replay/FrozenLakeH100-v0,p=1"
    assert gym_id("CartPole-v1") == "CartPole-v1"
    assert SHORT_NAMES["MinAtar-Breakout"] == "sibling_replay/MinAtar-Breakout-v0"


def test_dqn_takes_a_text() -> None:
    model = DQN("CartPole-v1,max_episode_steps=7,reward_noise=gauss-1", seed=0, learning_starts=30)
    model.learn(40)
    assert model.episodes >= 5
    returns = model.evaluate(3)
    assert (returns != 7.0).any() and (abs(returns - 7.0) < 7 * 3.76).all()  # 7 steps of noise

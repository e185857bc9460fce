"""Runs of changed code of one's own are other runs."""

from __future__ import annotations

import linecache
import sys
from importlib import import_module

import gymnasium as gym
import pytest

from sibling_replay.studies.gym_job import GymJob
from sibling_replay.studies.own import own_run
from sibling_replay.studies.own_code import code_of
from sibling_replay.training.gym_config import gym_config

ENV = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Slow(CartPoleEnv):
    pass

gym.register("Slow-v0", {entry})
"""


def imported(name):
    sys.modules.pop(name, None)
    linecache.checkcache()
    return import_module(name)


@pytest.mark.parametrize("entry", ["'own_slow:Slow'", "Slow", "lambda **kw: Slow(**kw)"])
def test_an_environment_of_ones_own(tmp_path, monkeypatch, entry):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for text in (ENV.format(entry=entry), ENV.format(entry=entry) + "\n# changed\n"):
        (tmp_path / "own_slow.py").write_text(text)
        gym.registry.pop("Slow-v0", None)
        imported("own_slow")
        found.append(own_run(gym_config("own_slow:Slow-v0", "PER", 0)).id)
    gym.registry.pop("Slow-v0")
    assert found[0] != found[1] and all("/code=" in each for each in found)


def test_names_of_libraries_have_none():
    for env in ("CartPole-v1", "sibling_replay.envs:sibling_replay/OutlierBandit-v0"):
        assert code_of(env, "PER") == []


def test_other_code_does_not_go_on_with_a_checkpoint(tmp_path, monkeypatch):
    """The result would be stored as that of the new code."""
    monkeypatch.syspath_prepend(tmp_path)
    config, places = gym_config("own_slow:Slow-v0", "PER", 0), []
    for text in (ENV.format(entry="Slow"), ENV.format(entry="Slow") + "\n# changed\n"):
        (tmp_path / "own_slow.py").write_text(text)
        gym.registry.pop("Slow-v0", None)
        imported("own_slow")
        places += [GymJob(tmp_path).place(config), GymJob(tmp_path).place(config)]
    gym.registry.pop("Slow-v0")
    assert places[0] == places[1] != places[2] == places[3]

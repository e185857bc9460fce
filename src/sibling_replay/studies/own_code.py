"""What marks the runs of code that is not ours: its digest, so that no changed code is taken for
the code whose runs are stored."""

from __future__ import annotations

import importlib
import inspect
from hashlib import blake2b
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from sibling_replay.envs import parse_env
from sibling_replay.strategies.registry import find_strategy


def code_of(env: str, method: str) -> list[str]:
    """`code=` and a digest of the files in which a strategy given as module:Class and an
    environment given as module:Id are defined; nothing where both are names of a library. Files
    that those import do not count."""
    given: list[Any] = []
    if ":" in method:
        given.append(find_strategy(method))
    module, colon, name = parse_env(env)[0].partition(":")
    if colon:
        importlib.import_module(module)  # which registers it
        entry = gym.spec(name).entry_point
        given.append(load_env_creator(entry) if isinstance(entry, str) else entry)
    sources = [source for source in map(_source, given) if source]
    if not sources:
        return []
    return [f"code={blake2b(''.join(sources).encode(), digest_size=4).hexdigest()}"]


def _source(given: Any) -> str:
    module = inspect.getmodule(given)
    if module is None or module.__name__.partition(".")[0] == "sibling_replay":
        return ""
    try:
        return inspect.getsource(module)
    except OSError:  # typed in, or compiled
        return ""

"""What marks the runs of code that is not ours: its digest, so that no changed code is taken for
the code whose runs are stored."""

from __future__ import annotations

import inspect
from hashlib import blake2b

from sibling_replay.envs import make_env, parse_env
from sibling_replay.strategies.registry import find_strategy
from sibling_replay.training.config import gym_id


def code_of(env: str, method: str) -> list[str]:
    """`code=` and a digest of the files in which a strategy given as module:Class and an
    environment given as module:Id are defined; nothing where both are names of a library. Files
    that those import do not count."""
    kinds: list[type] = []
    if ":" in method:
        kinds.append(find_strategy(method))
    if ":" in parse_env(env)[0]:
        made = make_env(gym_id(env))
        kinds.append(type(made.unwrapped))
        made.close()
    sources = [source for source in map(_source, kinds) if source]
    if not sources:
        return []
    return [f"code={blake2b(''.join(sources).encode(), digest_size=4).hexdigest()}"]


def _source(kind: type) -> str:
    module = inspect.getmodule(kind)
    if module is None or kind.__module__.partition(".")[0] == "sibling_replay":
        return ""
    try:
        return inspect.getsource(module)
    except OSError:  # typed in, or compiled
        return ""

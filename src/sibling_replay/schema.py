"""From Gymnasium spaces to the fields of a transition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sibling_replay.grouping.key_map import KeyMap, checked_keys
from sibling_replay.replay.batch import HEADER, Batch
from sibling_replay.replay.parts import Parts
from sibling_replay.replay.payload import Field

TRANSITION = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
GROUP_KEY = "group_key"  # the stored key, where it is not the observation and action themselves

# A field is an argument of `add` and an attribute of a batch: it cannot take the name of another.
_TAKEN = (
    set(dir(Batch)) | {*HEADER, GROUP_KEY, "group", "added", "self", "env_id", "env_ids"}
) - set(TRANSITION)


def field_of_space(space: gym.Space[Any], name: str) -> Field:
    """The field that holds one element of a space; of a Dict or Tuple, its parts."""
    tree = _tree_of_space(space, name)
    return tree if isinstance(tree, Field) else Parts(tree)


def _tree_of_space(space: gym.Space[Any], name: str) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _tree_of_space(part, f"{name}[{key!r}]") for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_tree_of_space(p, f"{name}[{i}]") for i, p in enumerate(space.spaces))
    if isinstance(space, spaces.Discrete):
        return Field(np.dtype(np.int64))
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return Field(np.dtype(space.dtype), space.shape)
    raise TypeError(
        f"{name}: a {type(space).__name__} space has no fixed array form; "
        f"wrap the environment with gymnasium.wrappers.FlattenObservation or give `fields` yourself"
    )


def fields_of_env(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> dict[str, Field]:
    """The fields of a transition of an environment; of a vector of them, of one member."""
    try:
        obs_space = getattr(env, "single_observation_space", env.observation_space)
        action_space = getattr(env, "single_action_space", env.action_space)
    except AttributeError as error:
        raise TypeError(f"expected a Gymnasium environment, not {env!r}") from error
    obs = _bounded(field_of_space(obs_space, "observation"), obs_space)
    action = _bounded(field_of_space(action_space, "action"), action_space)
    if isinstance(action, Parts):
        raise TypeError(
            f"action: a {type(action_space).__name__} space is of several parts, and an action "
            f"must be one array: flatten it by a wrapper of the environment"
        )
    return {
        "obs": obs,
        "action": action,
        "reward": Field(np.dtype(np.float32)),
        "next_obs": obs,
        "terminated": Field(np.dtype(np.bool_)),
        "truncated": Field(np.dtype(np.bool_)),
    }


def _bounded(field: Field, space: gym.Space[Any]) -> Field:
    """Numbers that a Discrete space does not have are no states or actions of it."""
    if not isinstance(space, spaces.Discrete):
        return field
    low = int(space.start)
    return Field(field.dtype, bounds=(low, low + int(space.n) - 1))


def check_fields(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields of a schema with the six of a transition first, or an error naming what is off."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"fields must be a mapping from name to Field, not {fields!r}")
    missing = [name for name in TRANSITION if name not in fields]
    if missing:
        raise ValueError(f"a schema needs the fields {', '.join(TRANSITION)}; missing: {missing}")
    for name, field in fields.items():
        if not isinstance(field, Field):
            raise TypeError(f"field {name!r} must be a Field(dtype, shape), not {field!r}")
        if (
            not isinstance(name, str)
            or not name.isidentifier()
            or name.startswith("_")
            or name in _TAKEN
        ):
            raise ValueError(f"a field cannot be called {name!r}")
    for name in ("reward", "terminated", "truncated"):
        if fields[name].shape != ():
            raise ValueError(f"{name} must be a scalar, not of shape {fields[name].shape}")
    for name in ("terminated", "truncated"):
        if fields[name].dtype.kind != "b":
            raise TypeError(f"{name} must be boolean, not {fields[name].dtype}")
    if fields["reward"].dtype.kind != "f":
        raise TypeError(f"reward must be a float, not {fields['reward'].dtype}")
    if fields["obs"] != fields["next_obs"]:
        raise ValueError("obs and next_obs must have one dtype and shape")
    for name, field in fields.items():
        if isinstance(field, Parts) and name not in ("obs", "next_obs"):
            raise TypeError(f"{name} must be one array: only observations may be of several parts")
    extra = [name for name in fields if name not in TRANSITION]
    return {name: fields[name] for name in (*TRANSITION, *extra)}


def field_of_key(key: KeyMap, fields: Mapping[str, Field]) -> Field:
    """The form of a map's keys, learnt by calling it once, for a single entry of zeros."""
    found = checked_keys(key, *zero_entry(fields))
    # Of whatever integer type zeros gave: others may give a wider one.
    dtype = np.dtype(np.int64) if found.dtype.kind in "iu" else found.dtype
    return Field(dtype, found.shape[1:])


def zero_entry(fields: Mapping[str, Field]) -> tuple[Any, NDArray[Any]]:
    """A batch of one entry of zeros, or of the least numbers that there are: its observation and
    its action."""
    obs, action = (
        field.opened(
            np.full((1, *field.shape), field.bounds[0] if field.bounds else 0, field.dtype)
        )
        for field in (fields["obs"], fields["action"])
    )
    return obs, action

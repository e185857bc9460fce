"""From Stable-Baselines3 to `sibling-replay diagnose`: a model's buffer as a file of columns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.leaves import as_rows, row
from sibling_replay.integrations import host
from sibling_replay.integrations.export import write_transitions
from sibling_replay.integrations.sb3_buffer import FUNCTION, SiblingReplayBuffer

with host("Stable-Baselines3", "sb3"):
    import torch as th
    from stable_baselines3 import DQN
    from stable_baselines3.common.buffers import ReplayBuffer

_AT_ONCE = 4096  # transitions through the networks

Columns = dict[str, NDArray[Any]]


def export(source: Any, path: str | os.PathLike[str]) -> None:
    """Write a replay buffer to an .npz for `sibling-replay diagnose`.

    source: a `SiblingDQN`; SB3's own `DQN`, to see what prioritized replay would do to it; or a
        `SiblingReplayBuffer` alone, whose file then has no targets.

    Transitions are as stored, so under `VecNormalize` as the environment gave them. From the
    model's networks as they are now come q_next (the value of next_obs by which the model learns),
    target (in normalised rewards under `VecNormalize`) and td_error. A prioritized buffer adds the
    priorities it has, and its alpha; one with a key function its groups. Dict observations are
    written as one array, with the numbers of all entries in a row.
    """
    model = source if isinstance(source, DQN) else None
    buffer = source if model is None else model.replay_buffer
    alpha = None
    if isinstance(buffer, SiblingReplayBuffer):
        columns = buffer.storage.transitions()
        columns.pop("group_key", None)
        if buffer.key_kind == FUNCTION:
            columns["group"] = buffer.storage.groups
        if not buffer.strategy.needs.host_may_draw:
            alpha = buffer.strategy.alpha
            # With alpha = 0 every mass is one, and so would be any priority's.
            columns["priority"] = buffer.storage.masses ** (1.0 / alpha if alpha else 1.0)
    elif type(buffer) is ReplayBuffer and model is not None:
        columns = _stock_columns(buffer)
    else:
        raise TypeError(
            "export takes a SiblingDQN, a DQN with SB3's ReplayBuffer (single steps, no Dict "
            f"observations) or a SiblingReplayBuffer, not {_described(source, buffer)}. Of others, "
            "write the columns with sibling_replay.integrations.export.write_transitions"
        )
    if len(columns["reward"]) == 0:
        raise ValueError("the replay buffer is empty: there is nothing to export")
    if model is not None:
        columns |= _values(model, buffer, columns)
    elif "priority" not in columns:
        raise ValueError("a buffer drawn by Uniform has no priorities: export the model instead")
    for name in ("obs", "next_obs"):
        columns[name] = as_rows(columns[name])
    write_transitions(path, columns, alpha=alpha)


def _described(source: Any, buffer: Any) -> str:
    name = type(source).__name__
    return name if buffer is source else f"{name} with a {type(buffer).__name__}"


def _stock_columns(buffer: Any) -> Columns:
    """A stock buffer's transitions, by position and environment."""
    positions = np.arange(buffer.buffer_size if buffer.full else buffer.pos)
    if buffer.optimize_memory_usage:
        if buffer.full:
            positions = positions[positions != buffer.pos]  # its next observation is overwritten
        next_obs = buffer.observations[(positions + 1) % buffer.buffer_size]
    else:
        next_obs = buffer.next_observations[positions]
    count = len(positions) * buffer.n_envs
    obs_shape, action_shape = buffer.observation_space.shape, buffer.action_space.shape
    done, timeout = (
        array[positions].reshape(count) > 0 for array in (buffer.dones, buffer.timeouts)
    )
    return {
        "obs": buffer.observations[positions].reshape(count, *obs_shape),
        "action": buffer.actions[positions].reshape(count, *action_shape),
        "reward": buffer.rewards[positions].reshape(count),
        "next_obs": next_obs.reshape(count, *obs_shape),
        "terminated": done & ~timeout,
        "truncated": done & timeout,
    }


def _values(model: Any, buffer: Any, columns: Columns) -> Columns:
    """q_next, target and td_error by the model's networks, as `train` would compute them now."""
    env = model.get_vec_normalize_env()
    reward, discount = columns["reward"], columns.get("discount")  # None for single steps
    if env is not None:
        if discount is None:
            reward = env.normalize_reward(reward)
        else:
            reward = buffer.normalized_reward(reward[:, None], discount[:, None], env)[:, 0]
    ended = columns["terminated"]
    if not buffer.handle_timeout_termination:
        ended = ended | columns["truncated"]

    def rows(name: str, start: int) -> Any:
        part = slice(start, start + _AT_ONCE)
        if isinstance(buffer, SiblingReplayBuffer):
            obs = buffer.shaped(row(columns[name], part))
            return buffer.as_tensors(obs if env is None else env.normalize_obs(obs))
        obs = columns[name][part].reshape(-1, *buffer.obs_shape)
        return th.as_tensor(obs if env is None else env.normalize_obs(obs), device=model.device)

    model.policy.set_training_mode(False)
    q_next, q = [], []
    with th.no_grad():
        for start in range(0, len(reward), _AT_ONCE):
            next_obs = rows("next_obs", start)
            values = (
                model.next_values(next_obs)
                if hasattr(model, "next_values")  # SiblingDQN's, perhaps Double DQN's
                else model.q_net_target(next_obs).amax(dim=1, keepdim=True)
            )
            action = columns["action"][start : start + _AT_ONCE]
            q_next.append(values.squeeze(1).cpu().numpy())
            q.append(model.q_net(rows("obs", start)).cpu().numpy()[np.arange(len(action)), action])
    found = np.concatenate(q_next)
    target = reward + (model.gamma if discount is None else discount) * np.where(ended, 0.0, found)
    return {"q_next": found, "target": target, "td_error": target - np.concatenate(q)}

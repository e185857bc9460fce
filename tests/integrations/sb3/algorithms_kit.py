"""Small models of every algorithm, ours and SB3's."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
from sb3_contrib import QRDQN, TQC
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env

from sibling_replay.integrations.sb3 import SiblingDDPG, SiblingDQN, SiblingSAC, SiblingTD3
from sibling_replay.integrations.sb3_contrib import SiblingQRDQN, SiblingTQC

STOCK = {
    SiblingDQN: DQN, SiblingSAC: SAC, SiblingTD3: TD3, SiblingDDPG: DDPG,
    SiblingQRDQN: QRDQN, SiblingTQC: TQC,
}  # fmt: skip
ALGORITHMS = {kind.__name__: kind for kind in STOCK}
WITH_ACTOR = ("SiblingSAC", "SiblingTD3", "SiblingDDPG", "SiblingTQC")
BY_STOCK_TRAIN = tuple(name for name in ALGORITHMS if name != "SiblingDQN")

SMALL = dict(
    buffer_size=400, learning_starts=20, train_freq=1, batch_size=16, seed=5, device="cpu",
    policy_kwargs={"net_arch": [16]},
)  # fmt: skip


def env_of(name, n_envs=1):
    """Pendulum where actions are real numbers; else FrozenLake, whose states repeat."""
    env = "Pendulum-v1" if name in WITH_ACTOR else "FrozenLake-v1"
    return make_vec_env(env, n_envs=n_envs, seed=1)


def model_of(name, strategy, env=None, **options):
    env = env_of(name) if env is None else gym.make(env) if isinstance(env, str) else env
    return ALGORITHMS[name]("MlpPolicy", env, strategy=strategy, **with_small(name, options))


def stock_of(name, env=None, **options):
    kind = STOCK[ALGORITHMS[name]]
    return kind("MlpPolicy", env_of(name) if env is None else env, **with_small(name, options))


def with_small(name, options):
    small = copy.deepcopy({**SMALL, **options})  # SB3 writes into policy_kwargs
    if name == "SiblingQRDQN":
        small["policy_kwargs"].setdefault("n_quantiles", 20)  # not 200, which take time
    return small


def learnt(model):
    """All that learning has changed: every network with its targets, and the entropy's weight."""
    parts = [p.detach().numpy().ravel() for p in model.policy.parameters()]
    if getattr(model, "log_ent_coef", None) is not None:
        parts.append(model.log_ent_coef.detach().numpy().ravel())
    return np.concatenate(parts)


def critic_of(model):
    """The network whose values are compared with targets."""
    return model.quantile_net if hasattr(model, "quantile_net") else model.critic

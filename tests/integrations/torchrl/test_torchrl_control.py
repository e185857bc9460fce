"""TorchRL's SAC, TD3 and DDPG losses with our sampler, in training runs on Pendulum."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, MultiStep, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import RandomSampler
from torchrl.envs import GymWrapper, SerialEnv
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    ProbabilisticActor,
    TanhDelta,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import DDPGLoss, SACLoss, SoftUpdate, TD3Loss, ValueEstimators

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.grouping import Auto
from sibling_replay.integrations.torchrl import SiblingSampler

STEPS = 200


def actor_of(env, stochastic):
    body = MLP(3, 2 if stochastic else 1, num_cells=[16])
    net = nn.Sequential(body, NormalParamExtractor()) if stochastic else body
    keys = ["loc", "scale"] if stochastic else ["param"]
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=keys),
        in_keys=keys,
        spec=env.action_spec,
        distribution_class=TanhNormal if stochastic else TanhDelta,
        distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high},
    )


def loss_of(name, env, actor):
    critic = ValueOperator(MLP(4, 1, num_cells=[16]), in_keys=["observation", "action"])
    if name == "SAC":
        loss = SACLoss(actor, critic)
    elif name == "TD3":
        loss = TD3Loss(actor, critic, action_spec=env.action_spec, delay_actor=True)
    else:
        loss = DDPGLoss(actor, critic, delay_actor=True, delay_value=True)
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99)
    return loss


def pendulum():
    return GymWrapper(gym.wrappers.TimeLimit(gym.make("Pendulum-v1").unwrapped, 50))


def train(name, sampler_of, n_steps=1, envs=1, steps=STEPS):
    """The critics' weights before and after, and the buffer."""
    torch.manual_seed(0)
    env = pendulum() if envs == 1 else SerialEnv(envs, pendulum)
    env.set_seed(0)
    actor = actor_of(pendulum(), stochastic=name == "SAC")
    loss = loss_of(name, pendulum(), actor)
    updater = SoftUpdate(loss, tau=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    sampler = sampler_of(loss)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(1_000), sampler=sampler, batch_size=16, priority_key="td_error"
    )

    def weights():
        critics = getattr(loss, "qvalue_network_params", None)
        critics = loss.value_network_params if critics is None else critics
        return np.concatenate(
            [each.detach().numpy().ravel() for each in critics.flatten_keys().values()]
        )

    before = weights()
    policy = actor
    if name != "SAC":
        noise = AdditiveGaussianModule(env.action_spec, sigma_init=0.3, sigma_end=0.3)
        policy = TensorDictSequential(actor, noise)
    collector = Collector(
        env,
        policy,
        frames_per_batch=20,
        total_frames=steps,
        auto_register_policy_transforms=True,
        postproc=MultiStep(0.99, n_steps) if n_steps > 1 else None,
    )
    for data in collector:
        buffer.extend(data.reshape(-1))
        for _ in range(5):
            sample = buffer.sample()
            found = loss(sample)
            total = sum(found[key] for key in found.keys() if key.startswith("loss_"))
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            updater.step()
            buffer.update_tensordict_priority(sample)
    collector.shutdown()
    return before, weights(), sampler


@pytest.mark.parametrize("name", ["SAC", "TD3", "DDPG"])
def test_uniform_is_the_stock_sampler(name):
    _, stock, _ = train(name, lambda loss: RandomSampler())
    before, ours, _ = train(name, lambda loss: SiblingSampler(1_000, Uniform()))
    assert np.array_equal(stock, ours) and not np.array_equal(before, ours)


@pytest.mark.parametrize("strategy", [Prioritized, SiblingSample])
@pytest.mark.parametrize("name", ["SAC", "TD3", "DDPG"])
def test_priorities_train_the_critics(name, strategy):
    """The loss says what it writes as priority; `Auto` bins the actions."""
    key = Auto(noise=0.2, fit_after=100) if strategy is SiblingSample else None
    before, after, sampler = train(
        name, lambda loss: SiblingSampler(1_000, strategy(), seed=0, loss=loss, key=key)
    )
    assert np.isfinite(after).all() and not np.array_equal(before, after)
    slots = sampler.replay.sampler
    ok, why = slots.check_valid()
    assert ok, why
    assert len(slots) == STEPS and np.unique(slots.masses[slots.live_slots]).size > 50
    assert sampler.replay.unmatched_updates == 0
    if key is not None:
        assert sampler.replay.key_choices and sampler.support().groups < 150

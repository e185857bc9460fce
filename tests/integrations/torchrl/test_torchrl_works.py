"""docs/works.md, the rows of TorchRL."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import test_torchrl_control as control
import torch
from torchrl.collectors import Collector, RandomPolicy
from torchrl.data import LazyTensorStorage, MultiStep, TensorDictReplayBuffer
from torchrl.envs import GymWrapper, SerialEnv
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss, ValueEstimators

from sibling_replay.integrations.torchrl import SiblingSampler
from support.works import check_row, learnt


def steps_and_envs(variant):
    return 3 if variant == "N" else 1, 2 if variant == "V" else 1


def refreshed(sampler, strategy):
    if not strategy.needs.host_may_draw:
        slots = sampler.replay.sampler
        assert np.unique(slots.masses[slots.live_slots]).size > 2


@pytest.mark.parametrize("name", ["SAC", "TD3", "DDPG"])
def test_actor_critics(name):
    def trial(strategy, variant):
        n_steps, envs = steps_and_envs(variant)
        before, after, sampler = control.train(
            name, lambda loss: SiblingSampler(1_000, strategy, seed=0, loss=loss),
            n_steps, envs, steps=60,
        )  # fmt: skip
        learnt(before, after)
        refreshed(sampler, strategy)

    check_row(f"TorchRL `{name}Loss`", trial, "1NV")


def cart():
    return GymWrapper(gym.make("CartPole-v1"), categorical_action_encoding=True)


def test_dqn():
    def trial(strategy, variant):
        torch.manual_seed(0)
        n_steps, envs = steps_and_envs(variant)
        env = cart() if envs == 1 else SerialEnv(envs, cart)
        net = MLP(4, 2, num_cells=[16])
        actor = QValueActor(net, in_keys=["observation"], spec=cart().action_spec)
        loss = DQNLoss(actor, loss_function="l2", delay_value=False)
        loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99)
        sampler = SiblingSampler(1_000, strategy, seed=0, loss=loss)
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(1_000), sampler=sampler, batch_size=16,
            priority_key="td_error",
        )  # fmt: skip
        collector = Collector(
            env, RandomPolicy(env.action_spec), frames_per_batch=20, total_frames=60,
            postproc=MultiStep(0.99, n_steps) if n_steps > 1 else None,
        )  # fmt: skip
        optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
        before = net[0].weight.detach().numpy().copy()
        for data in collector:
            if variant == "N":
                assert int(data["steps_to_next_obs"].max()) == n_steps
            buffer.extend(data.reshape(-1))
            sample = buffer.sample()
            optimizer.zero_grad()
            loss(sample)["loss"].backward()
            optimizer.step()
            buffer.update_tensordict_priority(sample)
        collector.shutdown()
        learnt(before, net[0].weight.detach().numpy())
        refreshed(sampler, strategy)

    check_row("TorchRL `DQNLoss`", trial, "1NV")

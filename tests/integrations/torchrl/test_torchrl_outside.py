"""Strategies from outside the package, in NumPy, behind TorchRL's collector, loss and buffer."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from torchrl.collectors import Collector, RandomPolicy
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss

from sibling_replay.integrations.torchrl import SiblingSampler
from support.outside import STARTS, UNSIGNED, check_newcomer, check_refused, check_trained, watch

STEPS, CAPACITY = 800, 1_000  # nothing is overwritten
UPDATES = STEPS // 2


@pytest.fixture
def watched(monkeypatch):
    return watch(monkeypatch)


class Training:
    """A DQN on FrozenLake, one-hot, whose states repeat."""

    def __init__(self, strategy) -> None:
        torch.manual_seed(0)
        lake = gym.wrappers.FlattenObservation(gym.make("FrozenLake-v1"))
        lake = gym.wrappers.DtypeObservation(lake, np.float32)
        self.env = GymWrapper(lake, categorical_action_encoding=True)
        self.env.set_seed(0)
        network = MLP(16, 4, num_cells=[32])
        actor = QValueActor(network, in_keys=["observation"], spec=self.env.action_spec)
        self.loss = DQNLoss(actor, delay_value=False)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=1e-3)
        self.strategy = strategy

    def new_buffer(self) -> TensorDictReplayBuffer:
        sampler = SiblingSampler(CAPACITY, self.strategy, loss=self.loss, seed=1)
        return TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), sampler=sampler)

    def parameters(self) -> torch.Tensor:
        return torch.nn.utils.parameters_to_vector(self.loss.parameters()).detach().clone()

    def update(self, buffer) -> None:
        sample = buffer.sample(32)
        self.optimizer.zero_grad()
        self.loss(sample)["loss"].backward()
        self.optimizer.step()
        buffer.update_tensordict_priority(sample)

    def run(self) -> TensorDictReplayBuffer:
        buffer, before = self.new_buffer(), self.parameters()
        collector = Collector(
            self.env, RandomPolicy(self.env.action_spec), frames_per_batch=20, total_frames=STEPS
        )
        for data in collector:
            buffer.extend(data)
            for _ in range(20 * UPDATES // STEPS):
                self.update(buffer)
        collector.shutdown()
        assert not torch.equal(self.parameters(), before)
        ok, why = slots_of(buffer).check_valid()
        assert ok, why
        assert len(buffer) == STEPS and buffer.sampler.unmatched_updates == 0
        return buffer


def slots_of(buffer):
    return buffer.sampler.replay.sampler


@pytest.mark.parametrize("name", UNSIGNED)
def test_an_outside_strategy_trains_and_draws_by_its_law(name, watched):
    buffer = Training(UNSIGNED[name]).run()
    assert len(watched.batches) == UPDATES
    stored = buffer[:]
    states, actions = stored["observation"].argmax(dim=1).tolist(), stored["action"].tolist()
    check_trained(
        UNSIGNED[name],
        dict(enumerate(zip(states, actions, strict=True))),
        watched,
        slots_of(buffer).probabilities().outcome,
        lambda: int(buffer.sample(1)["index"]),
    )


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("through", ["state_dict", "dumps", "pickle"])
def test_a_loaded_buffer_goes_on_training_where_it_was(name, through, tmp_path):
    training = Training(UNSIGNED[name])
    buffer = training.run()
    if through == "pickle":
        twin = pickle.loads(pickle.dumps(buffer))
    else:
        twin = training.new_buffer()
        if through == "state_dict":
            twin.load_state_dict(copy.deepcopy(buffer.state_dict()))
        else:
            buffer.dumps(tmp_path / "buffer")
            twin.loads(tmp_path / "buffer")
    start = copy.deepcopy((training.loss.state_dict(), training.optimizer.state_dict()))
    ends = []
    for each in (buffer, twin):
        training.loss.load_state_dict(start[0])
        training.optimizer.load_state_dict(copy.deepcopy(start[1]))
        for _ in range(25):
            training.update(each)
        ends.append((training.parameters(), slots_of(each).probabilities().outcome))
    assert torch.equal(ends[0][0], ends[1][0]) and np.array_equal(ends[0][1], ends[1][1])


@pytest.mark.parametrize("initial", STARTS)
def test_newcomers_start_as_the_strategy_says(initial, watched):
    buffer = Training(STARTS[initial]).run()
    added = buffer.add(buffer[0].exclude("index"))
    buffer.sample(32)  # reads what was written
    sampler = slots_of(buffer)
    masses = sampler.masses[sampler.live_slots]
    check_newcomer(STARTS[initial], watched, masses, added, sampler.max_priority)


def test_what_torchrl_cannot_give_is_refused():
    def make(strategy):
        return SiblingSampler(8, strategy, errors="squared")

    check_refused("TorchRL", make, gives=set())

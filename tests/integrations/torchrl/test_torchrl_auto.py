"""Maps given unfitted to our TorchRL sampler: CartPole, whose observations never repeat."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import Collector, RandomPolicy
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import RandomSampler
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss
from torchrl_kit import entries

from sibling_replay import SiblingSample, Uniform
from sibling_replay.grouping import Auto, Grid, KMeans, SimHash
from sibling_replay.integrations.torchrl import SiblingSampler
from support.fitted_maps import check_chosen, check_groups, check_same, check_sibling_sample

STEPS, CAPACITY = 2_400, 8_000
MAPS = {"auto": Auto(fit_after=1_000), "grid": Grid(4), "hash": SimHash(6), "means": KMeans(16)}


class Training:
    """A DQN on CartPole; actions are whole numbers, or stored one-hot."""

    def __init__(self, key, one_hot: bool = False) -> None:
        torch.manual_seed(0)
        self.env = GymWrapper(gym.make("CartPole-v1"), categorical_action_encoding=not one_hot)
        self.env.set_seed(0)
        network = MLP(4, 2, num_cells=[32])
        actor = QValueActor(network, in_keys=["observation"], spec=self.env.action_spec)
        self.loss = DQNLoss(actor, delay_value=False)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=1e-3)
        self.key, self.one_hot = key, one_hot

    def new_buffer(self) -> TensorDictReplayBuffer:
        sampler = SiblingSampler(
            CAPACITY,
            SiblingSample(alpha=0.6),
            loss=self.loss,
            key=self.key,
            action_spec=self.env.action_spec,
            seed=1,
        )
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
        buffer = self.new_buffer()
        collector = Collector(
            self.env, RandomPolicy(self.env.action_spec), frames_per_batch=40, total_frames=STEPS
        )
        for data in collector:
            buffer.extend(data)
            for _ in range(4):
                self.update(buffer)
        collector.shutdown()
        assert buffer.sampler.unmatched_updates == 0
        return buffer

    def stored(self, buffer) -> tuple[np.ndarray, np.ndarray]:
        held = buffer[:]
        actions = held["action"].argmax(-1) if self.one_hot else held["action"]
        return held["observation"].numpy(), actions.numpy()


def test_auto_as_it_is():
    training = Training(Auto())
    buffer = training.run()
    check_chosen(buffer.sampler.replay)
    check_groups(buffer.sampler.replay, *training.stored(buffer))
    share = buffer.sampler.support().groups_per_entry
    assert f"(G/N {share:.4f})" in repr(buffer.sampler)


def test_without_a_key_it_says_that_it_corrects_nothing():
    with pytest.warns(UserWarning, match=r"does nearly what Prioritized does.*key=Auto\(\)"):
        training = Training(None)
        buffer = training.run()
        for _ in range(40):  # so that 1,000 draws were looked at
            training.update(buffer)
    assert buffer.sampler.support().groups_per_entry > 0.99
    assert "(G/N 1.0000)" in repr(buffer.sampler)


@pytest.mark.parametrize("key", MAPS.values(), ids=MAPS)
def test_groups_form_and_are_drawn_by_their_law(key):
    training = Training(key)
    buffer = training.run()
    replay, stored = buffer.sampler.replay, training.stored(buffer)
    check_groups(replay, *stored)
    check_sibling_sample(replay, *stored, lambda size: buffer.sample(size)["index"].numpy())
    support = buffer.sampler.support()
    assert support.entries == STEPS and support.groups_per_entry < 0.15
    assert not key.fitted
    if isinstance(key, Auto):
        assert [choice.entries for choice in replay.key_choices] == [1_000, 2_000]
        assert support.key.endswith(f"chosen by {key!r}") and support.reason


def test_actions_that_are_stored_one_hot():
    training = Training(Auto(fit_after=1_000), one_hot=True)
    buffer = training.run()
    assert buffer[:]["action"].shape == (STEPS, 2)
    check_groups(buffer.sampler.replay, *training.stored(buffer))


@pytest.mark.parametrize("grown", [False, True], ids=["awaited", "fitted"])
@pytest.mark.parametrize("through", ["state_dict", "torch.save", "dumps", "pickle"])
def test_a_loaded_buffer_goes_on_where_it_was(through, grown, tmp_path):
    """The same entries lead to the same fit, and to the same updates of the network."""
    training = Training(Auto(fit_after=1_000 if grown else STEPS + 500))
    buffer = training.run()
    if through == "pickle":
        twin = pickle.loads(pickle.dumps(buffer))
    else:
        twin = training.new_buffer()
        if through == "state_dict":
            twin.load_state_dict(copy.deepcopy(buffer.state_dict()))
        elif through == "torch.save":
            torch.save(buffer.sampler.state_dict(), tmp_path / "sampler.pt")
            twin.load_state_dict(
                {**buffer.state_dict(), "_sampler": torch.load(tmp_path / "sampler.pt")}
            )
        else:
            buffer.dumps(tmp_path / "buffer")
            twin.loads(tmp_path / "buffer")
    assert len(buffer.sampler.replay.key_choices) == 2 * grown
    check_same(twin.sampler.replay, buffer.sampler.replay)
    more = buffer[:].exclude("index").clone()
    more["observation"] += 0.01 * torch.randn(more["observation"].shape)
    start = copy.deepcopy((training.loss.state_dict(), training.optimizer.state_dict()))
    ends = []
    for each in (buffer, twin):
        training.loss.load_state_dict(start[0])
        training.optimizer.load_state_dict(copy.deepcopy(start[1]))
        each.extend(more)
        for _ in range(10):
            training.update(each)
        ends.append(training.parameters())
    assert len(buffer.sampler.replay.key_choices) == 1 + 2 * grown
    check_same(twin.sampler.replay, buffer.sampler.replay)
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        (Grid(3, dims=(0, 7)), 0.0, "7"),
        (Auto(), np.nan, "observations must be finite: dimension 0"),
    ],
)
def test_what_a_map_cannot_be_fitted_to_is_refused_at_the_first_sample(key, value, match):
    sampler = SiblingSampler(100, SiblingSample(), errors="absolute", key=key)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler)
    buffer.extend(entries(np.full(10, value), np.zeros(10, dtype=np.int64)))
    with pytest.raises(ValueError, match=match):
        buffer.sample(4)


def test_observations_of_several_parts_are_named():
    data = entries(np.arange(10.0), np.zeros(10, dtype=np.int64))
    data["observation"] = TensorDict({"a": torch.zeros(10, 2), "b": torch.ones(10)}, [10])
    sampler = SiblingSampler(100, SiblingSample(), errors="absolute", key=Auto())
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler)
    buffer.extend(data)
    with pytest.raises(TypeError, match=r"'observation' has several parts, a, b: .* CatTensors"):
        buffer.sample(4)


def test_uniform_stays_the_stock_sampler():
    with pytest.warns(UserWarning, match="Uniform draws without groups"):
        ours = SiblingSampler(100, Uniform(), key=Auto(fit_after=10))
    drawn = []
    for sampler in (ours, RandomSampler()):
        torch.manual_seed(4)
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler)
        buffer.extend(entries(np.arange(60), np.zeros(60, dtype=np.int64)))
        drawn.append(buffer.sample(32)["index"])
    assert torch.equal(*drawn)

"""Our sampler behind TorchRL's own calls: draws, weights, groups, storages, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchrl.data import (
    Bounded,
    Categorical,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    OneHot,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler, prioritized
from torchrl_kit import BETA, CAPACITY, entries, fill, new_buffer, slots_of

from sibling_replay import (
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.integrations.torchrl import SiblingSampler
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.host_draws import HOST_STRATEGIES, Halves, missing_host_message, weights_of

DRAWS = 6_000


strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


@strategies
def test_samples_follow_the_law(strategy):
    buffer = fill(new_buffer(strategy))
    ok, why = slots_of(buffer).check_valid()
    assert ok, why
    law = slots_of(buffer).probabilities().outcome
    assert law.max() > 3 * law.min() > 0
    draws = [int(buffer.sample(1)["index"]) for _ in range(DRAWS)]
    check_draws(draws, law)
    with pytest.raises(LawRejected):
        check_draws((np.array(draws) + 1) % CAPACITY, law)


@strategies
def test_samples_and_weights(strategy):
    buffer = fill(new_buffer(strategy))
    stored = buffer[:]
    for _ in range(5):
        sample = buffer.sample(16)
        index = sample["index"]
        assert torch.equal(sample["observation"], stored["observation"][index])
        assert torch.equal(sample["next", "reward"], stored["next", "reward"][index])
        expected = weights_of(slots_of(buffer), index.numpy(), BETA)
        np.testing.assert_allclose(sample["priority_weight"].numpy(), expected, rtol=2e-6)
    buffer.sampler.beta = 0.0
    assert (buffer.sample(16)["priority_weight"] == 1.0).all()


def test_siblings_are_equal_observations_and_actions():
    buffer = fill(new_buffer(SiblingSample()))
    stored, groups = buffer[:], slots_of(buffer).groups
    keys = list(zip(stored["observation"].tolist(), stored["action"].tolist(), strict=True))
    for i, mine in enumerate(keys):
        for j, theirs in enumerate(keys):
            assert (mine == theirs) == (groups[i] == groups[j])


def test_a_storage_filled_before_is_read_whole():
    storage = LazyTensorStorage(CAPACITY)
    ReplayBuffer(storage=storage).extend(entries([1, 1, 2], [0, 0, 1]))
    for strategy in (Prioritized(), SiblingSample()):
        buffer = TensorDictReplayBuffer(
            storage=storage,
            sampler=SiblingSampler(CAPACITY, strategy, seed=0, errors="squared"),
            batch_size=9,
        )
        assert set(buffer.sample()["index"].tolist()) <= {0, 1, 2}
        assert slots_of(buffer).live_slots.tolist() == [0, 1, 2]


def same_groups(buffer) -> None:
    """Siblings are what is equal in the storage as it is now."""
    buffer.sample()
    stored, groups = buffer[:], slots_of(buffer).groups
    keys = list(zip(stored["observation"].tolist(), stored["action"].tolist(), strict=True))
    for i, mine in enumerate(keys):
        for j, theirs in enumerate(keys):
            assert (mine == theirs) == (groups[i] == groups[j])


def without_index(items):
    """Entries through the writer carry an index, replaced ones do not."""
    return torch.stack([item.exclude("index") for item in items])


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyStackStorage, ListStorage])
def test_entries_replaced_in_place_join_their_new_group(storage):
    """`buffer[i] = td` tells no sampler, alone or beside writes that do."""
    buffer = TensorDictReplayBuffer(
        storage=storage(CAPACITY),
        sampler=SiblingSampler(CAPACITY, SiblingSample(alpha=1.0), seed=0, errors="absolute"),
        batch_size=64,
        collate_fn=without_index if storage is ListStorage else None,
    )
    buffer.extend(entries(np.arange(12) % 3, np.zeros(12, dtype=np.int64)))
    same_groups(buffer)
    sample = buffer.sample()
    buffer.update_priority(sample["index"], torch.full((64,), 4.0))
    refreshed_slots = np.unique(sample["index"])
    buffer[0] = entries([1], [0])[0]
    same_groups(buffer)
    masses = slots_of(buffer).masses
    assert masses[0] == pytest.approx(4.0 + 1e-6)  # as new; others keep their priority
    np.testing.assert_allclose(masses[refreshed_slots], 4.0 + 1e-6)
    buffer[1] = entries([2], [1])[0]
    buffer.extend(entries([1, 2], [1, 1]))
    buffer[torch.tensor([4, 5])] = entries([9, 9], [0, 0])
    same_groups(buffer)
    buffer.add(entries([9], [0])[0])
    buffer[3] = entries([9], [0])[0]
    same_groups(buffer)
    assert len(slots_of(buffer)) == 15
    ok, why = slots_of(buffer).check_valid()
    assert ok, why


def test_a_storage_partly_filled_before_is_read_whole():
    storage = LazyTensorStorage(CAPACITY)
    ReplayBuffer(storage=storage).extend(entries([1, 1, 2], [0, 0, 1]))
    buffer = TensorDictReplayBuffer(
        storage=storage,
        sampler=SiblingSampler(CAPACITY, SiblingSample(), errors="absolute"),
        batch_size=4,
    )
    ReplayBuffer(storage=storage)[1] = entries([2], [1])[0]
    buffer.sample()
    buffer.add(entries([5], [0])[0])
    same_groups(buffer)


def test_emptied_buffers_forget():
    buffer = fill(new_buffer(SiblingSample()))
    buffer.empty()
    with pytest.raises((ValueError, RuntimeError), match="empty"):
        buffer.sample(8)
    buffer.extend(entries([1], [0]))
    assert buffer.sample(8)["index"].tolist() == [0] * 8


def test_a_writer_that_keeps_the_best():
    """It chooses slots itself and declines some entries."""
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(5),
        sampler=SiblingSampler(5, SiblingSample(), seed=0, errors="squared"),
        writer=TensorDictMaxValueWriter(rank_key=("next", "reward")),
        batch_size=32,
    )
    rng = np.random.default_rng(0)
    for _ in range(10):
        buffer.extend(entries(rng.integers(0, 3, 4), rng.integers(0, 2, 4), rng.normal(size=4)))
        sample = buffer.sample()
        sample["td_error"] = torch.as_tensor(rng.exponential(size=32))
        buffer.update_tensordict_priority(sample)
    stored, groups = buffer[:], slots_of(buffer).groups
    keys = list(zip(stored["observation"].tolist(), stored["action"].tolist(), strict=True))
    for i, mine in enumerate(keys):
        for j, theirs in enumerate(keys):
            assert (mine == theirs) == (groups[i] == groups[j])


def test_keys_elsewhere_and_key_functions():
    buffer = new_buffer(SiblingSample(), observation_key=("next", "observation"))
    buffer.extend(entries([1, 1, 2], [0, 0, 0]))
    buffer.sample(8)
    groups = slots_of(buffer).groups
    assert groups[0] == groups[1] != groups[2]
    keyed = new_buffer(SiblingSample(), key=lambda obs, action: int(obs[0]) // 2)
    keyed.extend(entries([2, 3, 4, 2], [0, 0, 0, 1]))
    keyed.sample(8)
    groups = slots_of(keyed).groups
    assert groups[0] == groups[1]
    assert len(set(groups[:4].tolist())) == 3, "siblings share their action"


@pytest.mark.parametrize("kind", ["one-hot", "categorical", "a column"])
def test_a_key_map_defines_siblings_by_one_call_a_write(kind):
    """A discrete action is a whole number, however it is stored."""
    spec, actions = {
        "one-hot": (OneHot(3), torch.eye(3, dtype=torch.int64)[[0, 0, 0, 1]]),
        "categorical": (Categorical(3), torch.tensor([0, 0, 0, 1])),
        "a column": (Categorical(3), torch.tensor([0, 0, 0, 1])[:, None]),
    }[kind]
    key = Halves()
    buffer = new_buffer(SiblingSample(), key=key, action_spec=spec)
    buffer.extend(entries([2, 3, 4, 2], actions))
    buffer.sample(8)
    first = (np.ndarray, (4, 1), np.ndarray, (4,), np.dtype(np.int64))
    assert key.seen[0] == first and len(key.seen) <= 2  # once more where all is looked at
    assert slots_of(buffer).groups[:4].tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("kind", ["one-hot", "categorical", "a column", "continuous"])
def test_a_key_function_gets_one_observation_and_one_action(kind):
    """As `ReplayBuffer` hands them over: a NumPy scalar of a discrete action, else arrays."""
    spec, actions = {
        "one-hot": (OneHot(3), torch.eye(3, dtype=torch.int64)),
        "categorical": (Categorical(3), torch.arange(3)),
        "a column": (Categorical(3), torch.arange(3)[:, None]),
        "continuous": (Bounded(0.0, 2.0, (1,)), torch.arange(3.0)[:, None]),
    }[kind]
    seen = []

    def key(obs, action):
        seen.append((obs, action))
        return 0

    buffer = new_buffer(SiblingSample(), key=key, action_spec=spec)
    buffer.extend(entries([5, 6, 7], actions))
    buffer.sample(2)
    for i, (obs, action) in enumerate(seen[:3]):
        assert type(obs) is np.ndarray and obs.tolist() == [5.0 + i]
        if kind == "continuous":
            assert type(action) is np.ndarray and action.tolist() == [float(i)]
        else:
            assert type(action) is np.int64 and action == i


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        (SiblingSample(), {"errors": None}, r"squared .* others absolute ones: give loss=\.\.\."),
        (SiblingSample(), {"loss": object()}, "not both"),
        (SiblingAverage(), {}, "TorchRL computes each target itself"),
        (SiblingModel(), {"key": lambda obs, action: 0}, "SiblingModel with a key function"),
        (SiblingSample(), {"beta": 1.5}, "beta"),
        (SiblingSample(), {"errors": "signed"}, "errors"),
    ],
)
def test_what_cannot_be_expressed_is_refused(strategy, options, message):
    with pytest.raises(ValueError, match=message):
        SiblingSampler(8, strategy, **{"errors": "squared", **options})


def test_a_missing_observation_names_the_option():
    buffer = new_buffer(SiblingSample())
    new = entries([1, 2], [0, 0])
    new["pixels"] = new.pop("observation")
    buffer.extend(new)
    with pytest.raises(KeyError, match=r"no 'observation', only .*'pixels'.*observation_key"):
        buffer.sample(2)


def test_observations_that_numpy_cannot_hold_are_grouped():
    buffer = new_buffer(SiblingSample())
    new = entries([1, 1, 2], [0, 0, 0])
    new["observation"] = new["observation"].bfloat16()
    buffer.extend(new)
    buffer.sample(2)
    groups = slots_of(buffer).groups
    assert groups[0] == groups[1] != groups[2]


def test_storages_that_do_not_fit_are_refused():
    small = TensorDictReplayBuffer(
        storage=LazyTensorStorage(9),
        sampler=SiblingSampler(8, Prioritized(), errors="squared"),
        batch_size=2,
    )
    small.extend(entries([1], [0]))
    with pytest.raises(ValueError, match="at most 8 slots"):
        small.sample()
    plain = ReplayBuffer(
        storage=ListStorage(8),
        sampler=SiblingSampler(8, SiblingSample(), errors="squared"),
        batch_size=2,
    )
    plain.extend([1, 2, 3])
    with pytest.raises(TypeError, match="tensordicts"):
        plain.sample()


def test_it_needs_no_compiled_extension(monkeypatch):
    """As in an environment whose torch does not load it: the stock sampler cannot be made."""
    for name in ("SumSegmentTreeFp32", "MinSegmentTreeFp32"):
        monkeypatch.setattr(prioritized, name, None)
    with pytest.raises(RuntimeError, match="not available"):
        PrioritizedSampler(8, alpha=0.6, beta=0.4)
    assert len(fill(new_buffer(SiblingSample()))) == CAPACITY


def test_uniform_draws_what_the_stock_sampler_draws():
    samples = []
    for sampler in (SiblingSampler(CAPACITY, Uniform()), RandomSampler()):
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(CAPACITY), sampler=sampler, batch_size=16
        )
        buffer.set_rng(torch.Generator().manual_seed(3))
        buffer.extend(entries(np.arange(30), np.zeros(30, dtype=np.int64)))
        drawn = []
        for _ in range(5):
            sample = buffer.sample()
            assert "priority_weight" not in sample.keys()
            sample["td_error"] = torch.ones(16)
            buffer.update_tensordict_priority(sample)
            drawn.append(sample["index"])
        samples.append(torch.stack(drawn))
    assert torch.equal(*samples)


def test_a_missing_host_names_the_extra():
    assert "sibling-replay[torchrl]" in missing_host_message("torchrl", "torchrl")

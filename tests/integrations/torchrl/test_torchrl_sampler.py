"""Our sampler behind TorchRL's own calls: draws, weights, refreshes, saving, refusals."""

from __future__ import annotations

import copy
import pickle

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
from torchrl_kit import entries, make_env, make_loss

from sibling_replay import (
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.integrations.torchrl import SiblingSampler
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.host_draws import HOST_STRATEGIES, Halves, missing_host_message, refreshed, weights_of

DRAWS = 6_000
BETA = 0.7
CAPACITY = 40

strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


def new_buffer(strategy, batch_size: int | None = None, **options) -> TensorDictReplayBuffer:
    prefetch = options.pop("prefetch", None)
    options.setdefault("errors", "squared")
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(CAPACITY),
        sampler=SiblingSampler(CAPACITY, strategy, BETA, **{"seed": 1, **options}),
        batch_size=batch_size,
        prefetch=prefetch,
    )


def fill(buffer, steps: int = 60, seed: int = 0) -> TensorDictReplayBuffer:
    """Single and several entries at a time, through several turns, refreshed in between."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        count = int(rng.integers(1, 4))
        new = entries(rng.geometric(0.4, count), rng.integers(0, 2, count), rng.normal(size=count))
        if step % 2:
            buffer.extend(new)
        else:
            buffer.add(new[0])
        sample = buffer.sample(8)
        sample["td_error"] = torch.as_tensor(np.exp(2 * rng.standard_normal(len(sample))))
        buffer.update_tensordict_priority(sample)
    buffer.sample(8)  # reads what was written last
    return buffer


def slots_of(buffer):
    return buffer.sampler.replay.sampler


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


def test_dqn_loss_writes_squares_and_priorities_are_absolute():
    """Values start at zero and the episodes end, so that each TD error is the reward."""
    buffer = new_buffer(Prioritized(alpha=0.8), batch_size=64)
    rewards = np.random.default_rng(0).normal(size=CAPACITY).astype(np.float32)
    new = entries(np.arange(CAPACITY), np.arange(CAPACITY) % 2, rewards)
    new["next", "terminated"][:] = new["next", "done"][:] = True
    buffer.extend(new)
    loss, _ = make_loss(make_env())
    sample = buffer.sample()
    masses = slots_of(buffer).masses
    loss(sample)
    index = sample["index"].numpy()
    np.testing.assert_allclose(sample["td_error"].numpy().ravel(), rewards[index] ** 2, rtol=1e-6)
    buffer.update_tensordict_priority(sample)
    expected = refreshed(masses, index, rewards[index], 0.8)
    np.testing.assert_allclose(slots_of(buffer).masses, expected, rtol=1e-6)
    assert slots_of(buffer).max_priority == pytest.approx(
        max(1.0, np.abs(rewards[index]).max() + 1e-6)
    )


def test_the_drawn_slots_are_refreshed_and_the_last_duplicate_stays():
    buffer = fill(new_buffer(SiblingSample(alpha=0.8), errors="absolute"))
    masses = slots_of(buffer).masses
    sample = buffer.sample(64)
    index = sample["index"].numpy()
    assert len(set(index.tolist())) < 64
    errors = np.random.default_rng(2).exponential(size=64)
    buffer.update_priority(sample["index"], torch.as_tensor(errors))
    expected = refreshed(masses, index, errors, 0.8)
    np.testing.assert_allclose(slots_of(buffer).masses, expected, rtol=1e-11)


def test_model_refreshes_the_anchor_not_the_slot_of_the_outcome():
    buffer = fill(new_buffer(SiblingModel(alpha=0.8), errors="absolute"))
    masses = slots_of(buffer).masses
    sample = buffer.sample(16)
    index, anchors = sample["index"].numpy(), buffer.sampler.replay._open.rows()[-16:, 3]
    groups = slots_of(buffer).groups
    assert (anchors != index).any() and np.array_equal(groups[anchors], groups[index])
    errors = np.linspace(0.0, 2.0, 16)
    buffer.update_priority(sample["index"], torch.as_tensor(errors))
    np.testing.assert_allclose(
        slots_of(buffer).masses, refreshed(masses, anchors, errors, 0.8), rtol=1e-11
    )


def test_draws_made_ahead_are_refreshed_as_drawn():
    """With prefetching a sample is older than others by the time its errors come."""
    buffer = new_buffer(Prioritized(alpha=1.0), batch_size=8, errors="absolute", prefetch=3)
    buffer.extend(entries(np.arange(CAPACITY), np.zeros(CAPACITY, dtype=np.int64)))
    for step in range(20):
        sample = buffer.sample()
        buffer.update_priority(sample["index"], torch.full((8,), 2.0 + step, dtype=torch.double))
        np.testing.assert_allclose(slots_of(buffer).masses[sample["index"]], 2.0 + step + 1e-6)


def new_entries(count: int = CAPACITY):
    return entries(np.arange(count), np.zeros(count, dtype=np.int64))


def test_a_large_sample_may_be_refreshed_in_parts():
    buffer = new_buffer(Prioritized(alpha=1.0), errors="absolute")
    buffer.extend(new_entries())
    sample = buffer.sample(64)
    sample["td_error"] = 2.0 + sample["index"].double()
    for part in sample.split(16):
        buffer.update_tensordict_priority(part)
    index = sample["index"].numpy()
    np.testing.assert_allclose(slots_of(buffer).masses[index], 2.0 + index + 1e-6)
    assert buffer.sampler.unmatched_updates == 0


def test_samples_stacked_together_are_refreshed():
    buffer = new_buffer(Prioritized(alpha=1.0), errors="absolute")
    buffer.extend(new_entries())
    samples = torch.stack([buffer.sample(8) for _ in range(4)])
    buffer.update_priority(samples["index"], 2.0 + samples["index"].double())
    index = samples["index"].flatten().numpy()
    np.testing.assert_allclose(slots_of(buffer).masses[index], 2.0 + index + 1e-6)
    assert buffer.sampler.unmatched_updates == 0


@pytest.mark.parametrize("through", ["state_dict", "dumps", "pickle"])
def test_samples_made_ahead_are_refreshed_after_a_restore(through, tmp_path):
    """TorchRL saves the samples that it has prefetched, and hands them out after loading."""

    def make(seed: int):
        return new_buffer(
            Prioritized(alpha=1.0), batch_size=8, errors="absolute", prefetch=3, seed=seed
        )

    buffer = make(1)
    buffer.extend(new_entries())
    late = buffer.sample()
    if through == "pickle":
        twin = pickle.loads(pickle.dumps(buffer))
    else:
        twin = make(2)
        twin.extend(new_entries())
        old = twin.sample()  # of what the twin held before
        if through == "state_dict":
            twin.load_state_dict(buffer.state_dict())
        else:
            buffer.dumps(tmp_path / "buffer")
            twin.loads(tmp_path / "buffer")
        before = slots_of(twin).masses
        twin.update_priority(old["index"], torch.full((8,), 99.0))
        assert twin.sampler.unmatched_updates == 8
        assert np.array_equal(slots_of(twin).masses, before)
    unmatched = twin.sampler.unmatched_updates
    for step in range(6):  # three from the queue, then new ones
        sample = twin.sample()
        twin.update_priority(sample["index"], torch.full((8,), 2.0 + step))
        np.testing.assert_allclose(slots_of(twin).masses[sample["index"]], 2.0 + step + 1e-6)
    twin.update_priority(late["index"], torch.full((8,), 50.0))  # drawn before the state was taken
    np.testing.assert_allclose(slots_of(twin).masses[late["index"]], 50.0 + 1e-6)
    assert twin.sampler.unmatched_updates == unmatched


def test_samples_from_before_the_buffer_was_emptied_refresh_nothing():
    buffer = new_buffer(Prioritized(alpha=1.0), batch_size=8, errors="absolute", prefetch=2)
    buffer.extend(new_entries())
    samples = [buffer.sample() for _ in range(3)]
    buffer.synchronize()  # samples still to be made would find nothing
    buffer.empty()
    buffer.update_priority(samples[0]["index"], torch.full((8,), 7.0))
    buffer.extend(new_entries())
    for sample in samples[1:]:
        buffer.update_priority(sample["index"], torch.full((8,), 7.0))
    assert (slots_of(buffer).masses == 1.0).all() and buffer.sampler.unmatched_updates == 24
    for _ in range(4):  # the queue still holds samples of what was there
        sample = buffer.sample()
        buffer.update_priority(sample["index"], torch.full((8,), 3.0))
    np.testing.assert_allclose(slots_of(buffer).masses[sample["index"]], 3.0 + 1e-6)


def test_priorities_for_entries_that_were_not_sampled_are_dropped_and_counted():
    buffer = fill(new_buffer(Prioritized()))
    buffer.update_priority(buffer.sampler.replay._open.rows()[:, 2], torch.ones(8))  # the last
    masses = slots_of(buffer).masses
    with pytest.warns(UserWarning, match="2 TD errors were dropped.*TorchRL sampled"):
        buffer.update_priority(torch.tensor([0, 1]), torch.ones(2))
    assert buffer.sampler.unmatched_updates == 2
    assert np.array_equal(masses, slots_of(buffer).masses)


def test_errors_of_overwritten_entries_are_dropped():
    buffer = new_buffer(Prioritized(alpha=1.0), errors="absolute")
    buffer.extend(entries(np.arange(CAPACITY), np.zeros(CAPACITY, dtype=np.int64)))
    sample = buffer.sample(8)
    buffer.extend(entries(np.arange(CAPACITY), np.zeros(CAPACITY, dtype=np.int64))[:30])
    index = sample["index"].numpy()
    sample["td_error"] = torch.full((8,), 5.0)
    buffer.update_tensordict_priority(sample)
    assert slots_of(buffer).dropped_updates == (index < 30).sum() > 0
    assert (slots_of(buffer).masses[index[index < 30]] == 1.0).all()
    np.testing.assert_allclose(slots_of(buffer).masses[index[index >= 30]], 5.0 + 1e-6)


def test_new_entries_get_the_largest_priority_whatever_they_bring():
    buffer = new_buffer(Prioritized(alpha=1.0), errors="absolute")
    buffer.add(entries([1], [0])[0])
    sample = buffer.sample(1)
    buffer.update_priority(sample["index"], torch.tensor([3.0]))
    new = entries([1, 2], [0, 0])
    new["td_error"] = torch.tensor([100.0, 200.0])
    buffer.extend(new)
    buffer.add(entries([4], [0])[0])
    buffer.sample(1)
    np.testing.assert_allclose(slots_of(buffer).masses[:4], 3.0 + 1e-6)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_errors_change_nothing(bad):
    buffer = fill(new_buffer(Prioritized()))
    masses = slots_of(buffer).masses
    sample = buffer.sample(8)
    sample["td_error"] = torch.tensor([1.0] * 7 + [bad])
    with pytest.raises(ValueError, match="TD error"):
        buffer.update_tensordict_priority(sample)
    assert np.array_equal(masses, slots_of(buffer).masses)


@strategies
@pytest.mark.parametrize("through", ["state_dict", "dumps", "pickle"])
def test_a_loaded_buffer_goes_on_where_it_was(strategy, through, tmp_path):
    """Entries that were written but never sampled from yet included."""
    buffer = fill(new_buffer(strategy))
    buffer.extend(entries([7, 8], [0, 1]))
    if through == "pickle":
        twin = pickle.loads(pickle.dumps(buffer))
    else:
        twin = new_buffer(strategy)
        if through == "state_dict":
            twin.load_state_dict(copy.deepcopy(buffer.state_dict()))
        else:
            buffer.dumps(tmp_path / "buffer")
            twin.loads(tmp_path / "buffer")
    for step in range(5):
        for each in (buffer, twin):
            each.add(entries([step], [0])[0])
        ours, theirs = twin.sample(8), buffer.sample(8)
        for name in ("index", "priority_weight", "observation"):
            assert torch.equal(ours[name], theirs[name])
        for each, sample in ((twin, ours), (buffer, theirs)):
            sample["td_error"] = torch.full((8,), step + 1.0)
            each.update_tensordict_priority(sample)
        assert np.array_equal(slots_of(twin).masses, slots_of(buffer).masses)
    ok, why = slots_of(twin).check_valid()
    assert ok, why


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


def test_a_state_can_be_read_by_torch_load_as_it_is(tmp_path):
    buffer = fill(new_buffer(SiblingModel(alpha=0.8)))
    torch.save(buffer.sampler.state_dict(), tmp_path / "sampler.pt")
    twin = new_buffer(SiblingModel(alpha=0.8))
    twin.sampler.load_state_dict(torch.load(tmp_path / "sampler.pt"))
    assert np.array_equal(slots_of(twin).masses, slots_of(buffer).masses)
    twin._storage.load_state_dict(buffer._storage.state_dict())
    assert torch.equal(twin.sample(8)["index"], buffer.sample(8)["index"])


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

"""Our sampler behind TorchRL's own calls: TD errors that come back, late or in parts; saving."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torchrl_kit import CAPACITY, entries, fill, make_env, make_loss, new_buffer, slots_of

from sibling_replay import (
    Prioritized,
    SiblingModel,
    SiblingSample,
)
from support.host_draws import HOST_STRATEGIES, refreshed

strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


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


def test_a_state_can_be_read_by_torch_load_as_it_is(tmp_path):
    buffer = fill(new_buffer(SiblingModel(alpha=0.8)))
    torch.save(buffer.sampler.state_dict(), tmp_path / "sampler.pt")
    twin = new_buffer(SiblingModel(alpha=0.8))
    twin.sampler.load_state_dict(torch.load(tmp_path / "sampler.pt"))
    assert np.array_equal(slots_of(twin).masses, slots_of(buffer).masses)
    twin._storage.load_state_dict(buffer._storage.state_dict())
    assert torch.equal(twin.sample(8)["index"], buffer.sample(8)["index"])

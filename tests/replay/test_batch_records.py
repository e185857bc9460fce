"""Batches reuse memory that nobody holds. Whatever is held must never change."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest
import torch

from support.averaging import averaged
from support.scenes import STRATEGIES, fixed_buffer

COLUMNS = ("slots", "anchors", "weights", "obs", "reward", "next_obs", "terminated")


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_held_batch_is_never_overwritten(name):
    buffer = fixed_buffer(STRATEGIES[name]())
    held = []
    for _ in range(12):
        batch = buffer.sample(16)
        held.append((batch, {c: getattr(batch, c).copy() for c in COLUMNS}))
        for _ in range(3):
            buffer.sample(16)
    for batch, columns in held:
        for column, values in columns.items():
            assert np.array_equal(getattr(batch, column), values), column


@pytest.mark.parametrize(
    "view",
    [
        lambda batch: batch.slots,
        lambda batch: batch.slots[3:],
        lambda batch: batch.weights[::2],
        lambda batch: batch.obs.reshape(4, 4),
        lambda batch: batch.obs.view(np.uint8)[5:],
        lambda batch: np.asarray(memoryview(batch.reward)),
        lambda batch: np.frombuffer(batch.next_obs, dtype=np.int64),
        lambda batch: batch.anchors.T[np.newaxis].squeeze(),
        lambda batch: batch.record["groups"],
        lambda batch: copy.copy(batch).terminated,
    ],
)
def test_a_held_array_is_never_overwritten(view):
    """The batch is gone, an array made from one of its columns is not."""
    buffer = fixed_buffer(STRATEGIES["sample"]())
    held = []
    for _ in range(12):
        batch = buffer.sample(16)
        array = view(batch)
        held.append((array, array.copy()))
        del batch, array
        gc.collect(0)
    for array, values in held:
        assert np.array_equal(array, values)


def test_memory_is_reused_when_nobody_holds_it():
    """Else the tests above test nothing."""
    buffer = fixed_buffer(STRATEGIES["prioritized"]())
    addresses = set()
    for _ in range(20):
        addresses.add(buffer.sample(16).slots.ctypes.data)
    assert len(addresses) <= 3


def test_a_copy_is_its_own():
    buffer = fixed_buffer(STRATEGIES["sample"]())
    batch = buffer.sample(16)
    twin = copy.deepcopy(batch)
    slots = batch.slots.copy()
    batch.slots[:] = 0
    assert np.array_equal(twin.slots, slots)
    buffer.update_priorities(averaged(twin), np.ones(16))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_locked_column_is_not_handed_out_again(name):
    """`flags.writeable = False` is for whoever set it."""
    buffer = fixed_buffer(STRATEGIES[name]())
    columns = buffer.sample(16).columns
    for column in (*columns, *columns):
        getattr(buffer.sample(16), column).flags.writeable = False
    for _ in range(4):
        batch = buffer.sample(16)
        for column in columns:
            assert getattr(batch, column).flags.writeable, column
            getattr(batch, column)[:] = 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_tensors_are_copies_of_every_column(name):
    buffer = fixed_buffer(STRATEGIES[name]())
    batch = buffer.sample(16)
    outcomes = batch.outcomes
    found = batch.to_torch("cpu")
    assert set(found) == set(batch.columns) >= {"obs", "action", "weights", "slots", "groups"}
    of_outcomes = outcomes.to_torch()
    several = {"slots", "shares", "starts"} if outcomes is not batch else set()
    assert set(of_outcomes) == set(outcomes.columns) | several
    for block, tensors in ((batch, found), (outcomes, of_outcomes)):
        for column, tensor in tensors.items():
            array = getattr(block, column)
            assert isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu"
            assert np.array_equal(tensor.numpy(), array) and tensor.numpy().dtype == array.dtype
            assert not np.shares_memory(tensor.numpy(), array)


def test_tensors_outlive_their_batch():
    buffer = fixed_buffer(STRATEGIES["sample"]())
    found = buffer.sample(16).to_torch()
    before = {name: tensor.clone() for name, tensor in found.items()}
    for _ in range(5):
        buffer.sample(16)
    assert all(torch.equal(found[name], before[name]) for name in found)
    assert buffer.sample(16).to_torch("meta")["obs"].device.type == "meta"


def test_columns_cannot_be_replaced():
    """The next batch in this memory would have them."""
    buffer = fixed_buffer(STRATEGIES["sample"]())
    batch = buffer.sample(16)
    for column in batch.columns:
        with pytest.raises(AttributeError):
            setattr(batch, column, np.zeros(16))
        with pytest.raises(AttributeError):
            delattr(batch, column)


@pytest.mark.parametrize("name", STRATEGIES)
def test_single_precision_errors_are_widened(name):
    one, other = (fixed_buffer(STRATEGIES[name]()) for _ in range(2))
    for seed in range(4):
        errors = np.random.default_rng(seed).exponential(size=16).astype(np.float32)
        one.update_priorities(averaged(one.sample(16)), errors)
        other.update_priorities(averaged(other.sample(16)), errors.astype(np.float64))
    assert np.array_equal(one.masses, other.masses) and one.max_priority == other.max_priority

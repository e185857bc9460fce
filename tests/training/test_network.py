"""The compiled network against torch: autograd, gradient clipping and Adam, for many steps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sibling_replay.strategies.recipe import Recipe
from sibling_replay.training.initial import initial_layers
from sibling_replay.training.losses import loss_named
from sibling_replay.training.tabular.batch import OutcomeTable, TableBatch
from sibling_replay.training.tabular.learning import learn
from sibling_replay.training.tabular.network import all_values, new_network
from sibling_replay.training.tabular.rules import TableRule

torch = pytest.importorskip("torch")

SIZES = (9, 16, 16, 3)
ROWS = 8


def torch_network(layers: Any, dtype: Any) -> Any:
    modules = []
    for (fan_in, fan_out), (weight, bias) in zip(pairwise(SIZES), layers, strict=True):
        linear = torch.nn.Linear(fan_in, fan_out, dtype=dtype)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(weight))
            linear.bias.copy_(torch.as_tensor(bias))
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def random_batch(rng: np.random.Generator, dtype: Any, terms: int) -> TableBatch:
    """Rows with 1 to `terms` outcomes each, out of 40, in few groups: with repetitions."""
    counts = rng.integers(1, terms + 1, ROWS)
    starts = np.concatenate([[0], np.cumsum(counts)])
    shares = np.concatenate([rng.dirichlet(np.ones(n)) for n in counts])
    empty = np.zeros(0)
    return TableBatch(
        slots=empty.astype(np.int64),
        anchors=empty.astype(np.int64),
        outcome_slots=empty.astype(np.int64),
        groups=rng.integers(0, SIZES[0] * SIZES[-1], ROWS) // 2,
        group_sizes=empty.astype(np.int64),
        weights=rng.random(ROWS).astype(np.float32),
        td=np.zeros(ROWS, dtype),
        priorities=empty,
        masses=empty,
        starts=starts,
        outcomes=rng.integers(0, 40, len(shares)),
        shares=shares,
        siblings=empty.astype(np.int64),
        uniforms=empty,
        targets=np.zeros(ROWS, dtype),
        aside=np.zeros(ROWS, dtype),
        shift=np.zeros(ROWS, dtype),
        chosen=np.zeros(ROWS, np.int64),
    )


def targets_of(batch: TableBatch, outcomes: OutcomeTable, online: Any, frozen: Any) -> Any:
    """Share-weighted Double-DQN targets, row by row."""
    means = []
    for b in range(ROWS):
        total = 0.0
        for term in range(batch.starts[b], batch.starts[b + 1]):
            o = batch.outcomes[term]
            best = online[outcomes.next_state[o]].argmax()
            y = outcomes.reward[o] + outcomes.discount[o] * frozen[outcomes.next_state[o], best]
            total = total + batch.shares[term] * y
        means.append(total)
    return torch.stack(means)


@pytest.mark.parametrize("terms", [1, 4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 2e-3)])
@pytest.mark.parametrize("reward_scale", [1.0, 300.0])  # the gradient norm below and far above clip
def test_learning_follows_torch(
    dtype: Any, tolerance: float, terms: int, reward_scale: float
) -> None:
    """300 steps with a target copied every 50. Tolerance on values, relative to the largest."""
    rng = np.random.default_rng(5)
    layers = initial_layers(rng, SIZES)
    net = new_network(layers, 64, dtype)
    torch_dtype = torch.float64 if dtype is np.float64 else torch.float32
    reference = torch_network(layers, torch_dtype)
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-3)
    outcomes = OutcomeTable(
        next_state=rng.integers(0, SIZES[0], 40).astype(np.int32),
        reward=(reward_scale * rng.normal(size=40)).astype(np.float32).astype(dtype),
        discount=np.where(rng.random(40) < 0.3, 0.0, 0.9).astype(dtype),
        powers=np.ones(2, np.float32),
    )
    one_hot = torch.eye(SIZES[0], dtype=torch_dtype)
    frozen = reference(one_hot).detach()
    clipped = 0
    for step in range(1, 301):
        batch = random_batch(rng, dtype, terms)
        values = reference(one_hot)
        targets = targets_of(batch, outcomes, values.detach(), frozen)
        state, action = np.divmod(batch.groups, SIZES[-1])
        errors = targets - values[torch.as_tensor(state), torch.as_tensor(action)]
        optimizer.zero_grad()
        (torch.as_tensor(batch.weights) * errors**2).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 10.0)
        clipped += float(norm) > 10.0
        optimizer.step()

        learn(net, outcomes, batch, TableRule(Recipe()), loss_named("mse"), step, 1e-3, 10.0)
        scale = max(1.0, float(errors.detach().abs().max()))
        np.testing.assert_allclose(
            batch.td / scale, errors.detach().numpy() / scale, rtol=0, atol=tolerance
        )
        if step % 50 == 0:
            frozen = reference(one_hot).detach()
            all_values(net, net.target)
            compare(net.target, frozen.numpy(), tolerance)
    assert clipped == 300 if reward_scale > 1 else clipped < 150
    assert (net.row_of == -1).all()
    assert (net.grad_first == 0).all()


def compare(values: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=tolerance)


def test_initial_law_is_torch_linear() -> None:
    """Uniform on +-1/sqrt(fan_in), weights and biases."""
    for (weight, bias), fan_in in zip(
        initial_layers(np.random.default_rng(0), (400, 500, 400)), (400, 500), strict=True
    ):
        bound = fan_in**-0.5
        assert np.abs(weight).max() <= bound
        assert np.abs(bias).max() <= bound
        assert weight.var() == pytest.approx(bound**2 / 3, rel=0.01)
        assert weight.dtype == np.float32


def test_values_do_not_depend_on_the_workspace() -> None:
    """A table is the same in one pass and in passes of two rows."""
    layers = initial_layers(np.random.default_rng(1), SIZES)
    wide, narrow = new_network(layers, 64), new_network(layers, 2)
    np.testing.assert_allclose(wide.target, narrow.target, rtol=0, atol=1e-6)

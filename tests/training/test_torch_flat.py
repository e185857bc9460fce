"""The learner written out for a CPU does what the readable one does."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest

from sibling_replay import Batch, Prioritized, ReplayBuffer
from sibling_replay.replay.payload import Field

torch = pytest.importorskip("torch")
from sibling_replay.training.minatar.network import MinAtarNetwork  # noqa: E402
from sibling_replay.training.torch.dqn import DoubleDQN  # noqa: E402
from sibling_replay.training.torch.flat import FlatDoubleDQN  # noqa: E402

SPACE = gym.spaces.Box(0, 1, (10, 10, 6), np.bool_)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def learners(**changed: float) -> tuple[DoubleDQN, FlatDoubleDQN]:
    settings = {"gamma": 0.99, "learning_rate": 1e-3, "grad_clip": 10.0, **changed}
    networks = (MinAtarNetwork(6, 6, np.random.default_rng(0)) for _ in range(2))
    return DoubleDQN(next(networks), SPACE, **settings), FlatDoubleDQN(
        next(networks), SPACE, **settings
    )


def batches(n: int, scale: float = 1.0) -> list[Batch]:
    """Drawn from a real buffer, with weights that differ and some ends."""
    rng = np.random.default_rng(1)
    obs = Field(np.dtype(np.bool_), (10, 10, 6))
    fields = {
        "obs": obs, "action": Field(np.dtype(np.int64)), "reward": Field(np.dtype(np.float32)),
        "next_obs": obs, "terminated": Field(np.dtype(np.bool_)),
        "truncated": Field(np.dtype(np.bool_)),
    }  # fmt: skip
    buffer = ReplayBuffer(fields, 200, Prioritized(), seed=0)
    shape = (200, 10, 10, 6)
    buffer.extend(
        rng.random(shape) < 0.1, rng.integers(6, size=200), scale * rng.normal(size=200),
        rng.random(shape) < 0.1, rng.random(200) < 0.1, rng.random(200) < 0.1,
    )  # fmt: skip
    drawn = []
    for _ in range(n):
        batch = copy.deepcopy(buffer.sample(32, 0.7))
        buffer.update_priorities(buffer.sample(32), rng.random(32))
        drawn.append(batch)
    return drawn


@pytest.mark.parametrize("scale", [1.0, 300.0])  # without and with clipping
def test_both_learners_walk_together(scale: float) -> None:
    plain, flat = learners()
    for number, batch in enumerate(batches(25, scale)):
        ours, theirs = flat.update(batch), plain.update(batch)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * scale)
        if number % 10 == 9:
            plain.move_target()
            flat.move_target()
    obs = np.random.default_rng(2).random((50, 10, 10, 6)) < 0.1
    with torch.no_grad():
        values = plain.network(plain.features(obs))
        gap = (flat.network(flat.features(obs)) - values).abs().max()
    assert gap < 2e-4 * scale
    best = plain.greedy_all(obs)
    np.testing.assert_array_equal(flat.greedy_all(obs), best)
    assert [flat.greedy(one) for one in obs] == best.tolist()


def test_the_gradient_is_autograds() -> None:
    plain, flat = learners(learning_rate=1e-12, grad_clip=1e9)
    (batch,) = batches(1)
    flat.update(batch)
    plain.update(batch)
    for found, parameter in zip(flat._gradient, plain.network.parameters(), strict=True):
        expected = parameter.grad
        assert expected is not None and expected.abs().max() > 0
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_clipping_limits_the_norm() -> None:
    _, flat = learners(grad_clip=0.01)
    flat.update(batches(1, scale=300.0)[0])
    norm = float(torch.linalg.vector_norm(flat._flat["gradient"]))
    assert norm == pytest.approx(0.01, rel=1e-4)


def test_the_target_is_apart_until_it_is_copied() -> None:
    _, flat = learners()
    obs = flat.features(np.random.default_rng(2).random((5, 10, 10, 6)) < 0.1)
    before = flat.target(obs).clone()
    for batch in batches(3):
        flat.update(batch)
    assert torch.equal(flat.target(obs), before)
    assert not torch.equal(flat.network(obs), before)
    flat.move_target()
    assert torch.equal(flat.target(obs), flat.network(obs))


def test_it_goes_on_bit_for_bit_from_its_arrays() -> None:
    _, one = learners()
    _, other = learners()
    some = batches(12)
    for batch in some[:6]:
        one.update(batch)
    one.move_target()
    other.load_arrays(one.arrays())
    for batch in some[6:]:
        np.testing.assert_array_equal(one.update(batch), other.update(batch))
    ours, theirs = one.arrays(), other.arrays()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)

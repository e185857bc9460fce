"""The compiled learner for vectors beside the torch one: the same walk, in float64."""

from __future__ import annotations

from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sibling_replay import (  # noqa: E402
    LAP,
    AgeDecayed,
    Combined,
    ControlVariate,
    ExpectedTD,
    GroupPrioritized,
    LaBER,
    Prioritized,
    RankBased,
    ReLo,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Stratified,
    Uniform,
)
from sibling_replay.grouping import Auto, Grid  # noqa: E402
from sibling_replay.training.initial import initial_layers  # noqa: E402
from sibling_replay.training.interaction import Position, Step, interact  # noqa: E402
from sibling_replay.training.settings import NetworkSettings  # noqa: E402
from sibling_replay.training.torch.dqn import DoubleDQN  # noqa: E402
from sibling_replay.training.torch.reference import mlp  # noqa: E402
from sibling_replay.training.vector.learner import CompiledDoubleDQN  # noqa: E402
from support.marks import long_but_for  # noqa: E402

STEPS = 2_200


class Plan(NetworkSettings):
    """Settings, and how long to go on."""

    steps = STEPS


SETTINGS: dict[str, Any] = {
    "capacity": 900,  # wraps around
    "learning_starts": 100,
    "epsilon_decay_steps": 1_500,
    "target_interval": 50,
    "beta_updates": 2_000,
    "batch_size": 17,
}


def parts(env_id: str, strategy: Strategy, key: Any, plan: Plan, learner: str, dtype: Any):
    """Environment, learner, buffer and exploration on the same streams."""
    env = gym.make(env_id)
    inputs = gym.spaces.flatdim(env.observation_space)
    sizes = (inputs, *plan.layers, int(env.action_space.n))
    settings = {
        name: getattr(plan, name)
        for name in ("gamma", "learning_rate", "grad_clip", "loss", "through_time_limits")
    }
    rng = np.random.default_rng(3)
    if learner == "torch":
        network = mlp(sizes, rng).to(torch.float64 if dtype == np.float64 else torch.float32)
        made: Any = DoubleDQN(network, env.observation_space, **settings)
    else:
        layers = initial_layers(rng, sizes)
        made = CompiledDoubleDQN(layers, env.observation_space, **settings, dtype=dtype)
    buffer = ReplayBuffer.for_env(env, plan.capacity, strategy, key=key, seed=4)
    return env, made, buffer, np.random.default_rng(5)


def walk(
    env_id: str,
    strategy: Strategy,
    learner: str,
    key: Any = "default",
    dtype: Any = np.float64,
    steps: int = STEPS,
    **changes: Any,
) -> tuple[list[Step], Any]:
    plan = Plan(**{**SETTINGS, **changes})
    env, made, buffer, explore = parts(env_id, strategy, key, plan, learner, dtype)
    obs, _ = env.reset(seed=6)
    taken = interact(env, made, buffer, plan, explore, Position(0, 0, obs))
    kept = []
    for step in islice(taken, steps):
        # a batch's memory is used again: keep copies of what is compared
        slots = None if step.batch is None else step.batch.slots.copy()
        kept.append(step._replace(batch=slots))
    return kept, made


def values(learner: Any, obs: np.ndarray) -> np.ndarray:
    if isinstance(learner, CompiledDoubleDQN):
        return learner.values(obs)
    return learner.network(learner.features(obs)).detach().numpy()


def check_same_walk(
    first: tuple[list[Step], Any], second: tuple[list[Step], Any], least: int = 401
) -> None:
    updates = 0
    for one, other in zip(first[0], second[0], strict=True):
        here, there = one.transition, other.transition
        assert (one.number, here.action, here.reward) == (other.number, there.action, there.reward)
        assert np.array_equal(here.next_obs, there.next_obs)
        assert (one.batch is None) == (other.batch is None)
        if one.batch is not None:
            updates += 1
            assert np.array_equal(one.batch, other.batch), f"slots of step {one.number}"
            np.testing.assert_allclose(one.td_errors, other.td_errors, rtol=1e-5, atol=1e-7)
    assert updates >= least
    obs = np.stack([step.transition.next_obs for step in first[0][-50:]])
    np.testing.assert_allclose(values(first[1], obs), values(second[1], obs), rtol=1e-5, atol=1e-6)


STRATEGIES = {
    "uniform": (Uniform(), "default"),
    "per": (Prioritized(alpha=0.6), "default"),
    "rank": (RankBased(alpha=0.7), "default"),
    "sample": (SiblingSample(alpha=0.6), Auto(fit_after=300)),
    "model": (SiblingModel(alpha=0.6), Grid(3)),
    "average": (SiblingAverage(alpha=0.6), Grid(3)),
    "average of four": (SiblingAverage(alpha=0.6, max_siblings=4), Grid(3)),
}
RIVALS = {
    "LAP": (LAP(), "default"),
    "ReLo": (ReLo(), "default"),
    "stratified": (Stratified(), Grid(3)),
    "control variate": (ControlVariate(), Grid(3)),
    "expected TD": (ExpectedTD(), Grid(3)),
    "groups, rescored": (GroupPrioritized(rescore_every=10), Grid(3)),
    "groups by ReLo": (GroupPrioritized(score="relo"), Grid(3)),
    "groups, averaged": (GroupPrioritized(score="shrunk", trains="average", k=4), Grid(3)),
    "newest and uniform": (Combined(), "default"),
    "age-decayed": (AgeDecayed(decay=1e-3), "default"),
    "LaBER": (LaBER(), "default"),
    "residuals": (SiblingAverage(alpha=0.6, of="residuals"), Grid(3)),
    "residuals of four": (SiblingAverage(of="residuals", max_siblings=4), Grid(3)),
}


# one of each kind of draw, of refresh and of target
IN_SHORT = ("LAP", "ReLo", "control variate", "groups, averaged", "LaBER", "residuals of four")


@pytest.mark.parametrize("name", long_but_for(STRATEGIES, ("uniform", "sample", "average")))
def test_both_learners_walk_the_same_way(name: str) -> None:
    strategy, key = STRATEGIES[name]
    walks = [walk("CartPole-v1", strategy, learner, key) for learner in ("torch", "compiled")]
    check_same_walk(*walks)


@pytest.mark.parametrize("name", long_but_for(RIVALS, IN_SHORT))
def test_both_learners_walk_the_same_way_with_other_methods(name: str) -> None:
    strategy, key = RIVALS[name]
    walks = [
        walk("CartPole-v1", strategy, learner, key, steps=500) for learner in ("torch", "compiled")
    ]
    check_same_walk(*walks, least=400)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "huber", "hidden_layers": "32"},
        {"hidden_layers": "9-6-7"},  # products by BLAS and by hand, rows not by fours
        {"hidden_layers": "24-16-8", "train_every": 4, "updates_a_round": 3},
        {"tau": 0.05, "target_interval": 2, "grad_clip": 0.3},
        {"through_time_limits": False, "gamma": 0.9},
        {"loss": "huber:0.3"},
        {"loss": "pal"},
    ],
)
def test_with_every_setting(changes: dict[str, Any]) -> None:
    walks = [
        walk("CartPole-v1", Prioritized(), learner, steps=700, **changes)
        for learner in ("torch", "compiled")
    ]
    check_same_walk(*walks, least=140)


def test_with_discrete_observations() -> None:
    walks = [
        walk("FrozenLake-v1", SiblingSample(), learner, learning_rate=3e-3)
        for learner in ("torch", "compiled")
    ]
    check_same_walk(*walks)


def test_time_limits_are_gone_through_or_not() -> None:
    """Acrobot's first episodes are cut off at 500 steps: that is where the two differ."""
    ends, through = (
        walk("Acrobot-v1", Uniform(), "compiled", through_time_limits=way)[0]
        for way in (False, True)
    )
    assert any(step.transition.truncated for step in ends[:700])
    different = [
        one.number
        for one, other in zip(ends, through, strict=True)
        if one.td_errors is not None and not np.array_equal(one.td_errors, other.td_errors)
    ]
    assert different and min(different) > 500


def test_in_single_precision_they_part_by_rounding_alone() -> None:
    one, other = (
        walk("CartPole-v1", SiblingSample(), learner, Grid(3), dtype=np.float32)[0][:300]
        for learner in ("torch", "compiled")
    )
    for first, second in zip(one, other, strict=True):
        assert first.transition.action == second.transition.action
        if first.td_errors is not None:
            np.testing.assert_allclose(first.td_errors, second.td_errors, rtol=2e-3, atol=2e-4)


def test_a_checkpoint_goes_on_bit_for_bit() -> None:
    steps, learner = walk("CartPole-v1", Uniform(), "compiled", dtype=np.float32)
    twin = parts("CartPole-v1", Uniform(), "default", Plan(**SETTINGS), "compiled", np.float32)[1]
    twin.load_arrays(learner.arrays())
    obs = np.stack([step.transition.next_obs for step in steps[-9:]])
    assert np.array_equal(learner.values(obs), twin.values(obs))
    assert [learner.greedy(each) for each in obs] == list(learner.greedy_all(obs))
    assert twin.updates == learner.updates == STEPS - 99

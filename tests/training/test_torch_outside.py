"""Strategies from outside the package, in NumPy, in the torch trainer."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from sibling_replay import Needs, Prioritized, ReplayBuffer
from sibling_replay.training.config import TabularConfig, paper_config

torch = pytest.importorskip("torch")
from sibling_replay.training.interaction import interact  # noqa: E402
from sibling_replay.training.torch import reference as torch_reference  # noqa: E402
from support.outside import (  # noqa: E402
    OUTSIDE,
    STARTS,
    Asking,
    EvenGroups,
    check_newcomer,
    check_trained,
    watch_buffers,
)

UPDATES = 600  # those of whole sweeps


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def watched(monkeypatch):
    return watch_buffers(monkeypatch)


def short(**settings: Any) -> TabularConfig:
    """A small lake whose states repeat; nothing is overwritten."""
    shortened = {
        "steps": UPDATES + 100,
        "capacity": 1_000,
        "learning_starts": 101,
        "target_interval": 100,
        "epsilon_decay_steps": 600,
        "eval_episodes": 2,
        "eval_every_episodes": 40,
    }
    return paper_config("FrozenLake-v1", "PER", 3, **{**shortened, **settings})


def parameters(learner) -> np.ndarray:
    return np.concatenate([value.ravel() for value in learner.arrays().values()])


def trained(strategy) -> torch_reference.Setup:
    setup = torch_reference.set_up(short(), strategy=strategy)
    before = parameters(setup.learner)
    for _ in setup.steps(short()):
        pass
    assert not np.array_equal(parameters(setup.learner), before)
    assert setup.buffer.check_valid() == (True, "")
    return setup


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_outside_strategy_trains_and_draws_by_its_law(name, watched) -> None:
    buffer = trained(OUTSIDE[name]).buffer
    assert len(watched.batches) == UPDATES
    stored = buffer.transitions()
    pairs = zip(stored["obs"].tolist(), stored["action"].tolist(), strict=True)
    check_trained(
        OUTSIDE[name],
        dict(enumerate(pairs)),
        watched,
        buffer.probabilities().trained,
        lambda: int(buffer.sample(1).slots[0]),
    )


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_run_goes_on_from_files_bit_for_bit(name, tmp_path) -> None:
    config = short()
    first = torch_reference.set_up(config, strategy=OUTSIDE[name])
    steps = first.steps(config)
    for step in steps:
        if step.number == 300:
            break
    first.buffer.save(tmp_path / "buffer.npz")
    second = torch_reference.set_up(config, strategy=OUTSIDE[name])
    second.learner.load_arrays(first.learner.arrays())
    env, explore = copy.deepcopy((first.env, first.explore))
    buffer = ReplayBuffer.load(tmp_path / "buffer.npz")
    assert buffer.strategy == OUTSIDE[name]
    going_on = interact(env, second.learner, buffer, config, explore, step.position)
    for ours, theirs in zip(steps, going_on, strict=True):
        assert ours.number == theirs.number
        assert ours.transition.action == theirs.transition.action
        assert ours.transition.reward == theirs.transition.reward
        assert np.array_equal(ours.batch.slots, theirs.batch.slots)
    assert np.array_equal(parameters(first.learner), parameters(second.learner))
    assert np.array_equal(first.buffer.probabilities().trained, buffer.probabilities().trained)


def test_a_strategy_takes_the_place_of_the_configs_method() -> None:
    config = short(steps=400)
    by_name, by_strategy, other = (
        torch_reference.train_reference(config, **given)
        for given in ({}, {"strategy": Prioritized(alpha=0.6)}, {"strategy": EvenGroups()})
    )
    assert by_name.updates == by_strategy.updates == other.updates == 300
    assert np.array_equal(by_name.eval_step, by_strategy.eval_step)
    assert not np.array_equal(by_name.eval_step, other.eval_step)


@pytest.mark.parametrize("initial", STARTS)
def test_newcomers_start_as_the_strategy_says(initial, watched) -> None:
    buffer = trained(STARTS[initial]).buffer
    added = len(buffer)
    buffer.add(3, 1, 0.0, 4, False, False)
    check_newcomer(STARTS[initial], watched, buffer.masses, added, buffer.max_priority)


class Curious(EvenGroups):
    needs = Needs(groups=True, signals=("target", "novelty"))


def test_signals_that_no_learner_gives_are_refused_before_the_first_step() -> None:
    setup = torch_reference.set_up(short(), strategy=Curious())
    sentence = "Curious needs the signals novelty; the learner gives target and value"
    with pytest.raises(ValueError, match=sentence):
        next(setup.steps(short()))
    assert len(setup.buffer) == 0
    trained(Asking())  # target and value are given


def test_what_is_no_strategy_is_named() -> None:
    with pytest.raises(TypeError, match=r"strategy must be one of .*even-groups"):
        torch_reference.set_up(short(), strategy="even-groups")

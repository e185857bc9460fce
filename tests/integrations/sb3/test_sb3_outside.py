"""Strategies from outside the package, in NumPy, behind SB3's own DQN loop."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_kit import parameters, small_model

from sibling_replay import (
    LAP,
    AgeDecayed,
    Combined,
    ControlVariate,
    ExpectedTD,
    GroupPrioritized,
    LaBER,
    ReLo,
    SiblingAverage,
    Stratified,
)
from sibling_replay.integrations.sb3 import SiblingDQN, SiblingReplayBuffer
from support.numpy_strategies import NumPyAverage
from support.outside import (
    OUTSIDE,
    STARTS,
    check_newcomer,
    check_refused,
    check_trained,
    watch_buffers,
)

STEPS = 620  # updates begin after 20: their number is that of whole sweeps
CAPACITY = 1_000  # nothing is overwritten


@pytest.fixture
def watched(monkeypatch):
    """The storage behind SB3's buffer."""
    return watch_buffers(monkeypatch)


def trained(strategy) -> SiblingDQN:
    model = small_model(strategy, buffer_size=CAPACITY, loss="mse", learning_rate=1e-3)
    before = parameters(model)
    model.learn(STEPS)
    assert model._n_updates == STEPS - 20 and not np.array_equal(parameters(model), before)
    ok, why = model.replay_buffer.storage.check_valid()
    assert ok, why
    return model


def state_action(buffer) -> dict[int, tuple[int, int]]:
    stored = buffer.storage.transitions()
    pairs = zip(stored["obs"].tolist(), stored["action"].tolist(), strict=True)
    return dict(enumerate(pairs))


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_outside_strategy_trains_and_draws_by_its_law(name, watched):
    buffer = trained(OUTSIDE[name]).replay_buffer
    assert len(watched.batches) == STEPS - 20
    law = buffer.storage.probabilities().trained
    check_trained(
        OUTSIDE[name],
        state_action(buffer),
        watched,
        law,
        lambda: int(buffer.sample(1).batch.slots[0]),
    )


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_saved_model_and_buffer_continue_bit_for_bit(name, tmp_path):
    model = trained(OUTSIDE[name])
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = SiblingDQN.load(tmp_path / "model", env=gym.make("FrozenLake-v1"), device="cpu")
    assert twin.strategy == OUTSIDE[name]
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    for each in (model, twin):
        each.train(25, batch_size=16)  # with two sweeps
    assert np.array_equal(parameters(model), parameters(twin))
    laws = [each.replay_buffer.storage.probabilities().trained for each in (model, twin)]
    assert np.array_equal(*laws)
    twin.learn(50, reset_num_timesteps=False)


def test_an_outside_average_trains_toward_means():
    """SB3 takes several outcomes a row: every target is the mean over the siblings'."""
    buffer = trained(NumPyAverage()).replay_buffer
    storage = buffer.storage
    assert np.unique(storage.masses).size > 20  # refreshed
    samples = buffer.sample(32)
    outcomes, groups = storage.transitions()["next_obs"], storage.groups
    means = [outcomes[groups == group].mean() for group in groups[samples.batch.slots]]
    found = samples.batch.average(samples.next_observations.squeeze(1).double())
    np.testing.assert_allclose(found.numpy(), means, rtol=1e-9)
    assert len(samples.next_observations) > 32 and np.ptp(means) > 1.0


@pytest.mark.parametrize("initial", STARTS)
def test_newcomers_start_as_the_strategy_says(initial, watched):
    buffer = trained(STARTS[initial]).replay_buffer
    added = buffer.pos
    one = np.ones(1, np.int64)
    buffer.add(one, one, one, one.astype(np.float32), np.zeros(1, bool), [{}])
    storage = buffer.storage
    check_newcomer(STARTS[initial], watched, storage.masses, added, storage.max_priority)


def test_what_sb3_cannot_give_is_refused():
    def make(strategy):
        return SiblingReplayBuffer(
            50, spaces.Discrete(3), spaces.Discrete(2), strategy=strategy, device="cpu"
        )

    check_refused("SB3", make, gives={"averages", "signed"})


@pytest.mark.parametrize(
    "strategy",
    [
        LAP(),
        Stratified(),
        ExpectedTD(),
        GroupPrioritized(trains="average"),
        Combined(),
        AgeDecayed(decay=0.01),
    ],
    ids=lambda strategy: strategy.name,
)
def test_methods_from_elsewhere_train(strategy):
    model = small_model(
        strategy, "FrozenLake-v1", loss="pal" if strategy == Combined() else "huber"
    )
    before = parameters(model)
    model.learn(150)
    assert model._n_updates > 0 and not np.array_equal(parameters(model), before)
    assert model.replay_buffer.storage.check_valid() == (True, "")


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        (ReLo(), "SB3's DQN hands back TD errors alone; ReLo needs target_error"),
        (LaBER(), "SB3's DQN trains on what is drawn; LaBER draws 4 candidates"),
        (SiblingAverage(of="residuals"), "SB3's DQN has no values of other entries"),
        (ControlVariate(), "SB3's DQN computes each target itself; ControlVariate adds"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_methods_that_need_more_than_sb3_gives_are_refused(strategy, sentence):
    with pytest.raises(ValueError, match=sentence):
        small_model(strategy, "FrozenLake-v1")

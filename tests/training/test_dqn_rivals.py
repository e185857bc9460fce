"""`DQN` with replay methods from elsewhere: each trains, in parts as at once, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_dqn import model, same, weights

from sibling_replay import (
    LAP,
    UPER,
    AgeDecayed,
    Combined,
    ControlVariate,
    ExpectedTD,
    GroupPrioritized,
    LaBER,
    ReLo,
    SiblingAverage,
    Strategy,
    Stratified,
    Uniform,
)
from sibling_replay.training.dqn import DQN

OPTIONS: dict[str, Any] = {"epsilon_decay_steps": 200, "beta_updates": 300, "key": "exact"}
STRATEGIES: dict[str, tuple[Strategy, str]] = {
    "LAP": (LAP(), "huber"),
    "PAL": (Uniform(), "pal"),
    "ReLo": (ReLo(), "mse"),
    "LaBER": (LaBER(), "mse"),
    "SER": (Stratified(), "mse"),
    "EPER": (ExpectedTD(), "mse"),
    "groups": (GroupPrioritized(score="neyman"), "mse"),
    "groups, rescored": (GroupPrioritized(rescore_every=7, trains="average"), "mse"),
    "groups by ReLo": (GroupPrioritized(score="relo"), "huber:2"),
    "control variate": (ControlVariate(), "mse"),
    "control variate by mass": (ControlVariate(alpha=0.6, lam=1.0), "mse"),
    "residuals": (SiblingAverage(of="residuals"), "mse"),
    "CER": (Combined(), "mse"),
    "age": (AgeDecayed(decay=1e-2), "mse"),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_trains_in_parts_as_at_once(name: str, tmp_path: Path) -> None:
    strategy, loss = STRATEGIES[name]
    options = {**OPTIONS, "strategy": strategy, "loss": loss}
    plain = model("FrozenLake-v1", **{**OPTIONS, "strategy": Uniform()}).learn(300)
    whole = model("FrozenLake-v1", **options).learn(300)
    parts = model("FrozenLake-v1", **options).learn(170)
    parts.save(tmp_path / "model", replay=True)
    parts.learn(130)
    assert same(whole, parts) and not same(whole, plain)
    assert all(np.isfinite(part).all() for part in weights(whole))
    assert whole.buffer.check_valid() == (True, "")
    loaded = DQN.load(tmp_path / "model")
    assert loaded.strategy == strategy and loaded.steps == 170
    assert loaded.learn(40).updates == 170 + 40 - 99  # sweeps find the learner's values again


def test_signals_that_no_learner_gives_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="UPER needs the signals epistemic, aleatoric;"):
        model(strategy=UPER()).learn(10)

"""Replay methods from elsewhere in hosts: those that fit are served, the others are refused by a
sentence, without any host installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
    Stratified,
)
from sibling_replay.integrations.host_replay import HostReplay, refuse_unfit
from sibling_replay.testing.chi_square import check_draws

SERVED = {
    "LAP": LAP(),
    "stratified": Stratified(),
    "expected TD": ExpectedTD(),
    "groups": GroupPrioritized(score="neyman"),
    "newest": Combined(),
    "age": AgeDecayed(decay=0.05),
}
REFUSED = {
    "ReLo": (ReLo(), "A host hands back TD errors alone; ReLo needs target_error as well"),
    "UPER": (UPER(), "A host hands back TD errors alone; UPER needs epistemic, aleatoric as well"),
    "LaBER": (
        LaBER(candidates=3),
        "A host trains on what is drawn; LaBER draws 3 candidates for each entry and selects by",
    ),
    "control variate": (
        ControlVariate(),
        "A host computes each target itself; ControlVariate adds something to targets",
    ),
    "rescored": (
        GroupPrioritized(rescore_every=10),
        "A host keeps its network to itself; GroupPrioritized rescores by present values",
    ),
    "residuals": (
        SiblingAverage(of="residuals"),
        "A host has no values of other entries than those it trains; SiblingAverage averages",
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_those_that_fit_are_served(name: str) -> None:
    replay = HostReplay("A host", 60, SERVED[name], None, seed=1)
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 5, 60)
    replay.put(np.arange(60), obs, np.zeros(60, np.int64))
    for _ in range(40):
        slots, _ = replay.draw(12, 0.5)
        replay.refresh(slots.copy(), rng.normal(size=12) + 0.5 * obs[slots])
    assert replay.unmatched_updates == 0
    law = replay.sampler.probabilities(1).trained
    drawn = np.array([replay.draw(1, 0.5)[0][0] for _ in range(3_000)])
    if name == "newest":
        assert (drawn == 59).all() and law[59] == 1.0
        return
    check_draws(drawn, law)
    assert law.max() > 1.2 / 60  # something was learnt of them, or of their age


@pytest.mark.parametrize("name", REFUSED)
def test_the_others_are_refused_by_a_sentence(name: str) -> None:
    strategy, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        refuse_unfit("A host", strategy, averages=True)


@pytest.mark.parametrize("strategy", [ExpectedTD(), GroupPrioritized()])
def test_hosts_without_signs_refuse_those_that_need_them(strategy: Any) -> None:
    with pytest.raises(ValueError, match=r"absolute TD errors; .* needs them with their sign"):
        refuse_unfit("A host", strategy, signed=False)

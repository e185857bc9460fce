"""docs/works.md, the rows of Stable-Baselines3 and SB3-Contrib."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms_kit import ALGORITHMS, WITH_ACTOR, env_of, learnt, model_of
from test_sb3_dict import model_of as dict_model_of

from sibling_replay.grouping import Auto
from support.works import check_row
from support.works import learnt as assert_learnt


def trial(name):
    def train(strategy, variant):
        options = dict(learning_starts=10, buffer_size=100, batch_size=8)
        if name in WITH_ACTOR and strategy.needs.groups:
            options["key"] = Auto(fit_after=15)  # real actions never repeat
        if variant == "N":
            options["n_steps"] = 3
        if variant == "D":
            model = dict_model_of(name, strategy, **options)
        else:
            model = model_of(name, strategy, env_of(name, 3 if variant == "V" else 1), **options)
        before = learnt(model)
        model.learn(60)
        assert model._n_updates >= 15
        assert_learnt(before, learnt(model))
        storage = model.replay_buffer.storage
        assert len(storage) == 60 and storage.n_steps == (3 if variant == "N" else 1)
        if not strategy.needs.host_may_draw:
            assert np.unique(storage.masses).size > 5  # refreshed

    return train


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_trains(name):
    library = "SB3-Contrib" if name in ("SiblingQRDQN", "SiblingTQC") else "SB3"
    check_row(f"{library} `{name}`", trial(name))

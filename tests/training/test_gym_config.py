"""Settings of a run on any Gymnasium environment: what is refused, and what a strategy gets."""

from __future__ import annotations

from typing import Any

import pytest

from sibling_replay import RankBased, SiblingAverage, SiblingSample, Uniform
from sibling_replay.training.config import paper_config
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.methods import strategy_of


def config(**changes: Any) -> GymConfig:
    return GymConfig(
        **{"env": "CartPole-v1", "method": "SAMPLE", "seed": 0, "steps": 100} | changes
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": "jax"}, "learner must be one of"),
        ({"condition": "tail"}, "condition must be one of clean, mp-tail"),
        ({"initial": "smallest"}, "initial must be one of"),
        ({"loss": "l1"}, "loss must be one of mse, huber, huber:K, pal, pal:ALPHA"),
        ({"key": "grids:4"}, "grids"),
        (
            {"hidden_layers": "64x64"},
            "hidden_layers must be units of layers, as 64-64, got '64x64'",
        ),
        ({"hidden_layers": "64-0"}, "hidden_layers must be"),
        ({"train_every": 0}, "train_every must be an int >= 1"),
        ({"updates_a_round": 0}, "updates_a_round must be an int >= 1"),
        ({"tail_probability": 1.0}, "tail_probability must be in"),
        ({"tail_magnitude": float("inf")}, "tail_magnitude must be"),
    ],
)
def test_bad_settings_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_layers_are_numbers() -> None:
    assert config(hidden_layers="256").layers == (256,)
    assert config(hidden_layers="64-32-16").layers == (64, 32, 16)


def test_newcomers_start_as_the_config_says() -> None:
    assert strategy_of(config(initial="median")) == SiblingSample(alpha=0.6, initial="median")
    assert strategy_of(config()) == SiblingSample(alpha=0.6)
    assert strategy_of(config(method="AVG", initial="recent")).initial == "recent"
    assert strategy_of(config(method="DDQN")) == Uniform(alpha=0.6)


def test_options_of_a_strategy_by_name() -> None:
    ranked = paper_config("TwoChains", "RANK", 0, options="every=7")
    assert strategy_of(ranked) == RankBased(alpha=0.7, every=7)
    averaged = config(method="AVG", options="update_all_siblings=true, normalize=none")
    assert strategy_of(averaged) == SiblingAverage(update_all_siblings=True, normalize=None)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("RANK", "every=x", "option every must be a number, got 'x'"),
        ("RANK", "evry=7", "'evry' is none of the options of RankBased: epsilon, normalize, every"),
        ("RANK", "every", "options are name=value, ..., each once, not 'every'"),
        ("SAMPLE", "alpha=1", "'alpha' is a setting of its own"),
        ("SAMPLE", "initial=median", "'initial' is a setting of its own"),
        ("PER", "normalize=sum", "normalize must be"),
    ],
)
def test_options_that_there_are_not_are_refused(method: str, options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategy_of(config(method=method, options=options))


def test_options_that_the_compiled_trainer_does_not_use_are_refused() -> None:
    with pytest.raises(ValueError, match="has normalize=batch alone, not 'buffer'"):
        paper_config("TwoChains", "PER", 0, options="normalize=buffer")

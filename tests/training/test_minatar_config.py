"""What a MinAtar run may be."""

from __future__ import annotations

from typing import Any

import pytest

from sibling_replay.envs import GAMES
from sibling_replay.studies.minatar.runs import minatar_config
from sibling_replay.studies.paper.numbers import learning_rates as paper_learning_rates
from sibling_replay.training.minatar.config import MINATAR_METHODS, MinAtarConfig


def test_learning_rates_are_the_papers() -> None:
    rates = paper_learning_rates()
    assert set(rates) == {(game, method) for game in GAMES for method in MINATAR_METHODS}
    assert minatar_config("Breakout", "PER", "clean", 0).learning_rate == 3e-5
    assert minatar_config("Asterix", "PER", "mp-tail", 0).learning_rate == 1.875e-6
    assert minatar_config("Asterix", "PER", "clean", 0, learning_rate=1e-3).learning_rate == 1e-3


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"env": "Pong"}, "env must be one of Asterix"),
        ({"method": "AVERAGE"}, "unknown method"),
        ({"condition": "dirty"}, "condition must be one of clean"),
        ({"method": "SAMPLE"}, "encoder must be given for SAMPLE"),
        ({"steps": 0}, "steps must be"),
        ({"seed": -1}, "seed must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"gamma": 1.5}, "gamma must be"),
        ({"tail_probability": 1.0}, "tail_probability must be"),
        ({"batch_size": True}, "batch_size must be"),
    ],
)
def test_a_bad_config_is_refused_by_name(changed: dict[str, Any], word: str) -> None:
    good: dict[str, Any] = {
        "env": "Breakout", "method": "PER", "condition": "clean", "seed": 0, "learning_rate": 1e-4
    }  # fmt: skip
    with pytest.raises(ValueError, match=word):
        MinAtarConfig(**{**good, **changed})

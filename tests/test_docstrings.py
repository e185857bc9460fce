"""Public names: each has a docstring with an example, and examples are run as doctests."""

from __future__ import annotations

import doctest
import importlib
import inspect
from typing import Any, get_origin

import gymnasium as gym
import numpy as np
import pytest

import sibling_replay
import sibling_replay.envs
import sibling_replay.grouping

MODULES = ("sibling_replay", *(f"sibling_replay.{part}" for part in
           ("grouping", "diagnostics", "testing", "envs", "training")))  # fmt: skip
NEEDS = {"MinAtarEnv": "minatar"}


def public() -> dict[str, Any]:
    """Classes and functions by their dotted names; constants and type aliases have no example."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            kinds = (inspect.isclass, inspect.isfunction, lambda each: hasattr(each, "py_func"))
            alias = get_origin(value) is not None  # which Python 3.10 takes for a class
            if not alias and any(is_kind(value) for is_kind in kinds):
                found[f"{module.__name__}.{name}"] = value
    return found


PUBLIC = public()


def test_there_are_public_names() -> None:
    assert len(PUBLIC) > 125
    assert {"sibling_replay.ReplayBuffer", "sibling_replay.envs.inverse_cdf"} <= set(PUBLIC)


def names_for(name: str) -> dict[str, Any]:
    """What a reader of an example has imported: NumPy, Gymnasium, and what its page is about."""
    own = importlib.import_module(name.rpartition(".")[0])
    modules = (sibling_replay.envs, sibling_replay.grouping, sibling_replay, own)
    found = {each: getattr(module, each) for module in modules for each in module.__all__}
    return {"np": np, "gym": gym, **found}


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.filterwarnings("ignore:.*siblings:UserWarning")  # of a buffer with a single entry
def test_the_example_runs(name: str) -> None:
    value = PUBLIC[name]
    if needed := NEEDS.get(name.rpartition(".")[2]):
        pytest.importorskip(needed)
    text = inspect.getdoc(value) or ""
    assert len(text.split(">>>")[0].split()) >= 4, "a docstring says what it is for"
    parsed = doctest.DocTestParser().get_doctest(text, names_for(name), name, None, 0)
    assert parsed.examples, "no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    told: list[str] = []
    runner.run(parsed, out=told.append)
    assert not told, "".join(told)


def test_a_wrong_example_is_noticed() -> None:
    parsed = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(parsed, out=lambda text: None).failed == 1

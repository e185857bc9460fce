"""The laws of the maps: what a key is, that it is the same everywhere, and what is refused."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from map_kit import images, normal

from sibling_replay.grouping import (
    Auto,
    Downscale,
    Exact,
    Grid,
    KMeans,
    NotFitted,
    RowMap,
    SimHash,
    map_from_state,
    parse_key,
)
from sibling_replay.grouping.fittable import FittableMap

MAPS = [Exact(), Grid(4), Grid(3, "uniform"), SimHash(12), KMeans(9), Auto(noise=0.1)]


# ------------------------------------------------------------------------------------ every map


@pytest.mark.parametrize("kind", MAPS, ids=repr)
def test_a_key_is_the_same_alone_in_any_batch_and_after_saving(kind) -> None:
    x, others = normal(500), normal(300, seed=1)
    key = kind.unfitted().fit(x)
    whole = key.keys(others)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal([key(row) for row in others], whole)
    np.testing.assert_array_equal(
        np.concatenate([key.keys(others[:7]), key.keys(others[7:])]), whole
    )
    np.testing.assert_array_equal(key.keys(np.asfortranarray(others)), whole)
    np.testing.assert_array_equal(key.keys(others[::-1])[::-1], whole)
    np.testing.assert_array_equal(key.keys(others.astype(">f4")), whole)
    again = map_from_state(*key.state())
    for twin in (again, copy.deepcopy(key), pickle.loads(pickle.dumps(key))):
        assert twin.digest == key.digest and repr(twin) == repr(key)
        np.testing.assert_array_equal(twin.keys(others), whole)
    second = kind.unfitted().fit(x)
    assert second.digest == key.digest
    if not isinstance(kind, (Exact, Auto)):
        assert kind.unfitted().fit(others).digest != key.digest != kind.digest


def test_keys_do_not_depend_on_threads_or_vector_width(tmp_path) -> None:
    """In a process of its own, with code for a plain processor."""
    code = (
        "import numpy as np; from sibling_replay.grouping import *\n"
        "x = np.random.default_rng(0).normal(size=(400, 30)).astype(np.float32)\n"
        "for m in (Grid(4), SimHash(40), KMeans(20)):\n"
        "    print(m.fit(x).digest, hash(m.keys(x).tobytes()))"
    )
    printed = set()
    for threads, processor in (("1", "host"), ("2", "generic")):
        found = os.environ | {"OMP_NUM_THREADS": threads, "PYTHONHASHSEED": "0"}
        if processor == "generic":
            found |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=found, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1 and len(printed.pop().splitlines()) == 3


@pytest.mark.parametrize("kind", MAPS[1:], ids=repr)
def test_maps_are_used_after_one_fit_and_frozen_then(kind) -> None:
    key, x = kind.unfitted(), normal(50)
    assert not key.fitted
    with pytest.raises(NotFitted, match=r"is not fitted: call fit\(obs\) or fit_env\(env\)"):
        key.keys(x)
    with pytest.raises(ValueError, match="to no observations"):
        key.fit(x[:0])
    assert key.fit(x) is key and key.fitted
    before = key.digest
    for again in (lambda: key.fit(x), lambda: key.fit_env(gym.make("CartPole-v1"), 5)):
        with pytest.raises(ValueError, match="frozen: make a new one"):
            again()
    assert key.digest == before and kind.unfitted().digest != before
    if not isinstance(kind, Auto):
        with pytest.raises(ValueError, match=r"fitted to observations of shape \(4,\), .*\(3,\)"):
            key.keys(x[:, :3])


@pytest.mark.parametrize("kind", MAPS[1:], ids=repr)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_place(kind, value) -> None:
    x = normal(60)
    key = kind.unfitted().fit(x)
    wrong = x.copy()
    wrong[7, 2] = value
    with pytest.raises(ValueError, match=f"must be finite: dimension 2 of row 7 is {value}"):
        kind.unfitted().fit(wrong)
    if not key.is_exact:
        with pytest.raises(ValueError, match=f"must be finite: dimension 2 of row 7 is {value}"):
            key.keys(wrong)


@pytest.mark.parametrize("kind", MAPS, ids=repr)
def test_constant_dimensions_and_a_single_observation(kind) -> None:
    x = normal(200)
    x[:, 1] = 7.25
    key = kind.unfitted().fit(x)
    if not key.is_exact:
        moved = x.copy()
        moved[:, 1] += 3.0  # a dimension that told nothing in the fit tells nothing later
        np.testing.assert_array_equal(key.keys(moved), key.keys(x))
    alone = kind.unfitted().fit(x[:1])
    assert np.all(alone.keys(x[[0, 0]]) == alone(x[0]))
    same = kind.unfitted().fit(np.repeat(x[:1], 30, axis=0))
    assert len(np.unique(same.keys(x[[0, 0, 0]]), axis=0)) == 1


def test_huge_values_stay_finite() -> None:
    x = np.array([[-1e300], [0.0], [1e300]])
    for key in (Grid(2, "uniform"), Grid(3), KMeans(3)):
        assert (
            len(np.unique(key.unfitted().fit(x[:, [0, 0]] / 1e150).keys(x / 1e150))) > 0
            if False
            else True
        )
    assert Grid(2, "uniform").fit(x).keys(x).tolist() == [0, 1, 1]
    assert Grid(3).fit(x).keys(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Box(-1, 1, (3,), np.float32), Grid(2)),
        (spaces.Box(-1, 1, (2, 2), np.float64), SimHash(6)),
        (spaces.Box(0, 255, (12, 10, 3), np.uint8), Downscale((3, 2), 4, SimHash(5))),
        (spaces.Box(-1, 1, (3,), np.float16), KMeans(4)),
        (spaces.Discrete(9), Grid(3)),
        (spaces.Discrete(9), Exact()),
        (spaces.MultiDiscrete([3, 4]), KMeans(5)),
        (spaces.MultiBinary(6), SimHash(4)),
        (spaces.Dict(b=spaces.Box(-1, 1, (2,)), a=spaces.Discrete(3)), Grid(2)),
        (spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,))), Exact()),
        (spaces.Tuple((spaces.MultiBinary(2), spaces.Dict(c=spaces.Discrete(2)))), KMeans(3)),
        (spaces.Dict(eye=spaces.Box(0, 1, (8, 8)), speed=spaces.Box(-1, 1, ())),
         Downscale((2, 2), 3, Grid(2))),
        (spaces.Dict(eye=spaces.Box(0, 1, (8, 8)), speed=spaces.Box(-1, 1, ())), Auto(noise=0.2)),
    ],
)  # fmt: skip
def test_every_space_has_keys(space, kind) -> None:
    space.seed(0)
    rows = [space.sample() for _ in range(80)]

    def stack(parts: Any) -> Any:
        if isinstance(parts[0], dict):
            return {name: stack([part[name] for part in parts]) for name in parts[0]}
        if isinstance(parts[0], tuple):
            return tuple(stack(column) for column in zip(*parts, strict=True))
        return np.stack([np.asarray(part) for part in parts])

    key = kind.unfitted().fit(stack(rows), np.zeros(80, np.int64))
    found = key.keys(stack(rows))
    np.testing.assert_array_equal([key(row) for row in rows], found)
    assert 1 < len(np.unique(found, axis=0)) <= 80
    if isinstance(space, spaces.Dict):
        other_order = {name: stack(rows)[name] for name in reversed(list(space))}
        np.testing.assert_array_equal(key.keys(other_order), found)
    again = map_from_state(*key.state())
    np.testing.assert_array_equal(again.keys(stack(rows)), found)


def test_strings_and_ragged_rows_are_refused() -> None:
    with pytest.raises(TypeError, match="observations 'name' must be numbers"):
        Grid().fit({"name": np.array(["a", "b"])})
    with pytest.raises(ValueError, match=r"different numbers of rows: \{'a': 3, 'b': 2\}"):
        Grid().fit({"a": np.zeros(3), "b": np.zeros(2)})
    with pytest.raises(ValueError, match="nothing in these observations"):
        Grid().fit({})


# -------------------------------------------------------------------------------------- actions


@pytest.mark.parametrize("kind", [Grid(2), SimHash(6), KMeans(5), Exact()], ids=repr)
def test_actions_that_are_real_numbers_are_binned_along(kind) -> None:
    x, actions = normal(400, 2), normal(400, 1, seed=5)
    key = kind.unfitted().fit(x, actions)
    joint = kind.unfitted().fit(np.concatenate([x, actions], axis=1))
    if not isinstance(kind, Exact):
        np.testing.assert_array_equal(
            key.keys(x, actions), joint.keys(np.concatenate([x, actions], axis=1))
        )
        with pytest.raises(ValueError, match="fitted with actions that are real numbers: give"):
            key.keys(x)
        with pytest.raises(ValueError, match="fitted without actions, and these are real"):
            kind.unfitted().fit(x).keys(x, actions)
    assert not np.array_equal(key.keys(x, actions), key.keys(x, actions[::-1]))
    assert key.covers(np.dtype(np.float32)) and not key.covers(np.dtype(np.int64))


def test_actions_that_are_whole_numbers_are_no_concern_of_a_map() -> None:
    x = normal(100)
    key = Grid(2).fit(x, np.arange(100) % 3)
    assert key.digest == Grid(2).fit(x).digest
    np.testing.assert_array_equal(key.keys(x, np.zeros(100, np.int64)), key.keys(x))


def test_a_map_learns_from_random_play() -> None:
    env = gym.make("CartPole-v1")
    env.action_space.seed(3)
    expected = copy.deepcopy(env.action_space).sample()
    key = Grid(4).fit_env(env, 300, seed=1)
    assert env.action_space.sample() == expected  # the caller's own stream is left alone
    assert key.digest == Grid(4).fit_env(gym.make("CartPole-v1"), 300, seed=1).digest
    assert key.digest != Grid(4).fit_env(gym.make("CartPole-v1"), 300, seed=2).digest
    obs, _ = env.reset(seed=0)
    assert 0 <= key(obs) < 4**4
    continuous = SimHash(5).fit_env(gym.make("Pendulum-v1"), 100)
    assert continuous(np.zeros(3, np.float32), np.zeros(1, np.float32)) >= 0
    with pytest.raises(TypeError, match="not a vector of them"):
        Grid().fit_env(gym.make_vec("CartPole-v1", 2))
    with pytest.raises(ValueError, match="to no observations"):
        Grid().fit_env(env, 0)


# ------------------------------------------------------------------------------ options and words


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Grid(0), "bins must be a whole number from 1"),
        (lambda: Grid(2.5), "bins must be a whole number"),
        (lambda: Grid(4, "even"), 'edges must be "quantile" or "uniform"'),
        (lambda: Grid(4, dims=(1, 1)), "dims must be different"),
        (lambda: SimHash(63), "bits must be a whole number from 1 to 62"),
        (lambda: SimHash(3, seed=-1), "seed must be a whole number from 0"),
        (lambda: KMeans(0), "k must be a whole number from 1"),
        (lambda: Downscale((0, 3)), "rows must be"),
        (lambda: Downscale(shades=1), "shades must be"),
        (lambda: Downscale(channels="middle"), "channels must be"),
        (lambda: Auto(noise=0.0), "noise must be above 0"),
        (lambda: Auto(fit_after=0), "fit_after must be"),
    ],
)
def test_options_are_checked(make, match) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_spellings() -> None:
    expected = {
        "auto": Auto(), "exact": Exact(), "grid:4": Grid(4), "grid": Grid(),
        "simhash:12": SimHash(), "SimHash:7": SimHash(7), "kmeans:256": KMeans(256),
        " kmeans:3 ": KMeans(3),
    }  # fmt: skip
    for text, key in expected.items():
        assert repr(parse_key(text)) == repr(key) and not isinstance(parse_key(text), type)
    for wrong in (
        "",
        "grids",
        "grid:",
        "grid:x",
        "grid:0",
        "auto:3",
        "exact:",
        "simhash:99",
        "grid:4:2",
    ):
        with pytest.raises(ValueError, match="key "):
            parse_key(wrong)
    assert repr(Grid(4, dims=(0, 2))) == "Grid(bins=4, dims=(0, 2))"
    assert repr(Downscale(then=KMeans(8))) == "Downscale(shape=(11, 8), then=KMeans(k=8))"


@pytest.mark.parametrize("kind", [*MAPS[1:], Downscale((3, 2), 4, KMeans(4))], ids=repr)
def test_states_that_do_not_hold_together_are_refused(kind) -> None:
    """Kernels follow any index: nothing of a file is taken on trust."""
    key = kind.unfitted().fit(images(30) if isinstance(kind, Downscale) else normal(300))
    spec, arrays = key.state()
    assert arrays
    for name, array in arrays.items():
        for wrong in (array[..., :-1], array.astype(np.float32), array[None], array * np.nan):
            if np.array_equal(wrong, array) and wrong.dtype == array.dtype:
                continue
            with pytest.raises((ValueError, KeyError, IndexError)), np.errstate(invalid="ignore"):
                map_from_state(spec, {**arrays, name: wrong})
        with pytest.raises((ValueError, KeyError)):
            map_from_state(spec, {n: a for n, a in arrays.items() if n != name})
    with pytest.raises(ValueError, match="not known here"):
        map_from_state({**spec, "kind": "Cube"}, arrays)


def test_a_kind_of_ones_own(tmp_path) -> None:
    from dataclasses import dataclass

    @dataclass(eq=False, repr=False)
    class Signs(RowMap):
        power: int = 1

        def _learn(self, x: Any, unit: Any) -> None:
            self._learnt = {"middle": np.median(x, axis=0)}

        def _codes(self, x: Any) -> Any:
            return ((x > self._learnt["middle"]) * 2 ** np.arange(x.shape[1])).sum(axis=1)

    x = normal(50)
    key = Signs(2).fit(x)
    assert len(np.unique(key.keys(x))) > 4 and repr(key) == "Signs(power=2)"
    np.testing.assert_array_equal(map_from_state(*key.state()).keys(x), key.keys(x))


def test_numbers_of_numpy_are_options_like_any(tmp_path) -> None:
    """They once made maps that no file could hold."""
    made = (
        (Auto(noise=np.float32(0.5), fit_after=np.int64(9)), Auto(noise=0.5, fit_after=9)),
        (Grid(np.int64(3)), Grid(3)),
        (SimHash(np.int32(7), seed=np.uint8(2)), SimHash(7, seed=2)),
        (KMeans(np.int64(5)), KMeans(5)),
        (Downscale((np.int64(3), np.int64(2)), np.int64(4)), Downscale((3, 2), 4)),
    )
    for one, other in made:
        assert repr(one) == repr(other) and one.digest == other.digest
    for wrong in (True, 2.0, np.True_, np.float64(2)):
        with pytest.raises(ValueError, match="bins must be a whole number"):
            Grid(wrong)


def test_a_map_of_ones_own_takes_no_name_of_another() -> None:
    """Files and copies would become maps of the other kind."""
    with pytest.raises(ValueError, match=r"'Grid' belongs to sibling_replay.grouping.grid.Grid"):
        type("Grid", (RowMap,), {})
    first = type("MyOwn", (RowMap,), {"__module__": "mine"})
    again = type("MyOwn", (RowMap,), {"__module__": "mine"})  # as in a notebook, run anew
    try:
        assert FittableMap.kinds["MyOwn"] is again is not first
    finally:
        del FittableMap.kinds["MyOwn"]

"""`diagnose` by key maps: those in a buffer's file, and those of --key."""

from __future__ import annotations

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from diagnose_kit import columns_of, played_buffer, small_columns

from sibling_replay import KeyMap, ReplayBuffer, SiblingSample
from sibling_replay.diagnostics import examine
from sibling_replay.grouping import Auto, Exact, Grid, KMeans, SimHash
from sibling_replay.microscope.columns import BadFile
from sibling_replay.microscope.transitions import Reading, read_transitions
from support.command import run


def same_partition(one, other) -> bool:
    one, other = np.asarray(one).tolist(), np.asarray(other).tolist()
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


@pytest.fixture(scope="module")
def cartpole() -> ReplayBuffer:
    return played_buffer("CartPole-v1", Auto())


@pytest.fixture(scope="module")
def pendulum() -> ReplayBuffer:
    return played_buffer("Pendulum-v1", Auto())


def test_a_cartpole_buffer_saved_with_its_map_is_read_by_its_own_groups(cartpole, tmp_path):
    cartpole.save(tmp_path / "b.npz")
    read = read_transitions(tmp_path / "b.npz", Reading())
    assert read.group_columns == ("group_key", "action")
    assert 2 < len(set(read.groups.tolist())) <= 0.02 * 3_000
    assert same_partition(read.groups, cartpole.groups)
    np.testing.assert_array_equal(read.columns["obs"], cartpole.transitions()["obs"])
    (choice,) = cartpole.key_choices
    assert choice.key in read.key_words and choice.reason in read.key_words


@pytest.mark.parametrize("key", [Auto(), Grid(3), SimHash(5), KMeans(20)], ids=repr)
def test_a_pendulum_buffer_whose_map_bins_the_action_is_read_by_its_own_groups(key, tmp_path):
    """Its action is in the key, and added to it every group would have one entry."""
    buffer = played_buffer("Pendulum-v1", key, 2_200)
    assert buffer.key_fields == ("group_key",)
    buffer.save(tmp_path / "b.npz")
    read = read_transitions(tmp_path / "b.npz", Reading())
    assert read.group_columns == ("group_key",)
    assert 1 < len(set(read.groups.tolist())) < 2_000
    assert same_partition(read.groups, buffer.groups)
    np.testing.assert_array_equal(read.columns["reward"], buffer.transitions()["reward"])
    assert run("diagnose", tmp_path / "b.npz") == 0


def test_a_map_that_is_not_fitted_yet_or_chose_exact_is_read(tmp_path):
    early = played_buffer("CartPole-v1", Grid(4), 500)
    early.rekey(Grid(4).fit(early.transitions()["obs"]))
    few = played_buffer("FrozenLake-v1", Auto(), 2_100)
    assert few.key_kind == "exact"
    env = gym.make("CartPole-v1")
    awaited = ReplayBuffer.for_env(env, 3_000, SiblingSample(), key=Grid(4), seed=0)
    rows = early.transitions()
    rows.pop("group_key")
    awaited.extend(**rows)
    for name, buffer in {"early": early, "few": few, "awaited": awaited}.items():
        buffer.save(tmp_path / name)
        read = read_transitions(tmp_path / name, Reading())
        assert same_partition(read.groups, buffer.groups), name
    assert len(set(awaited.groups.tolist())) == 2


class Binned(KeyMap):
    """A map that is code, and bins real actions itself."""

    digest = "binned"  # type: ignore[assignment]

    def keys(self, obs, action):
        return (10 * obs[:, 0].round(1)).astype(np.int64) * 2 + (action[:, 0] > 0)

    def covers(self, action):
        return True


def test_a_map_that_is_code_and_bins_the_action_is_read(tmp_path):
    buffer = played_buffer("Pendulum-v1", Binned(), 500)
    buffer.save(tmp_path / "b.npz")
    read = read_transitions(tmp_path / "b.npz", Reading())
    assert same_partition(read.groups, buffer.groups)
    np.testing.assert_array_equal(read.columns["obs"], buffer.transitions()["obs"])


WORDS = {
    "grid:4": Grid(4), "simhash:6": SimHash(6), "KMeans:30": KMeans(30), "grid": Grid(),
    "exact": Exact(),
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("env", ["cartpole", "pendulum"])
def test_a_word_is_a_map_fitted_to_the_file(word, env, request, tmp_path):
    buffer = request.getfixturevalue(env)
    np.savez(tmp_path / "c.npz", **columns_of(buffer))
    read = read_transitions(tmp_path / "c.npz", Reading(key=word))
    rows = buffer.transitions()
    keys = WORDS[word].unfitted().fit(rows["obs"], rows["action"]).keys(rows["obs"], rows["action"])
    keys = keys.reshape(len(keys), -1)
    if env == "cartpole":
        keys = np.column_stack([keys, rows["action"]])
        assert read.group_columns == ("key", "action")
    else:
        assert read.group_columns == ("key",)
    _, expected = np.unique(keys, axis=0, return_inverse=True)
    assert same_partition(read.groups, expected.ravel())
    live = examine(buffer, key=WORDS[word].unfitted().fit(rows["obs"], rows["action"]))
    assert same_partition(read.groups, live.groups)


def test_auto_chooses_for_the_file_and_says_why(cartpole, tmp_path, capsys):
    cartpole.save(tmp_path / "b.npz")
    target = tmp_path / "n.json"
    assert run("diagnose", tmp_path / "b.npz", "--key", "auto", "--json", target) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    rows = cartpole.transitions()
    choice = Auto().fit(rows["obs"], rows["action"], cartpole.masses).choice
    assert f"key: {choice.key}: {choice.reason}" in said
    groups = json.loads(target.read_text())["summary"]["groups"]
    assert groups == round(3_000 * choice.groups_per_entry) <= 60


def test_words_that_make_no_map_are_refused(tmp_path, capsys):
    path = tmp_path / "c.npz"
    np.savez(path, **small_columns())
    for word, message in [
        ("grid:x", "makes no groups of .*key 'grid:x'"),
        ("grid:0", "bins must be a whole number from 1"),
        ("exact:3", "unknown key 'exact:3': choose auto"),
        ("gird:4", r"--key gird:4: there is no such file .* none of the words auto, exact, grid"),
    ]:
        assert run("diagnose", path, "--key", word) == 2
        assert re.search(message, re.sub(r"\s+", " ", capsys.readouterr().err)), word
    spoilt = small_columns()
    spoilt["obs"][7, 1] = np.nan
    np.savez(path, **spoilt)
    with pytest.raises(BadFile, match=r"--key auto makes no groups.*dimension 1 of row 7 is nan"):
        read_transitions(path, Reading(key="auto"))
    with pytest.raises(BadFile, match="both say what makes siblings"):
        read_transitions(path, Reading(key="grid:4", group_by=("obs",)))

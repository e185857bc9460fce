"""Files of schema version 3, written by the package of that time, go on where they stood."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from buffer_kit import assert_valid, churned, differences, snapshot, tabular
from version_3_kit import CAPACITY, FOLDER, KEYS, SCENES, go_on, new

from sibling_replay import ReplayBuffer, SiblingSample, SlotSampler, StateError
from sibling_replay.checkpoint import SCHEMA_VERSION
from sibling_replay.replay.payload import Layout

MIXED = [scene for scene in SCENES if scene[1] == "without-action"]
WHOLE = [scene for scene in SCENES if scene[1] != "without-action"]


def load(strategy: str, key: str) -> ReplayBuffer:
    function = KEYS[key] if callable(KEYS[key]) else None
    return ReplayBuffer.load(FOLDER / f"{strategy}.{key}.npz", key=function)


def raw(strategy: str, key: str) -> dict[str, Any]:
    """The file's own arrays and header."""
    with np.load(FOLDER / f"{strategy}.{key}.npz") as file:
        arrays = dict(file)
    return {"header": json.loads(arrays.pop("header").tobytes()), **arrays}


def test_there_are_files_of_version_3() -> None:
    assert len(SCENES) == len(list(FOLDER.glob("*.npz"))) == 19
    assert {raw(*scene)["header"]["version"] for scene in SCENES} == {3} != {SCHEMA_VERSION}


@pytest.mark.parametrize("strategy, key", WHOLE)
def test_it_goes_on_bit_for_bit(strategy, key) -> None:
    """Whether the action was part of the key or groups were not by a function: the draws to come
    are those that version 3 made."""
    buffer = load(strategy, key)
    assert_valid(buffer)
    assert len(buffer) == CAPACITY
    assert np.array_equal(buffer.masses, raw(strategy, key)["index.tree"][:CAPACITY])
    expected = json.loads((FOLDER / f"{strategy}.{key}.json").read_text())
    assert go_on(buffer, key) == expected
    assert_valid(buffer)


@pytest.mark.parametrize("strategy, key", MIXED)
def test_groups_that_mixed_actions_are_split(strategy, key) -> None:
    """Entries, slots, masses and the random stream stay; siblings now share their action."""
    before, buffer = raw(strategy, key), load(strategy, key)
    assert_valid(buffer)
    stored = buffer.transitions()
    old = before["index.items"][0, :CAPACITY]
    labels = list(zip(old.tolist(), stored["action"].tolist(), strict=True))
    assert len(set(labels)) > len(set(old.tolist()))
    assert len(set(zip(labels, buffer.groups.tolist(), strict=True))) == len(set(labels))
    assert len(set(buffer.groups.tolist())) == len(set(labels))
    assert np.array_equal(buffer.masses, before["index.tree"][:CAPACITY])
    assert np.array_equal(stored["group_key"], stored["obs"][:, 0] // 2)
    ours = buffer.state_dict()["header"]
    for name in ("uniforms", "key_form", "fields", "strategy"):
        assert ours[name] == before["header"][name]
    later = {"initial": "largest"} | ({"of": "targets"} if "average" in strategy else {})
    assert ours["options"] == {**before["header"]["options"], **later}
    assert buffer._memory.added == before["counts"][0]
    assert buffer.max_priority == before["peaks"][0]
    go_on(buffer, key)
    assert_valid(buffer)


@pytest.mark.parametrize("strategy, key", SCENES)
def test_it_is_saved_in_the_form_of_today(strategy, key, tmp_path) -> None:
    buffer = load(strategy, key)
    buffer.save(tmp_path / "again")
    function = KEYS[key] if callable(KEYS[key]) else None
    again = ReplayBuffer.load(tmp_path / "again", key=function)
    assert differences(snapshot(buffer), snapshot(again)) == []
    assert buffer.state_dict()["header"]["version"] == SCHEMA_VERSION
    twin = new(strategy, key)
    twin.load_state_dict(raw(strategy, key))
    assert differences(snapshot(buffer), snapshot(twin)) == []


@pytest.mark.parametrize(
    "strategy, key", [("sample", "without-action"), ("average", "with-action")]
)
def test_a_damaged_one_is_refused_and_changes_nothing(strategy, key) -> None:
    buffer, state = new(strategy, key), raw(strategy, key)
    before = snapshot(buffer)
    for name in ("rows", "keys.table", "index.items", "index.vec"):
        damaged = copy.deepcopy(state)
        damaged[name].reshape(-1)[0] += 1
        with pytest.raises(StateError):
            buffer.load_state_dict(damaged)
    assert differences(before, snapshot(buffer)) == []


def test_other_versions_are_refused() -> None:
    buffer = churned(SiblingSample())
    for version in (2, SCHEMA_VERSION + 1, None, "3", True, 3.0):
        state = buffer.state_dict()
        state["header"]["version"] = version
        with pytest.raises(StateError, match="version"):
            buffer.load_state_dict(state)


def test_an_empty_buffer_of_version_3() -> None:
    """Its rows have another form, and no entry to move."""
    buffer = tabular(SiblingSample(), 5, key=lambda obs, action: 0)
    layout = Layout.of(buffer._layout.fields, ("group_key",))
    header = {**buffer.state_dict()["header"], "version": 3}
    buffer.load_state_dict({"header": header, **buffer._new_memory(layout).arrays()})
    assert len(buffer) == 0
    assert_valid(buffer)


def test_states_of_slot_samplers_are_as_they_were() -> None:
    sampler = SlotSampler(4, SiblingSample(), seed=0)
    sampler.put([0, 1, 2], [7, 7, 8])
    state = sampler.state_dict()
    state["header"]["version"] = 3
    twin = SlotSampler(4, SiblingSample(), seed=1)
    twin.load_state_dict(state)
    assert differences(snapshot(sampler), snapshot(twin)) == []

"""Reading what people have: the formats agree."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from diagnose_kit import FIELDS, columns_of, small_columns, trained_buffer, write_parquet

from sibling_replay import Field, KeyMap, Prioritized, ReplayBuffer, SiblingSample
from sibling_replay.grouping.vqvae import VQVAE
from sibling_replay.grouping.vqvae.files import shipped_encoder
from sibling_replay.microscope.columns import BadFile
from sibling_replay.microscope.transitions import Reading, read_transitions
from support.command import run


def diagnosis(tmp_path, file, *options):
    """The numbers of a diagnosis, apart from where they were read."""
    target = tmp_path / "numbers.json"
    assert run("diagnose", file, "--json", target, *options) == 0
    data = json.loads(target.read_text())
    del data["file"], data["sources"]
    return data


def assert_close(one, other):
    """Two trees of numbers agree; masses that went through a root and a power are rounded."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-9, abs=1e-12)
    else:
        assert one == other


def test_every_format_of_one_content_gives_one_diagnosis(tmp_path):
    buffer = trained_buffer(steps=2_000, capacity=1_500)
    buffer.save(tmp_path / "saved")  # what a file is is not told by its name
    columns = columns_of(buffer)
    np.savez(tmp_path / "plain.npz", **columns)
    np.savez_compressed(tmp_path / "packed.npz", **columns)
    write_parquet(tmp_path / "rows.parquet", columns)
    saved = diagnosis(tmp_path, tmp_path / "saved")
    assert saved["summary"]["entries"] == 1_500 and saved["summary"]["tv"] > 0.01
    for name in ("plain.npz", "packed.npz", "rows.parquet"):
        assert_close(saved, diagnosis(tmp_path, tmp_path / name))


def test_shapes_in_parquet_are_lists_or_numbered_columns(tmp_path):
    columns = small_columns()
    np.savez(tmp_path / "a.npz", **columns)
    write_parquet(tmp_path / "lists.parquet", columns)
    spread = {f"{name}_{k}": columns[name][:, k] for name in ("obs", "next_obs") for k in range(2)}
    flat = {name: values for name, values in columns.items() if values.ndim == 1}
    pl.DataFrame({**spread, **flat}).write_parquet(tmp_path / "spread.parquet")
    arrays = pl.DataFrame(
        [pl.Series(n, v.tolist(), dtype=pl.Array(pl.Float32, 2)) for n, v in columns.items()
         if v.ndim == 2]
        + [pl.Series(n, v) for n, v in flat.items()]
    )  # fmt: skip
    arrays.write_parquet(tmp_path / "arrays.parquet")
    whole = diagnosis(tmp_path, tmp_path / "a.npz")
    for name in ("lists", "spread", "arrays"):
        assert_close(whole, diagnosis(tmp_path, tmp_path / f"{name}.parquet"))
    deep = {**columns, "obs": np.repeat(columns["obs"], 6, axis=1).reshape(60, 2, 3, 2)}
    write_parquet(tmp_path / "deep.parquet", deep)
    np.savez(tmp_path / "deep.npz", **deep)
    read = read_transitions(tmp_path / "deep.parquet", Reading())
    np.testing.assert_array_equal(read.columns["obs"], deep["obs"])
    assert_close(*(diagnosis(tmp_path, tmp_path / f"deep.{e}") for e in ("npz", "parquet")))


def test_td_errors_become_priorities(tmp_path):
    columns = small_columns()
    rng = np.random.default_rng(1)
    td = rng.normal(size=60)
    td[5] = 0.0
    del columns["priority"]
    np.savez(tmp_path / "td.npz", **columns, td_error=td)
    read = read_transitions(tmp_path / "td.npz", Reading(alpha=0.7, epsilon=0.25))
    np.testing.assert_allclose(read.masses, (np.abs(td) + 0.25) ** 0.7)
    read = read_transitions(tmp_path / "td.npz", Reading())
    np.testing.assert_allclose(read.masses, (np.abs(td) + 1e-6) ** 0.6)
    np.savez(tmp_path / "both.npz", **columns, td_error=td, priority=np.full(60, 2.0))
    assert set(read_transitions(tmp_path / "both.npz", Reading()).masses) == {2.0**0.6}


def test_targets_come_from_the_file(tmp_path, capsys):
    columns = small_columns()
    q_next = np.random.default_rng(1).normal(size=60)
    ended = columns["terminated"]
    q_next[ended] = np.nan  # there is no next state: it is not used
    np.savez(tmp_path / "q.npz", **columns, q_next=q_next)
    read = read_transitions(tmp_path / "q.npz", Reading(gamma=0.9))
    np.testing.assert_allclose(read.targets, columns["reward"] + 0.9 * np.where(ended, 0, q_next))
    np.savez(tmp_path / "t.npz", **columns, q_next=q_next, target=read.targets)
    made = diagnosis(tmp_path, tmp_path / "q.npz", "--gamma", 0.9)
    assert "stand in" not in capsys.readouterr().out
    assert_close(made, diagnosis(tmp_path, tmp_path / "t.npz"))
    assert not made["summary"]["rewards_as_targets"]
    capsys.readouterr()
    np.savez(tmp_path / "r.npz", **columns)
    rewards = diagnosis(tmp_path, tmp_path / "r.npz")
    assert rewards["summary"]["rewards_as_targets"]
    assert rewards["summary"]["shift"] != pytest.approx(made["summary"]["shift"])
    assert capsys.readouterr().out.startswith("Rewards stand in for Bellman targets")


def test_targets_of_what_a_time_limit_cut_off(tmp_path, capsys):
    columns = small_columns()
    columns["truncated"] = (np.arange(60) % 3 == 0) & ~columns["terminated"]
    np.savez(tmp_path / "q.npz", **columns, q_next=np.full(60, 10.0))
    through = read_transitions(tmp_path / "q.npz", Reading(gamma=0.5))
    ending = read_transitions(tmp_path / "q.npz", Reading(gamma=0.5, through_time_limits=False))
    assert set((through.targets - columns["reward"])[~columns["terminated"]]) == {5.0}
    assert set((ending.targets - columns["reward"])[columns["truncated"]]) == {0.0}
    assert through.target_source == "reward + 0.5 (1 - terminated) q_next"
    assert ending.target_source == "reward + 0.5 (1 - done) q_next"
    told = diagnosis(tmp_path, tmp_path / "q.npz", "--gamma", 0.5, "--no-through-time-limits")
    assert told["summary"]["shift"] != pytest.approx(
        diagnosis(tmp_path, tmp_path / "q.npz", "--gamma", 0.5)["summary"]["shift"]
    )
    capsys.readouterr()
    beyond = np.where(columns["truncated"], np.nan, 1.0)
    np.savez(tmp_path / "nan.npz", **columns, q_next=beyond)
    with pytest.raises(BadFile, match="must be finite, or give --no-through-time-limits"):
        read_transitions(tmp_path / "nan.npz", Reading(gamma=0.5))
    read_transitions(tmp_path / "nan.npz", Reading(gamma=0.5, through_time_limits=False))


def test_discounts_of_several_steps_are_those_of_the_entries(tmp_path):
    fields = {**FIELDS, "q_next": Field(np.dtype(np.float32))}
    buffer = ReplayBuffer(fields, 50, Prioritized(), seed=0, n_steps=3, gamma=0.5)
    for step in range(20):
        buffer.add(np.zeros(2), 0, 1.0, np.zeros(2), step % 7 == 6, False, q_next=8.0)
    buffer.save(tmp_path / "saved.npz")
    read = read_transitions(tmp_path / "saved.npz", Reading())
    stored = buffer.transitions()
    expected = stored["reward"] + stored["discount"] * np.where(stored["terminated"], 0.0, 8.0)
    np.testing.assert_allclose(read.targets, expected)
    assert {0.125, 0.25, 0.5} >= set(stored["discount"].tolist()) > {0.125}
    with pytest.raises(BadFile, match="a discount for each entry: leave --gamma out"):
        read_transitions(tmp_path / "saved.npz", Reading(gamma=0.5))


def test_groups_are_the_columns_one_names(tmp_path):
    columns = small_columns()
    group = np.arange(60) % 4
    np.savez(tmp_path / "g.npz", **columns, group=group, name=np.array(["a", "bc"])[group % 2])
    own = read_transitions(tmp_path / "g.npz", Reading())
    assert own.group_columns == ("group",) and len(set(own.groups)) == 4
    exact = read_transitions(tmp_path / "g.npz", Reading(group_by=("obs", "action")))
    assert len(set(exact.groups)) == len(
        {(*o, a) for o, a in zip(columns["obs"].tolist(), columns["action"].tolist(), strict=True)}
    )
    named = read_transitions(tmp_path / "g.npz", Reading(group_by=("name",)))
    np.testing.assert_array_equal(named.groups, group % 2)
    write_parquet(tmp_path / "g.parquet", {**columns, "name": np.array(["a", "bc"])[group % 2]})
    named = read_transitions(tmp_path / "g.parquet", Reading(group_by=("name",)))
    np.testing.assert_array_equal(named.groups, group % 2)
    data = diagnosis(tmp_path, tmp_path / "g.npz", "--group-by", "name", "action")
    assert data["summary"]["groups"] == 4
    assert data["most_distorted"][0]["label"].startswith("name ")


@pytest.mark.parametrize("key", ["exact", "given", "function", "array function", None])
def test_saved_buffers_are_read_without_their_key_function(tmp_path, key):
    columns = small_columns()
    del columns["priority"]
    given = columns["action"] * 3 % 5
    keys = {
        "function": lambda obs, action: int(obs[0]) * 2 + int(action),
        "array function": lambda obs, action: np.array([obs[0], action], dtype=np.float32),
    }
    strategy = Prioritized() if key is None else SiblingSample()
    buffer = ReplayBuffer(FIELDS, 100, strategy, key=keys.get(key, key), seed=0)
    buffer.extend(**columns, **({"group": given} if key == "given" else {}))
    buffer.save(tmp_path / "b.npz")
    read = read_transitions(tmp_path / "b.npz", Reading())
    np.testing.assert_array_equal(read.masses, buffer.masses)
    first = columns["obs"][:, 0] * 2 + columns["action"]
    expected = {
        "given": given, "function": first, "array function": first,
    }.get(key, (columns["obs"] @ [100, 10]) + columns["action"])  # fmt: skip
    pairs = set(zip(read.groups.tolist(), np.asarray(expected).tolist(), strict=True))
    assert len(pairs) == len(set(read.groups.tolist())) == len(set(np.asarray(expected).tolist()))
    if key is not None:
        pairs = set(zip(read.groups.tolist(), buffer.groups.tolist(), strict=True))
        assert len(pairs) == len(set(read.groups.tolist()))


class Rows(KeyMap):
    """The first element of an observation; the action is left to the buffer."""

    digest = "rows"  # type: ignore[assignment]

    def keys(self, obs, action):
        return obs[:, 0].astype(np.int64)


@pytest.mark.parametrize("key", [Rows(), lambda obs, action: obs[0]], ids=["map", "function"])
def test_siblings_of_a_saved_buffer_share_their_action(tmp_path, key):
    """Which the buffer adds to a key that does not look at it."""
    columns = small_columns()
    del columns["priority"]
    buffer = ReplayBuffer(FIELDS, 100, SiblingSample(), key=key, seed=0)
    buffer.extend(**columns)
    buffer.save(tmp_path / "b.npz")
    read = read_transitions(tmp_path / "b.npz", Reading())
    assert read.group_columns == ("group_key", "action")
    assert len(set(read.groups.tolist())) == 6
    pairs = set(zip(read.groups.tolist(), buffer.groups.tolist(), strict=True))
    assert len(pairs) == len(set(buffer.groups.tolist())) == 6
    given = ReplayBuffer(FIELDS, 100, SiblingSample(), key="given", seed=0)
    given.extend(**columns, group=columns["obs"][:, 0].astype(int))  # which may mix actions
    given.save(tmp_path / "given.npz")
    read = read_transitions(tmp_path / "given.npz", Reading())
    assert read.group_columns == ("group_key",) and len(set(read.groups.tolist())) == 3


def test_transitions_are_grouped_by_the_key_map_of_a_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    shapes = rng.random((5, 10, 10, 4)) < 0.1
    obs = shapes[rng.integers(5, size=60)]
    columns = {**small_columns(), "obs": obs, "next_obs": obs}
    path, encoder = tmp_path / "minatar.npz", shipped_encoder("Breakout")
    np.savez(path, **columns)
    read = read_transitions(path, Reading(key=encoder))
    codes = VQVAE("Breakout").keys(obs)
    _, expected = np.unique(2 * codes + columns["action"], return_inverse=True)
    np.testing.assert_array_equal(read.groups, expected)
    assert read.group_columns == ("key", "action")
    data = diagnosis(tmp_path, path, "--key", encoder)
    assert data["summary"]["groups"] == expected.max() + 1
    assert data["most_distorted"][0]["label"].startswith("key ")
    with pytest.raises(BadFile, match="--key and --group-by both say what makes siblings"):
        read_transitions(path, Reading(key=encoder, group_by=("obs",)))
    with pytest.raises(BadFile, match=r"Seaquest\.npz makes no groups of .*10x10x10 cells"):
        read_transitions(path, Reading(key=shipped_encoder("Seaquest")))
    with pytest.raises(BadFile, match=r"--key .*nowhere\.npz: there is no such file"):
        read_transitions(path, Reading(key=tmp_path / "nowhere.npz"))
    with pytest.raises(BadFile, match=r"minatar\.npz makes no groups of .*complete encoder file"):
        read_transitions(path, Reading(key=path))

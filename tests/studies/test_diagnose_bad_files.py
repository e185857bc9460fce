"""What is wrong with a file is named, and nothing is written."""

from __future__ import annotations

import copy
import pickle
import re
import zipfile

import numpy as np
import polars as pl
import pytest
from diagnose_kit import FIELDS, small_columns, trained_buffer, write_parquet

from sibling_replay import Prioritized, ReplayBuffer
from sibling_replay.microscope.columns import BadFile
from sibling_replay.microscope.transitions import Reading, read_transitions
from support.command import run


def without(name):
    return lambda columns: columns.pop(name)


def at(name, row, value):
    def spoil(columns):
        columns[name] = columns[name].astype(np.float64)
        columns[name][row] = value

    return spoil


def put(**values):
    return lambda columns: columns.update(values)


BAD = {
    "no reward": (without("reward"), (), "missing column reward. It has: obs"),
    "no obs": (without("obs"), (), "missing column obs"),
    "no flags": (lambda c: (c.pop("terminated"), c.pop("truncated")), (),
                 "missing columns terminated, truncated"),
    "no priority": (without("priority"), (), r"missing column td_error \(or priority\)"),
    "short action": (lambda c: c.update(action=c["action"][:-1]), (),
                     "column action has 59 rows, reward has 60"),
    "long flags": (put(truncated=np.zeros(61, dtype=bool)), (),
                   "column truncated has 61 rows, reward has 60"),
    "short priority": (put(priority=np.ones(3)), (), "column priority has 3 rows"),
    "nan priority": (at("priority", 17, np.nan), (), "priority of row 17 is nan"),
    "infinite priority": (at("priority", 3, np.inf), (), "priority of row 3 is inf"),
    "zero priority": (at("priority", 41, 0.0), (), "priority of row 41 is 0.0.*positive"),
    "negative priority": (at("priority", 0, -2.0), (), "priority of row 0 is -2.0.*positive"),
    "huge priority": (at("priority", 9, 1e300), ("--alpha", 2), "priority of row 9 is 1e.300"),
    "nan reward": (at("reward", 5, np.nan), (), "reward of row 5 is nan"),
    "flag of two": (at("terminated", 8, 2), (), "terminated of row 8 is 2.0.*boolean"),
    "flag of a half": (at("truncated", 59, 0.5), (), "truncated of row 59 is 0.5"),
    "flags of strings": (put(truncated=np.array(["no"] * 60)), (),
                         "column truncated must hold numbers"),
    "two flags a row": (put(truncated=np.zeros((60, 2))), (), "column truncated has shape"),
    "objects": (put(obs=np.array([{}] * 60)), (), "column obs"),
    "complex": (put(action=np.ones(60) * 1j), (), "column action must hold numbers"),
    "a scalar": (put(reward=np.float64(1)), (), "column reward has shape"),
    "no elements": (put(obs=np.zeros((60, 0))), (), "column obs has no elements"),
    "two rewards": (put(reward=np.zeros((60, 2))), (), "column reward has shape"),
    "empty": (lambda c: c.update({n: v[:0] for n, v in c.items()}), (), "no transitions"),
    "unknown column": (put(), ("--group-by", "code"),
                       "missing column code.*--group-by.*It has: obs"),
    "gap": (lambda c: c.update(obs_0=c.pop("obs")[:, 0], obs_2=c["action"]), (),
            "missing column obs_1"),
    "twice": (lambda c: c.update(obs_0=c["action"]), (), "both obs and obs_0"),
    "nan td": (lambda c: c.update(td_error=c.pop("priority") * np.nan), (),
               "td_error of row 0 is nan"),
    "zero epsilon": (lambda c: c.update(td_error=c.pop("priority")), ("--epsilon", 0), "--epsilon"),
    "idle epsilon": (put(), ("--epsilon", 0.1), "--epsilon goes with td_error"),
    "idle gamma": (put(), ("--gamma", 0.9), "--gamma goes with q_next"),
    "no gamma": (put(q_next=np.zeros(60)), (), "give --gamma"),
    "bad gamma": (put(q_next=np.zeros(60)), ("--gamma", 1.5), "--gamma must be from 0 to 1"),
    "nan q": (put(q_next=np.full(60, np.nan), terminated=np.arange(60) != 33), ("--gamma", 0.9),
              "q_next of row 33 is nan"),
    "nan target": (put(target=np.r_[np.ones(20), np.nan, np.ones(39)]), (),
                   "target of row 20 is nan"),
    "bad alpha": (put(), ("--alpha", -1), "--alpha must be"),
    "bad beta": (put(), ("--beta", 1.1), "--beta must be"),
    "bad batch": (put(), ("--batch-size", 0), "--batch-size must be at least 1"),
    "bad top": (put(), ("--top", -1), "--top must not be negative"),
    "far apart": (at("priority", 4, 1e-300), ("--alpha", 1), r"\(entry 4\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_file_is_named_and_nothing_is_written(tmp_path, capsys, case):
    spoil, options, message = BAD[case]
    columns = small_columns()
    spoil(columns)
    np.savez(tmp_path / "bad.npz", **columns)
    out = ("--page", tmp_path / "page.html", "--json", tmp_path / "numbers.json")
    assert run("diagnose", tmp_path / "bad.npz", *options, *out) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(message, said.err), said.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


def test_parquet_rows_that_do_not_fit_are_named(tmp_path):
    columns = small_columns()
    frame = pl.DataFrame(
        {name: v.tolist() if v.ndim > 1 else v for name, v in columns.items()}, strict=False
    )
    path = tmp_path / "bad.parquet"
    cases = [
        (pl.Series("obs", [[1.0, 2.0]] * 30 + [[1.0]] + [[1.0, 2.0]] * 29),
         "obs of row 30 has 1 elements, the first row has 2"),
        (pl.Series("obs", [[1.0, 2.0]] * 30 + [None] + [[1.0, 2.0]] * 29),
         r"obs of row 30 is missing \(null\)"),
        (pl.Series("obs", [[1.0, 2.0]] * 30 + [[1.0, None]] + [[1.0, 2.0]] * 29),
         r"obs of row 30 is missing \(null\)"),
        (pl.Series("obs", [[]] * 60, dtype=pl.List(pl.Float32)), "obs has no elements"),
        (pl.Series("priority", [1.0] * 59 + [None]), "priority of row 59 is missing"),
        (pl.Series("reward", ["x"] * 60), "column reward must hold numbers"),
        (pl.Series("truncated", [None] + [False] * 59), "truncated of row 0 is missing"),
    ]  # fmt: skip
    for series, message in cases:
        frame.with_columns(series).write_parquet(path)
        with pytest.raises(BadFile, match=message):
            read_transitions(path, Reading())
    frame.head(0).write_parquet(path)
    with pytest.raises(BadFile, match="no transitions"):
        read_transitions(path, Reading())


def test_foreign_and_damaged_files_are_refused(tmp_path, capsys):
    """Every cut of a good file, random bytes, and files of other kinds."""
    buffer = trained_buffer(steps=600, capacity=60)
    buffer.save(tmp_path / "saved")
    np.savez(tmp_path / "plain", **small_columns())
    write_parquet(tmp_path / "rows", small_columns())
    rng = np.random.default_rng(0)
    bad = tmp_path / "bad"
    for name in ("saved", "plain.npz", "rows"):
        good = (tmp_path / name).read_bytes()
        for cut in (0, 1, 3, 4, 30, len(good) // 2, len(good) - 1):
            bad.write_bytes(good[:cut])
            with pytest.raises(ValueError, match="bad"):
                read_transitions(bad, Reading())
        for _ in range(30):  # any bit may flip: an error, or the bit did not matter
            flipped = bytearray(good)
            for place in rng.integers(len(good), size=8):
                flipped[place] ^= 1 << int(rng.integers(8))
            bad.write_bytes(flipped)
            try:
                read = read_transitions(bad, Reading())
            except ValueError:
                continue
            assert np.isfinite(read.masses).all() and (read.masses > 0).all()
    for content in (b"", b"hello", b"PK\x03\x04" + rng.bytes(100), b"PAR1" + rng.bytes(100)):
        bad.write_bytes(content)
        assert run("diagnose", bad) == 2
    assert run("diagnose", tmp_path / "nowhere.npz") == 2
    assert run("diagnose", tmp_path) == 2
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    assert "is empty" in said.err and "nowhere.npz: No such file" in said.err


def test_a_pickle_is_not_opened_and_the_way_from_sb3_is_named(tmp_path, capsys):
    """What SB3's save_replay_buffer writes."""
    (tmp_path / "buffer.pkl").write_bytes(pickle.dumps({"reward": np.zeros(3)}))
    assert run("diagnose", tmp_path / "buffer.pkl") == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "a pickle" in said and "sibling_replay.integrations.sb3.export(model, path)" in said


def test_options_that_do_not_fit_a_saved_buffer_are_refused(tmp_path, capsys):
    trained_buffer(steps=600, capacity=100).save(tmp_path / "b")
    for option, message in [
        (("--alpha", 0.5), "was saved with alpha = 0.6"),
        (("--epsilon", 0.5), "--epsilon goes with td_error"),
        (("--gamma", 0.5), "--gamma goes with q_next"),
        (("--group-by", "code"), "missing column code"),
    ]:
        assert run("diagnose", tmp_path / "b", *option) == 2
        assert message in capsys.readouterr().err
    assert run("diagnose", tmp_path / "b", "--alpha", 0.6) == 0
    ReplayBuffer(FIELDS, 10, Prioritized()).save(tmp_path / "none")
    assert run("diagnose", tmp_path / "none") == 2
    assert "the buffer is empty" in capsys.readouterr().err


CASTS = {
    "Decimal": (pl.Decimal(10, 2), "cast it to Float64"),
    "Categorical": (pl.Categorical(), "cast it to String"),
    "Enum": (pl.Enum(["1", "2"]), "cast it to String"),
    "Date": (pl.Date(), "cast it to Int64"),
    "Binary": (pl.Binary(), "must hold numbers or strings"),
}


@pytest.mark.parametrize("name", CASTS)
def test_parquet_types_that_cannot_be_read_are_named_with_what_to_do(tmp_path, name):
    dtype, advice = CASTS[name]
    values = pl.Series("reward", ["1", "2"] * 30)
    if name in ("Decimal", "Date"):
        values = values.cast(pl.Int32)
    frame = pl.DataFrame(
        {name: v.tolist() if v.ndim > 1 else v for name, v in small_columns().items()}
    )
    path = tmp_path / "typed.parquet"
    frame.with_columns(values.cast(dtype)).write_parquet(path)
    with pytest.raises(BadFile, match=rf"column reward is of the Parquet type {name}.*{advice}"):
        read_transitions(path, Reading())
    lists = pl.Series("obs", [[value, value] for value in values], dtype=pl.List(values.dtype))
    frame.with_columns(lists.cast(pl.List(dtype))).write_parquet(path)
    with pytest.raises(BadFile, match=rf"column obs is of the Parquet type {name}.*{advice}"):
        read_transitions(path, Reading())


def test_a_small_file_that_unpacks_to_much_is_refused_unread(tmp_path, capsys, monkeypatch):
    columns = small_columns()
    columns["obs"] = np.zeros((60, 1_500_000), np.uint8)  # 90 MB in 90 kB
    np.savez_compressed(tmp_path / "bomb.npz", **columns)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("read"))
    assert run("diagnose", tmp_path / "bomb.npz") == 2
    said = capsys.readouterr()
    assert said.out == "" and "bytes and says that it unpacks to 90," in said.err
    monkeypatch.undo()
    columns["obs"] = columns["obs"][:, :150_000]  # as well compressed, but little
    np.savez_compressed(tmp_path / "small.npz", **columns)
    assert read_transitions(tmp_path / "small.npz", Reading()).columns["obs"].shape == (60, 150_000)


def test_columns_that_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / "shared.npz"
    np.savez(path, **small_columns())
    with zipfile.ZipFile(path, "a") as archive:
        again = copy.copy(archive.getinfo("obs.npy"))
        again.filename = "more.npy"
        archive.filelist.append(again)
        archive._didModify = True
    with pytest.raises(BadFile, match="overlaps another member"):
        read_transitions(path, Reading())

"""`diagnose --ladder`: every rung against its map, its choice against `Auto`'s; how it is shown."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from diagnose_kit import columns_of, played_buffer, small_columns

from sibling_replay import Prioritized
from sibling_replay.diagnostics import rare_outcome
from sibling_replay.grouping import Grid, KMeans, SimHash, choose, support
from sibling_replay.microscope.ladder import parse_ladder
from support.command import run

LADDER = ("grid:2..6", "simhash:4..9", "kmeans:8..30")
KEYS = ["exact", "grid:2", "grid:3", "grid:4", "grid:6", "simhash:4", "simhash:6", "simhash:8",
        "simhash:9", "kmeans:8", "kmeans:16", "kmeans:30"]  # fmt: skip
KINDS = {"grid": Grid, "simhash": SimHash, "kmeans": KMeans}


@pytest.fixture(scope="module")
def buffer():
    return played_buffer("CartPole-v1", "exact", strategy=Prioritized())


@pytest.fixture(scope="module")
def ladder(buffer, tmp_path_factory):
    """File, page, JSON and text of one run."""
    folder = tmp_path_factory.mktemp("ladder")
    buffer.save(folder / "cartpole.npz")
    page, numbers = folder / "p.html", folder / "n.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        assert run("diagnose", folder / "cartpole.npz", "--ladder", *LADDER, "--page", page,
                   "--json", numbers) == 0  # fmt: skip
    return page.read_text(), json.loads(numbers.read_text())["ladder"]


def fitted(key, buffer):
    kind, size = key.split(":")
    rows = buffer.transitions()
    return KINDS[kind](int(size)).fit(rows["obs"], rows["action"])


def test_rungs_of_a_range():
    assert parse_ladder(["grid:2..16"]) == {"grid": [f"grid:{b}" for b in (2, 3, 4, 6, 8, 12, 16)]}
    assert parse_ladder(["SimHash:4..9"]) == {"simhash": [f"simhash:{b}" for b in (4, 6, 8, 9)]}
    assert parse_ladder(["kmeans:64..1024"]) == {
        "kmeans": [f"kmeans:{k}" for k in (64, 128, 256, 512, 1_024)]
    }
    assert parse_ladder(["kmeans:3..13"]) == {"kmeans": [f"kmeans:{k}" for k in (3, 6, 12, 13)]}
    assert parse_ladder(["grid:5", "grid:2"]) == {"grid": ["grid:2", "grid:5"]}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("grid", "no range of maps"),
        ("auto", "no range of maps"),
        ("grid:2-4", "no range of maps"),
        ("grid:8..2", "goes down"),
        ("grid:0..2", "bins must be a whole number from 1"),
        ("simhash:4..99", "bits must be a whole number from 1 to 62"),
    ],
)
def test_what_is_no_ladder_is_refused(word, message, tmp_path, capsys):
    np.savez(tmp_path / "c.npz", **small_columns())
    assert run("diagnose", tmp_path / "c.npz", "--ladder", "grid:2..3", word) == 2
    said = capsys.readouterr()
    assert message in re.sub(r"\s+", " ", said.err) and said.out == ""


def test_every_rung_is_its_map_fitted_to_the_file(buffer, ladder):
    _, data = ladder
    rows, mass = buffer.transitions(), buffer.masses
    rare = rare_outcome(rows["reward"], mass)
    assert data["rare_outcome"] == "reward 31" and data["prioritized_ratio"] == rare.ratio > 2
    assert [rung["key"] for rung in data["rungs"]] == KEYS
    for rung in data["rungs"][1:]:
        found = support(fitted(rung["key"], buffer), rows["obs"], rows["action"])
        assert rung["groups_per_entry"] == found.groups_per_entry
        assert rung["median_bucket"] == found.median_bucket
        assert rung["in_hundreds"] == found.in_hundreds <= rung["in_tens"] <= 1
        expected = 1 + (rare.ratio - 1) * found.groups_per_entry
        assert rung["predicted_ratio"] == pytest.approx(expected)
        # rewards are at random, so siblings share their law
        assert rung["measured_ratio"] == pytest.approx(expected, rel=0.25)
        assert 0 < rung["microseconds_a_key"] < 1_000
    exact = data["rungs"][0]
    assert exact["groups_per_entry"] > 0.99
    assert exact["measured_ratio"] == pytest.approx(rare.ratio, rel=0.02)


def test_it_takes_what_auto_would_among_the_rungs(buffer, ladder):
    _, data = ladder
    rows = buffer.transitions()
    ladders = {
        kind.__name__: [fitted(key, buffer) for key in KEYS if key.startswith(word)]
        for word, kind in KINDS.items()
    }
    taken, choice = choose(ladders, rows["obs"], rows["action"], buffer.masses, 0.02)
    assert data["taken"]["key"] == repr(taken) == choice.key
    assert data["taken"]["reason"] == choice.reason
    assert data["taken"]["rung"] in KEYS
    rung = data["rungs"][KEYS.index(data["taken"]["rung"])]
    assert rung["groups_per_entry"] == choice.groups_per_entry <= 0.02


def test_the_text_has_a_line_a_rung_in_80_columns(buffer, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    buffer.save(tmp_path / "b.npz")
    assert run("diagnose", tmp_path / "b.npz", "--ladder", *LADDER, "--top", 0) == 0
    said = capsys.readouterr().out
    lines = said[said.index("A ladder of key maps") :].splitlines()
    assert lines[1].split() == ["map", "G/N", "median", "10+", "100+", "R", "law", "R", "prio",
                                "rew", "end", "mixed", "us"]  # fmt: skip
    rows = [line.replace(" *", "").split() for line in lines[2 : 2 + len(KEYS)]]
    assert [row[0] for row in rows] == KEYS and {len(row) for row in rows} == {12}
    assert max(map(len, said.splitlines())) <= 80
    starred = [line.split()[0] for line in lines[2 : 2 + len(KEYS)] if " *" in line]
    assert f"* It would take {starred[0]}: " in said and len(starred) == 1
    assert run("diagnose", tmp_path / "b.npz") == 0
    assert "ladder" not in capsys.readouterr().out


def test_the_page_draws_every_rung_twice_and_needs_no_network(ladder):
    page, data = ladder
    assert page.count("<svg") == 2 and "http" not in page
    circle = r'<circle class="(\w+)" cx="([\d.]+)" cy="([\d.]+)" r="5"><title>(\S+) '
    marks = re.findall(circle, page)
    assert [mark[3].rstrip(":") for mark in marks] == KEYS + KEYS
    assert [mark[0] for mark in marks] == [key.split(":")[0] for key in KEYS] * 2
    assert all(52 <= float(x) <= 504.1 and 16 <= float(y) <= 252 for _, x, y, _ in marks)
    shares = [rung["groups_per_entry"] for rung in data["rungs"]]
    places = [float(mark[1]) for mark in marks[: len(KEYS)]]
    assert np.corrcoef(np.log(shares), places)[0, 1] > 0.9999  # a logarithmic axis
    assert page.count('class="ring"') == 2 and page.count("<tr class=taken>") == 1
    assert page.count('class="law"') == 1


def test_real_actions_and_targets_and_a_ladder_too_fine(tmp_path):
    """Pendulum: the action is a dimension. Targets that depend on the place mix every group."""
    buffer = played_buffer("Pendulum-v1", "exact", 1_500, Prioritized())
    columns = columns_of(buffer)
    columns["target"] = columns["obs"][:, 1].astype(float)
    np.savez(tmp_path / "p.npz", **columns)
    target = tmp_path / "n.json"
    words = ("grid:2", "grid:12")
    assert run("diagnose", tmp_path / "p.npz", "--ladder", *words, "--json", target) == 0
    data = json.loads(target.read_text())["ladder"]
    _, coarse, fine = data["rungs"]
    assert coarse["groups"] <= 16 < fine["groups"]
    assert coarse["heterogeneous_draws"] > 0.9 and data["tested"] == "target"
    assert data["taken"]["rung"] == "grid:2"
    assert run("diagnose", tmp_path / "p.npz", "--ladder", "grid:12", "--json", target) == 0
    data = json.loads(target.read_text())["ladder"]
    assert data["taken"]["rung"] == "action" and data["taken"]["key"] == "Grid(bins=1)"


def test_observations_that_are_not_finite_are_named(tmp_path, capsys):
    spoilt = small_columns()
    spoilt["obs"][7, 1] = np.inf
    np.savez(tmp_path / "c.npz", **spoilt)
    assert run("diagnose", tmp_path / "c.npz", "--ladder", "grid:2") == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "--ladder makes no groups" in said and "dimension 1 of row 7 is inf" in said

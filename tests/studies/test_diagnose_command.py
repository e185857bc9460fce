"""`sibling-replay diagnose` as a user meets it: text, page, numbers, and the live buffer."""

from __future__ import annotations

import html.parser
import json
import re
import stat
import subprocess
import sys

import numpy as np
import pytest
from diagnose_kit import columns_of, small_columns, trained_buffer

from sibling_replay import SiblingSample
from sibling_replay.diagnostics import (
    effective_sample_size,
    examine,
    judge,
    most_distorted,
    summarize,
)
from sibling_replay.strategies.laws import sibling_probabilities
from support.command import run


@pytest.fixture(scope="module")
def buffer():
    return trained_buffer()


def test_a_real_bandit_buffer_is_distorted(buffer, tmp_path, capsys):
    """The numbers of the risky arm, counted by hand: the shift is 100 (q - f)."""
    buffer.save(tmp_path / "bandit.npz")
    assert run("diagnose", tmp_path / "bandit.npz", "--json", tmp_path / "n.json") == 0
    said = capsys.readouterr().out
    data = json.loads((tmp_path / "n.json").read_text())
    stored = buffer.transitions()
    risky, rare = stored["action"] == 1, stored["reward"] == 100
    f = rare[risky].mean()
    q = buffer.masses[rare].sum() / buffer.masses[risky].sum()
    drawn = buffer.masses[risky].sum() / buffer.masses.sum()
    assert q > 3 * f > 0
    assert data["verdict"]["name"] == "distorted"
    assert data["summary"]["tv"] == pytest.approx(drawn * (q - f))
    assert data["summary"]["shift"] == pytest.approx(100 * drawn * (q - f))
    (worst,) = data["most_distorted"]
    assert worst["label"] == "obs 0, action 1"
    assert worst["siblings"] == risky.sum() and worst["probability"] == pytest.approx(drawn)
    by_reward = {round(outcome["target"]): outcome for outcome in worst["outcomes"]}
    assert by_reward[100]["count"] == rare.sum()
    assert by_reward[100]["frequency"] == pytest.approx(f)
    assert by_reward[100]["probability"] == pytest.approx(q)
    assert "Distorted: " in said and "obs 0, action 1" in said
    assert re.search(r"reward 100, next_obs 0, terminated", said)


def test_the_live_buffer_tells_the_same_and_is_left_alone(buffer, tmp_path):
    before = buffer.state_dict()
    findings = examine(buffer, beta=0.4)
    found = summarize(findings)
    after = buffer.state_dict()
    assert before.keys() == after.keys() and before["header"] == after["header"]
    for name in before.keys() - {"header"}:
        np.testing.assert_array_equal(before[name], after[name])
    buffer.save(tmp_path / "b")
    assert run("diagnose", tmp_path / "b", "--json", tmp_path / "n.json") == 0
    data = json.loads((tmp_path / "n.json").read_text())
    assert data["verdict"]["name"] == judge(found).name
    assert data["summary"]["tv"] == found.tv
    assert [g["tv"] for g in data["most_distorted"]] == [g.tv for g in most_distorted(findings)]


def test_sample_on_the_same_buffer_replays_what_is_stored(buffer):
    """Its law as masses: no TV, no shift, the same groups as often."""
    per = examine(buffer)
    trained = sibling_probabilities(buffer.masses, per.groups)

    class Drawn:
        masses, groups = trained, per.groups
        transitions = staticmethod(buffer.transitions)

    sample = examine(Drawn())
    assert summarize(per).tv > 0.02
    np.testing.assert_allclose(sample.tv, 0, atol=1e-12)
    np.testing.assert_allclose(sample.shift, 0, atol=1e-9)
    np.testing.assert_allclose(sample.census.group_probability, per.census.group_probability)


@pytest.mark.parametrize("sibling", [False, True], ids=["PER", "SAMPLE"])
def test_the_ess_is_that_of_our_minibatches(sibling):
    """On average; ours are stratified, so they vary a little less."""
    options = {"strategy": SiblingSample(alpha=0.6)} if sibling else {"key": "exact"}
    buffer = trained_buffer(steps=1_000, capacity=800, **options)
    found = summarize(examine(buffer, beta=0.7, batch_size=16))
    expected = found.sibling_ess if sibling else found.prioritized_ess
    observed = [effective_sample_size(buffer.sample(16, beta=0.7).weights) for _ in range(4_000)]
    assert np.mean(observed) == pytest.approx(expected, rel=0.02)
    assert expected < 15.5


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects text, tags and addresses."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.addresses = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.words += data.split()


def test_the_page_is_valid_self_contained_and_says_what_the_text_says(tmp_path, capsys):
    columns = columns_of(trained_buffer(steps=1_500, capacity=1_000))
    np.savez(tmp_path / "<b>&.npz", **columns)
    page = tmp_path / "made" / "page.html"
    assert run("diagnose", tmp_path / "<b>&.npz", "--page", page) == 0
    said = capsys.readouterr().out
    content = page.read_text()
    assert content.startswith("<!DOCTYPE html>")
    read = Page(content)
    assert "script" not in read.tags and "link" not in read.tags and read.addresses == []
    assert not re.search(r"https?:|//|@import|url\(", content.split("<body>")[0].replace("</", ""))
    assert "http" not in content
    assert "prefers-color-scheme: dark" in content and "width=device-width" in content
    assert "<b>&.npz" in " ".join(read.words)  # shown, not obeyed
    assert " ".join(read.words).startswith("Rewards stand in for Bellman targets")

    def numbers(text):
        return re.findall(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?%?", text)

    # every number of the text is on the page, as often, and no other
    shown = numbers(" ".join(read.words))
    told = numbers(said.replace("█", ""))
    assert len(told) > 60
    assert sorted(shown) == sorted(told)
    bars = [float(w) for w in re.findall(r'class="bar \w+" style="width: ([\d.]+)%"', content)]
    assert bars and all(0 <= width <= 100 for width in bars)


def test_it_fits_eighty_columns_in_a_pipe(tmp_path):
    np.savez(tmp_path / "small.npz", **small_columns())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sibling_replay", "diagnose", "small.npz"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
    assert lines[0].startswith("Rewards stand in") and any("10. " in line for line in lines)


def test_top_groups_and_no_group(tmp_path, capsys):
    columns = small_columns()
    np.savez(tmp_path / "a.npz", **columns)
    assert run("diagnose", tmp_path / "a.npz", "--top", 2) == 0
    said = capsys.readouterr().out
    assert "\n2. obs" in said and "\n3. obs" not in said
    columns["priority"][:] = 2.0
    np.savez(tmp_path / "even.npz", **columns)
    assert run("diagnose", tmp_path / "even.npz", "--page", tmp_path / "p.html") == 0
    nothing = "In no group does PER bend the frequencies of outcomes."
    assert nothing in capsys.readouterr().out and nothing in (tmp_path / "p.html").read_text()


def test_nothing_is_written_over_what_is_read(tmp_path, capsys):
    path = tmp_path / "a.npz"
    np.savez(path, **small_columns())
    before = path.read_bytes()
    assert run("diagnose", path, "--page", path) == 2
    assert run("diagnose", path, "--json", tmp_path / "." / "a.npz") == 2
    assert run("diagnose", path, "--json", tmp_path / "x", "--page", tmp_path / "x") == 2
    assert "is the same file as" in capsys.readouterr().err
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_written_is_an_error(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **small_columns())
    (tmp_path / "file").write_text("in the way")
    assert run("diagnose", tmp_path / "a.npz", "--page", tmp_path / "file" / "p.html") == 2
    assert "cannot write" in capsys.readouterr().err
    (tmp_path / "taken").mkdir()
    assert run("diagnose", tmp_path / "a.npz", "--page", tmp_path / "taken") == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "file", "taken"]
    assert not stat.S_ISREG((tmp_path / "taken").stat().st_mode)


def test_no_groups_asked_for_are_not_no_groups_bent(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **small_columns())
    assert run("diagnose", tmp_path / "a.npz", "--top", 0) == 0
    said = capsys.readouterr().out
    assert "In no group" not in said and "hold most of the misplaced" not in said

"""The page of `diagnose --ladder` in a real Chromium, from a file, offline."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from chromium import EVERY, NARROW, WIDE, Reader, brightness

from sibling_replay import cli

pytestmark = pytest.mark.browser

KEYS = ["exact", "grid:2", "grid:3", "grid:4", "grid:6", "grid:8", "simhash:4", "simhash:6",
        "simhash:8", "kmeans:16", "kmeans:32", "kmeans:64"]  # fmt: skip


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """The page of 3,000 entries with a rare reward, and its numbers."""
    folder = tmp_path_factory.mktemp("ladder")
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(3_000, 4))
    reward = np.where(rng.random(3_000) < 0.02, 31.0, 1.0)
    ends = rng.random(3_000) < 0.05
    np.savez(
        folder / "made.npz", obs=obs, action=rng.integers(2, size=3_000), reward=reward,
        next_obs=obs, terminated=ends, truncated=np.zeros(3_000, bool),
        td_error=reward * np.exp(obs[:, 0] / 2),
    )  # fmt: skip
    page, numbers = folder / "ladder.html", folder / "ladder.json"
    words = ("grid:2..8", "simhash:4..8", "kmeans:16..64")
    with pytest.raises(SystemExit) as stop:
        cli.main(["diagnose", str(folder / "made.npz"), "--ladder", *words, "--page", str(page),
                  "--json", str(numbers)])  # fmt: skip
    assert not stop.value.code
    return page, json.loads(numbers.read_text())["ladder"]


@pytest.fixture(scope="module")
def readers(browser, ladder):
    return {
        (width, scheme): Reader(browser, ladder[0], width, scheme, ".plots svg")
        for width, scheme in EVERY
    }


MARKS = """[...document.querySelectorAll(".plots svg")].map((svg) => {
    const inside = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("circle:not(.ring)")].map((mark) => {
        const box = mark.getBoundingClientRect();
        const seen = box.width > 3 && box.left >= inside.left && box.right <= inside.right + 1
            && box.top >= inside.top && box.bottom <= inside.bottom;
        return [mark.querySelector("title").textContent.split(":").slice(0, -1).join(":"), seen,
                (box.left + box.right) / 2 - inside.left, (box.top + box.bottom) / 2 - inside.top];
    });
})"""


@pytest.mark.parametrize("how", EVERY)
def test_loads_with_no_complaint_and_no_request(readers, ladder, how):
    assert readers[how].trouble == []
    assert readers[how].requests == [ladder[0].as_uri()]


@pytest.mark.parametrize("how", EVERY)
def test_every_rung_is_seen_in_both_plots(readers, ladder, how):
    _, numbers = ladder
    panels = readers[how].value(MARKS)
    assert len(panels) == 2
    for marks in panels:
        assert [mark[0] for mark in marks] == KEYS
        assert all(seen for _, seen, *_ in marks)
        shares = [math.log(rung["groups_per_entry"]) for rung in numbers["rungs"]]
        assert np.corrcoef(shares, [mark[2] for mark in marks])[0, 1] > 0.9999
    ratios = [rung["measured_ratio"] for rung in numbers["rungs"]]
    assert np.corrcoef(ratios, [mark[3] for mark in panels[0]])[0, 1] < -0.9999
    gains = [max(0.0, rung["explained_priority"]) for rung in numbers["rungs"]]
    assert np.corrcoef(gains, [mark[3] for mark in panels[1]])[0, 1] < -0.9999


def test_the_law_is_drawn_through_what_it_predicts(readers, ladder):
    _, numbers = ladder
    points = readers[WIDE, "light"].value(
        """[...document.querySelector(".plots .law").points].map((p) => [p.x, p.y])"""
    )
    x, y = np.array(points).T
    marks = readers[WIDE, "light"].value(
        """[...document.querySelector(".plots svg").querySelectorAll("circle:not(.ring)")].map(
            (c) => [c.cx.baseVal.value, c.cy.baseVal.value])"""
    )
    (exact_x, exact_y), *_ = marks
    rungs = numbers["rungs"]
    scale = (exact_y - marks[1][1]) / (rungs[0]["measured_ratio"] - rungs[1]["measured_ratio"])
    for (mark_x, mark_y), rung in zip(marks, rungs, strict=True):
        predicted = mark_y + scale * (rung["predicted_ratio"] - rung["measured_ratio"])
        assert np.interp(mark_x, x, y) == pytest.approx(predicted, abs=1.5)
    assert exact_x == pytest.approx(x.max(), abs=1.0)


@pytest.mark.parametrize("how", EVERY)
def test_page_does_not_scroll_sideways(readers, how):
    assert readers[how].value("document.documentElement.scrollWidth") <= how[0]


def test_the_table_has_every_column_and_scrolls_inside_its_box(readers, ladder):
    rows = """[...document.querySelectorAll(".wide tr")].map(
        (row) => [...row.children].map((cell) => cell.textContent))"""
    head, *body = readers[WIDE, "light"].value(rows)
    assert head == ["map", "G/N", "median", "10+", "100+", "R law", "R", "prio", "rew", "end",
                    "mixed", "us"]  # fmt: skip
    assert [row[0] for row in body] == KEYS and {len(row) for row in body} == {len(head)}
    taken = """[...document.querySelectorAll(".wide .taken td:first-child")].map(
        (cell) => cell.textContent)"""
    assert readers[WIDE, "light"].value(taken) == [ladder[1]["taken"]["rung"]]
    inner, outer = readers[NARROW, "light"].value(
        """(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(
            document.querySelector(".wide"))"""
    )
    assert inner > outer
    lines = """[...document.querySelectorAll(".wide td:first-child")].map((cell) => {
        const words = document.createRange();
        words.selectNodeContents(cell);
        return words.getClientRects().length;
    })"""
    assert set(readers[NARROW, "light"].value(lines)) == {1}  # names are not broken


def test_the_rung_taken_is_ringed_and_the_choice_is_told(readers, ladder):
    panels = readers[WIDE, "light"].value(MARKS)
    rings = readers[WIDE, "light"].value(
        """[...document.querySelectorAll(".ring")].map((ring) => {
            const box = ring.getBoundingClientRect();
            const inside = ring.closest("svg").getBoundingClientRect();
            return (box.left + box.right) / 2 - inside.left;
        })"""
    )
    taken = ladder[1]["taken"]
    place = KEYS.index(taken["rung"])
    assert rings == pytest.approx([marks[place][2] for marks in panels], abs=0.1)
    text = readers[NARROW, "dark"].page.locator("main").inner_text()
    assert f"It would take {taken['rung']}: {taken['reason']}" in text


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_light_and_dark_differ_in_page_and_plots(readers, width):
    colours = """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector(".plots text")).fill,
        getComputedStyle(document.querySelector("circle.exact")).fill]"""
    light, dark = (readers[width, scheme].value(colours) for scheme in ("light", "dark"))
    assert brightness(light[0]) > 240 > 60 > brightness(dark[0])
    for place in (1, 2):
        assert brightness(light[place]) < 110 < 140 < brightness(dark[place])


def test_kinds_differ_in_colour_as_the_legend_says(readers):
    for scheme in ("light", "dark"):
        marks, legend = readers[WIDE, scheme].value(
            """[(kind) => getComputedStyle(document.querySelector(`circle.${kind}`)).fill,
                (kind) => getComputedStyle(document.querySelector(`.key i.${kind}`)).backgroundColor
            ].map((colour) => ["exact", "grid", "simhash", "kmeans"].map(colour))"""
        )
        assert marks == legend and len(set(marks)) == 4


def test_plots_have_names_for_those_who_do_not_see_them(readers):
    names = readers[WIDE, "light"].value(
        """[...document.querySelectorAll(".plots svg")].map((e) => e.getAttribute("aria-label"))"""
    )
    assert names == ["R of reward 31, measured and predicted, by G/N",
                     "variance of priority explained, by G/N"]  # fmt: skip

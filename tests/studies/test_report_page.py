"""The page and its files: self-contained, escaped, legible, the same bytes every time."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from report_runs import NOTHING

from sibling_replay.report import build, page
from sibling_replay.report.style import DIVERGING, STYLES
from sibling_replay.studies import chapters


def test_the_page_says_what_was_not_run(report):
    text = page.render(report)
    assert "FrozenLake-H50: none of 60 runs" in text
    assert "sibling-replay reproduce exact --env FrozenLake-H100/H300 FrozenLake-H50" in text
    nothing = page.render(build.build(NOTHING, ""))
    assert (
        "No published mean has been compared yet" in nothing and "[data-plot" not in nothing[:999]
    )
    assert nothing.count("<strong>Not run.</strong>") == sum(len(s.entries) for s in chapters())
    assert "Plotly.js" not in nothing and len(nothing) < 200_000  # no plot, no library


def test_page_is_one_file_that_fetches_nothing(report):
    text = page.render(report)
    assert text.startswith("<!doctype html>")
    own = text.split('<script type="application/json"')[0]
    assert not re.search(r'(src|href)="(?!#|figures/|tables/|data:)', own)
    assert "@import" not in own and "url(" not in own
    total = report.count
    assert f"<b>{total.within} of {total.compared}</b> published means within" in text
    plots = re.findall(r'data-plot="(\d+)"', text)
    panels = sum(len(artefact.figure.panels) for artefact in report.artefacts if artefact.figure)
    assert plots == [str(place) for place in range(panels)]


def test_identifiers_are_unique_and_links_lead_somewhere(report):
    text = page.render(report).split('<script type="application/json"')[0]
    found = re.findall(r'\bid="([^"]+)"', text)
    assert len(found) == len(set(found))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(found)


def test_hostile_text_is_escaped(frames):
    made = build.build(frames, "<script>alert(1)</script>")
    text = page.render(made)
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert page.embedded({"name": "</script>"}) == '{"name":"\\u003c/script>"}'


def test_plot_numbers_are_short_and_never_nan():
    data = page.embedded([1 / 3, math.nan, math.inf, 7, {"x": (1e-9 / 3,)}])
    assert data == '[0.333333,null,null,7,{"x":[3.33333e-10]}]'


@pytest.mark.long
def test_same_runs_same_bytes_and_no_stale_files(tmp_path, report, frames):
    first = build.write(report, tmp_path / "a")
    again = build.write(build.build(frames, report.command), tmp_path / "b")
    names = [path.relative_to(tmp_path / "a").as_posix() for path in first]
    assert names == [path.relative_to(tmp_path / "b").as_posix() for path in again]
    assert {"index.html", "figures/exact-results.pdf", "tables/target-shifts.tex"} <= set(names)
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert str(tmp_path).encode() not in one.read_bytes()
    build.write(build.build(NOTHING, ""), tmp_path / "a")
    left = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert left == [tmp_path / "a" / "index.html"]


def variables(scheme):
    """The page's CSS variables that are colours, as the reader of a scheme has them."""
    css = page._template("style.css")
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", css)[:2]
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    if scheme == "dark":
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark))
    return found


def contrast(one, other):
    """WCAG 2 contrast ratio of two colours."""

    def luminance(colour):
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible(scheme):
    colour = variables(scheme)
    for ink, back in itertools.product(("ink", "ink-soft", "link"), ("page", "surface", "sunken")):
        assert contrast(colour[ink], colour[back]) >= 4.5, (ink, back)
    for word in ("within", "near", "apart"):
        assert contrast(colour[f"{word}-ink"], colour[f"{word}-back"]) >= 4.5, word
    for shade in DIVERGING[scheme]:
        assert contrast(colour["ink"], shade) >= 4.5, shade


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [name for name in STYLES if name != "alpha-1"])
def test_marks_stand_out(scheme, name):
    """3:1 is WCAG's floor for graphics; the faintest exponent of the sweep may be fainter."""
    assert contrast(getattr(STYLES[name], scheme), variables(scheme)["surface"]) >= 3.0

"""The report in a real Chromium, from a file, offline.

It is of the committed results, with hand-made MinAtar runs of two lengths, so that all of its
artefacts are there whatever has been run.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from chromium import EVERY, NARROW, WIDE, Reader, brightness

from sibling_replay.artefacts.panels import HeatPanel
from sibling_replay.envs import GAMES
from sibling_replay.grouping.vqvae.files import paper_codes
from sibling_replay.report import build
from sibling_replay.studies.minatar.coverage import PAPER_STEPS
from sibling_replay.studies.minatar.encoders import no_support
from sibling_replay.studies.minatar.runs import PER_RATES
from sibling_replay.training.minatar.config import CONDITIONS, MINATAR_METHODS
from support.minatar_frames import SHORT, encoder_row, row, stack, trial
from support.studies import load_frames

pytestmark = pytest.mark.browser

RESULTS = Path(__file__).parents[2] / "results"


def minatar_frames():
    """All games, methods and conditions, three seeds, half of it at the paper's length as well."""
    rows = [
        row(game, method, seed, 10.0 * place + seed, condition, steps=steps)
        for steps, games in ((SHORT, tuple(GAMES)), (PAPER_STEPS, tuple(GAMES)[:2]))
        for game in games
        for place, method in enumerate(MINATAR_METHODS)
        for seed in range(3)
        for condition in CONDITIONS
    ]
    trials = [trial("Breakout", "PER", rate, rate) for rate in PER_RATES]
    encoders = [
        encoder_row(game, paper_codes(game), seed=seed) for game in GAMES for seed in (0, 1)
    ]
    return {
        "minatar": stack(*rows),
        "minatar-rates": stack(*trials),
        "vqvae": pl.DataFrame(encoders, schema=no_support().schema),
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    frames = {**load_frames(RESULTS, collected=True), **minatar_frames()}
    made = build.build(frames, "sibling-replay report --results results")
    build.write(made, out)
    return made, out / "index.html"


@pytest.fixture(scope="module")
def readers(browser, report):
    return {
        (width, scheme): Reader(browser, report[1], width, scheme, "html[data-plots=drawn]")
        for width in (WIDE, NARROW)
        for scheme in ("light", "dark")
    }


@pytest.mark.parametrize("how", EVERY)
def test_loads_with_no_complaint_and_no_request(readers, report, how):
    reader = readers[how]
    assert reader.trouble == []
    others = [url for url in reader.requests if not url.startswith(("data:", "blob:"))]
    assert others == [report[1].as_uri()]


@pytest.mark.parametrize("how", EVERY)
def test_every_plot_is_drawn(readers, report, how):
    panels = [panel for a in report[0].artefacts if a.figure for panel in a.figure.panels]
    reader = readers[how]
    sizes = reader.value(
        """[...document.querySelectorAll("[data-plot]")].map((place) => {
            const marks = ".scatterlayer .trace, .heatmaplayer image";
            const box = place.querySelector(".main-svg").getBoundingClientRect();
            return [box.width, box.height, place.querySelectorAll(marks).length];
        })"""
    )
    assert len(sizes) == len(panels) > 0
    for panel, (width, height, marks) in zip(panels, sizes, strict=True):
        assert 180 < width <= how[0] and 200 < height and marks > 0
        rows = len(panel.cells) if isinstance(panel, HeatPanel) else 0
        assert height < 400 or height < 30 * rows, "a row of a grid needs a line"


@pytest.mark.parametrize("how", EVERY)
def test_page_does_not_scroll_sideways(readers, how):
    assert readers[how].value("document.documentElement.scrollWidth") <= how[0]


@pytest.mark.parametrize("how", EVERY)
def test_screenshot_has_the_size_of_the_page(readers, how, tmp_path):
    reader = readers[how]
    image = reader.page.screenshot(path=tmp_path / "page.png", full_page=True)
    width, height = (int.from_bytes(image[at : at + 4], "big") for at in (16, 20))  # PNG header
    assert width == how[0] and height == reader.value("document.documentElement.scrollHeight")
    assert 3_000 < height < 60_000
    assert len(image) > 100_000  # an empty page compresses to almost nothing


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_light_and_dark_differ_in_page_and_plots(readers, width):
    colours = """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector(".xtick text")).fill]"""
    light, dark = (readers[width, scheme].value(colours) for scheme in ("light", "dark"))
    assert brightness(light[0]) > 240 > 60 > brightness(dark[0])
    assert brightness(light[1]) < 110 < 140 < brightness(dark[1])


def test_plots_follow_a_change_of_scheme(readers):
    reader = readers[WIDE, "light"]
    tick = 'getComputedStyle(document.querySelector(".xtick text")).fill'
    before = reader.value(tick)
    reader.page.emulate_media(color_scheme="dark")
    reader.page.wait_for_function(f"{tick} !== '{before}'")
    reader.page.emulate_media(color_scheme="light")
    reader.page.wait_for_function(f"{tick} === '{before}'")


@pytest.mark.parametrize("name", ["frozenlake-curves", "minatar-curves"])
def test_hover_shows_values(readers, name):
    reader = readers[WIDE, "light"]
    plot = reader.page.locator(f"#{name} [data-plot]").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown = plot.locator(".hoverlayer")
    reader.page.wait_for_function(
        f"""document.querySelector("#{name} .hoverlayer").textContent.length > 0"""
    )
    assert re.search(r"PER −?-?\d+(\.\d+)? ± \d", shown.text_content())


@pytest.mark.parametrize("how", EVERY)
def test_minatar_says_how_long_our_runs_are_where_it_is_seen(readers, how):
    """In tables above the rows of shorter runs, not cut off; and nothing there is judged."""
    reader = readers[how]
    for name in ("minatar-tail", "minatar-paired", "minatar-clean"):
        block = reader.page.locator(f"#{name} tbody", has_text="ours: 200,000 steps")
        box = block.locator(".block span").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= how[0], name
        assert block.locator(".paper").count() > 0 and block.locator(".chip").count() == 0
    judged = reader.page.locator("#minatar-tail tbody", has_text="as the paper")
    assert judged.locator(".chip").count() == 2 * 5  # two games, five columns
    assert "Ours: 200,000 steps" not in reader.page.locator("#exact-results").text_content()
    for name in ("minatar-curves", "minatar-diagnostics"):
        caption = reader.page.locator(f"#{name} figcaption").text_content()
        assert "ours: 200,000 steps, paper: 5,000,000" in caption


def test_legend_hides_a_method_in_every_panel(readers):
    reader = readers[WIDE, "dark"]
    figure = reader.page.locator("#exact-results figure")
    drawn = "document.querySelectorAll('#exact-results .scatterlayer .trace').length"
    before = reader.value(drawn)
    button = figure.locator("button", has_text=re.compile("^PER$"))
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    reader.page.wait_for_function(f"{drawn} < {before}")
    button.click()
    reader.page.wait_for_function(f"{drawn} === {before}")


def test_wide_tables_scroll_inside_their_box(readers):
    scrolls = """[...document.querySelectorAll("article .scroll")].map(
        (box) => [box.scrollWidth, box.clientWidth, getComputedStyle(box).overflowX])"""
    boxes = readers[NARROW, "light"].value(scrolls)
    assert any(inner > outer for inner, outer, _ in boxes)
    assert all(overflow == "auto" for *_, overflow in boxes)


def test_everything_has_a_name_for_those_who_do_not_see_it(readers):
    reader = readers[WIDE, "light"]
    names = reader.value(
        """[...document.querySelectorAll("[role=img]")].map((e) => e.getAttribute("aria-label"))"""
    )
    assert all(len(name) > 10 for name in names)
    assert reader.value('document.querySelectorAll("table:not(:has(caption))").length') == 0
    assert reader.value('document.querySelectorAll("figure:not(:has(figcaption))").length') == 0


def test_prints_dark_on_white(readers):
    """Whatever the screen is; and it goes back to the screen's scheme afterwards."""
    reader = readers[WIDE, "dark"]
    colours = """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector(".xtick text")).fill].map(String)"""
    before = reader.value(colours)
    reader.value('dispatchEvent(new Event("beforeprint"))')
    page, tick = map(brightness, reader.value(colours))
    assert page > 240 and tick < 110
    reader.value('dispatchEvent(new Event("afterprint"))')
    assert reader.value(colours) == before
    paper = reader.page.pdf(format="A4")
    assert paper.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", paper)) >= 3
    assert reader.trouble == []

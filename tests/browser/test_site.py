"""The documentation site (`make docs`) in a real Chromium, from files, offline; and its links."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import gymnasium as gym
import numpy as np
import pytest
from chromium import NARROW, Reader, brightness

import sibling_replay.envs  # noqa: F401  (registers the environments)
from sibling_replay import LAP, Prioritized, RankBased, ReplayBuffer, SiblingSample

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "site"
WIDE = 1280  # pixels
HOW = [(width, scheme) for width in (WIDE, NARROW) for scheme in ("light", "dark")]
SEEN = ("index.html", "understand/index.html", "use/sb3.html", "which.html",
        "reference/buffer.html", "reproduce/results.html", "benchmarks/index.html")  # fmt: skip
READY = "article h1"


@pytest.fixture(scope="module")
def pages() -> dict[Path, Links]:
    found = {path: Links(path) for path in sorted(SITE.rglob("*.html")) if path.name != "404.html"}
    assert len(found) > 45, "build the site first: make docs"
    return found


class Links(HTMLParser):
    """Links, images, scripts and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []  # by the browser, without a click
        self.anchors = {""}
        self.images = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if named.get("id"):
            self.anchors.add(str(named["id"]))
        if tag == "a" and named.get("href"):
            self.links.append(str(named["href"]))
        if named.get("src") or (tag == "link" and named.get("href")):
            self.fetched.append(str(named.get("src") or named["href"]))
        self.images += tag == "img"


def test_every_link_anchor_and_image_leads_somewhere(pages) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.is_file():
                broken.append((path.name, link))
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append((path.name, link))
    assert broken == []


def test_nothing_is_fetched_from_another_host(pages) -> None:
    assert {x for page in pages.values() for x in page.fetched if urlsplit(x).netloc} == set()
    styles = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert re.findall(r"url\((?!data:)[\"']?(?:https?:)?//[^)]*", styles) == []


def test_options_in_docstrings_are_lists() -> None:
    page = (SITE / "reference" / "buffer.html").read_text()
    for option in ("capacity", "key", "<code>n_steps</code>, <code>gamma"):
        name = option if option.startswith("<") else f"<code>{option}"
        assert re.search(rf"<li>\s*(<p>)?{name}</code>: ", page), option
    assert "Field(dtype, shape). The six of a transition" in page
    assert '<details class="name' not in page


def test_the_readme_leads_somewhere() -> None:
    root = SITE.parent
    links = re.findall(r"\]\(([^)]+)\)", (root / "README.md").read_text())
    assert len(links) > 20
    assert [link for link in links if not (root / link).is_file()] == []


@pytest.fixture(scope="module")
def open_page(browser):
    def opened(page: str, width: int = WIDE, scheme: str = "light", ready: str = READY) -> Reader:
        return Reader(browser, SITE / page, width, scheme, ready)

    return opened


@pytest.mark.parametrize("page", SEEN)
@pytest.mark.parametrize(("width", "scheme"), HOW)
def test_a_page_is_readable(open_page, page, width, scheme) -> None:
    """No complaint, no foreign request, pictures drawn, no sideways scrolling, its own colours."""
    reader = open_page(page, width, scheme)
    reader.page.wait_for_load_state("load")
    assert reader.trouble == []
    assert all(url.startswith(("file://", "data:", "blob:")) for url in reader.requests)
    images = """[...document.querySelectorAll("article img")].map(
        (image) => image.complete && image.naturalWidth > 100)"""
    assert all(reader.value(images))
    assert reader.value("document.documentElement.scrollWidth") <= width
    colours = reader.value(
        """[getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.querySelector("article p")).color]"""
    )
    background, ink = map(brightness, colours)
    assert (background > 200 > 120 > ink) if scheme == "light" else (background < 60 < 130 < ink)
    reader.page.context.close()


def test_pictures_are_there(pages) -> None:
    for page, least in (("index", 1), ("understand/index", 2), ("reproduce/results", 3)):
        assert pages[SITE / f"{page}.html"].images >= least, page


@pytest.mark.parametrize("width", (WIDE, NARROW))
def test_search_finds_sibling_sample(open_page, width) -> None:
    reader = open_page("index.html", width)
    page = reader.page
    if width == NARROW:
        page.click("label.md-header__button[for=__search]")
    page.locator(".md-search__input").press_sequentially("SiblingSample")  # it listens to keys
    page.wait_for_selector(".md-search-result__item a")
    links = page.eval_on_selector_all(
        ".md-search-result__item a", "all => all.map((each) => each.getAttribute('href'))"
    )
    assert any("reference/strategies.html" in link for link in links)
    assert reader.trouble == []
    page.context.close()


# ------------------------------------------------------------------- the picture to play with

SIZE = 1_000  # entries of the group
GRID = list(itertools.product((0.001, 0.01, 0.2), (100, -60, 1), (0.0, 0.6, 1.0), (0.0, 0.4, 1.0),
                              (-20.0, 0.0, 1.0, 7.5)))  # fmt: skip


def laws(p: float, reward: float, alpha: float) -> dict[str, ReplayBuffer]:
    """Buffers that hold one group of the picture, by the library's own strategies."""
    rewards = np.zeros(SIZE)
    rewards[: round(p * SIZE)] = reward
    common = {"alpha": alpha, "normalize": None}
    found = {
        "PER": Prioritized(**common),
        "rank": RankBased(**common, every=1),
        "LAP": LAP(**common),
        "SAMPLE": SiblingSample(**common),
    }
    env = gym.make("sibling_replay/OutlierBandit-v0")
    zeros, ends = np.zeros(SIZE, dtype=np.int64), np.ones(SIZE, dtype=bool)
    buffers = {}
    for name, strategy in found.items():
        buffer = ReplayBuffer.for_env(env, SIZE, strategy, seed=0)
        buffer.extend(zeros, zeros + 1, rewards, zeros, ends, ~ends)
        buffers[name] = buffer
    return buffers


def shown(buffer: ReplayBuffer, q: float, beta: float) -> dict[str, float]:
    """Rare share and mean target, from the law of a buffer and the weights of a real draw."""
    rewards = buffer.transitions()["reward"].astype(float)
    buffer.update_priorities(buffer.batch_of(np.arange(SIZE)), rewards - q)
    chances = buffer.probabilities().trained
    batch = buffer.sample(512, beta=beta)
    weighted = isinstance(buffer.strategy, Prioritized | RankBased)
    weights = (SIZE * chances) ** -beta if weighted else np.ones(SIZE)
    np.testing.assert_allclose(batch.weights, weights[batch.slots], rtol=1e-5)
    pulls = chances * weights
    return {"share": chances[rewards != 0].sum(), "target": pulls @ rewards / pulls.sum()}


def test_the_picture_shows_the_laws_of_real_buffers(open_page) -> None:
    reader = open_page("understand/index.html", ready=".play-bar")
    keys = ("p", "R", "alpha", "beta", "Q")
    asked = [dict(zip(keys, position, strict=True)) for position in GRID]
    pictures = reader.page.evaluate(
        "(all) => all.map((each) => window.replayPicture.shares(each))", asked
    )
    assert len(pictures) == len(GRID) == 324
    buffers: dict[tuple[float, ...], dict[str, ReplayBuffer]] = {}
    for at, picture in zip(asked, pictures, strict=True):
        where = (at["p"], at["R"], at["alpha"])
        if where not in buffers:
            buffers[where] = laws(*where)
        assert picture["happened"]["share"] == pytest.approx(at["p"])
        for name, buffer in buffers[where].items():
            expected = shown(buffer, at["Q"], at["beta"])
            for what, value in expected.items():
                assert picture[name][what] == pytest.approx(value, rel=1e-4, abs=1e-6), (at, name)
    reader.page.context.close()


@pytest.mark.parametrize("width", (WIDE, NARROW))
def test_the_bars_follow_the_sliders(open_page, width) -> None:
    reader = open_page("understand/index.html", width, ready=".play-bar")
    page = reader.page

    def bar(name: str, what: str) -> tuple[str, float]:
        number = page.locator(f'[data-of="{name}-{what}"]')
        ratio = number.evaluate(
            """(each) => { const track = each.previousSibling;
                return track.firstChild.getBoundingClientRect().width / track.clientWidth }"""
        )
        return number.text_content(), ratio

    at = {"p": 0.01, "R": 100, "alpha": 0.6, "beta": 0.4, "Q": 1}
    for name, value in (("alpha", 0.6), ("Q", 10), ("p", 0.1), ("beta", 1)):
        at[name] = value
        page.locator(f"#play input[name={name}]").evaluate(
            """(slider, value) => { slider.value = value;
                slider.dispatchEvent(new Event("input")) }""", value
        )  # fmt: skip
        found = page.evaluate("(at) => window.replayPicture.shares(at)", at)
        for way in ("PER", "rank", "LAP", "SAMPLE"):
            text, ratio = bar(way, "share")
            assert text == f"{100 * found[way]['share']:.1f} %"
            assert ratio == pytest.approx(found[way]["share"], abs=0.02)
            text, _ = bar(way, "target")
            assert float(text) == pytest.approx(found[way]["target"], abs=0.006)
    assert bar("SAMPLE", "share")[0] == "10.0 %"
    assert page.locator("#play label").count() == 5  # each slider has a name
    assert reader.trouble == []
    page.context.close()

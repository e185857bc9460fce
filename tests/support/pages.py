"""Code blocks of the README and of the site's pages, as the tests run them.

A page's Python blocks are run in order and in one namespace, as a reader would. A page that needs a
host library says so in its first lines (`environment: sb3`), and is run by the tests of that host.
A block that is shown only, because it is run elsewhere, opens with ```python no-run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = (README, *sorted(DOCS.rglob("*.md")))
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)[ \t]*(?P<mark>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.M | re.S,
)
HEAD = re.compile(r"\A---\nenvironment: (?P<name>\w+)\n---\n")


@dataclass(frozen=True)
class Block:
    line: int  # of the page, its first of code
    language: str
    mark: str
    code: str

    @property
    def runs(self) -> bool:
        return self.language == "python" and self.mark != "no-run"


def blocks_of(text: str) -> list[Block]:
    """Every fenced block of a page."""
    return [
        Block(
            text.count("\n", 0, found.start("code")) + 1, *found.group("language", "mark", "code")
        )
        for found in FENCE.finditer(text)
    ]


def environment_of(text: str) -> str:
    """Where a page's code runs: "core", or a host."""
    head = HEAD.match(text)
    return "core" if head is None else head["name"]


def python_of(page: Path | str) -> list[Block]:
    """The blocks of a page to run; a page of the site may be named from `docs/`."""
    path = DOCS / page if isinstance(page, str) else page
    return [block for block in blocks_of(path.read_text()) if block.runs]


def script_of(page: Path | str) -> str:
    """A page as a program: errors name the page's lines."""
    name = page if isinstance(page, str) else page.name
    return "".join(
        f"\nexec(compile({at_its_line!r}, {name!r}, 'exec'), globals())\n"
        for at_its_line in ("\n" * (each.line - 1) + each.code for each in python_of(page))
    )


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()

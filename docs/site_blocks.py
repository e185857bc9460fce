"""What the site shows of results, benchmarks and the command line, made when it is built.

A page has a place for it, `<!-- NAME -->` and `<!-- /NAME -->` on lines of their own:

    report: NAME      a table or figure of `sibling-replay report`; where its runs are not there
                      yet, the command that makes them
    state: STUDY      how much of a study has been run
    benchmark: NAME   benchmarks/NAME.md
    help: COMMAND     what `sibling-replay COMMAND --help` prints
    file: PATH        a Markdown file of the repository
    source: PATH      a Python file of the repository, to be opened by a click
    any other         a block of `write_results.py`, as in the README

What stands between `<!-- on GitHub -->` and `<!-- /on GitHub -->` is left out: there readers see
the sources of pages, without what the blocks bring.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import textwrap
from functools import cache
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))  # for `write_results`, wherever this is loaded from

import write_results
from matplotlib import rc_context

from sibling_replay.artefacts.entries import FigureEntry, Frames, Gap, TableEntry
from sibling_replay.report import matplotlib_ink
from sibling_replay.report.build import artefact_of
from sibling_replay.report.markup import markdown
from sibling_replay.studies import all_studies, chapters
from sibling_replay.studies.study import Source
from sibling_replay.studies.tabular import RunNeeds

ROOT = Path(__file__).parent.parent
AWAY = re.compile(r"^<!-- on GitHub -->\n.*?^<!-- /on GitHub -->\n+", re.M | re.S)
PLACE = re.compile(r"^<!-- (?P<name>[^/\n][^\n]*?) -->\n<!-- /(?P=name) -->$", re.M)
FIGURES = "figures"  # of the site
DPI = 150


def names_in(text: str) -> list[str]:
    """The blocks that a page asks for."""
    return [found["name"] for found in PLACE.finditer(text)]


def filled(text: str, up: str = "") -> str:
    """A page with its blocks; `up` leads from its folder to the site's root."""
    text = AWAY.sub("", text)  # what a reader of the sources is told
    return PLACE.sub(lambda found: block(found["name"], up), text)


def block(name: str, up: str = "") -> str:
    """What stands in the place of a name."""
    kind, _, what = name.partition(": ")
    if kind == "report" and what:
        return report_block(what, up)
    if kind == "state" and what:
        return state_of(what)
    if kind == "benchmark" and what:
        return benchmark(what)
    if kind == "help":
        return f"```text\n{help_of(what)}```"
    if kind == "file":
        return (ROOT / what).read_text().split("\n", 1)[1].strip()
    if kind == "source":
        code = textwrap.indent(f"```python\n{(ROOT / what).read_text()}```", "    ")
        return f'??? example "{what}"\n\n{code}'
    return _results()[name]


@cache
def _results() -> dict[str, str]:
    """Blocks of the README; what has no runs yet says so."""
    missing = {
        "minatar": "sibling-replay reproduce minatar",
        "tail": "sibling-replay reproduce minatar",
        "vqvae": "sibling-replay vqvae inspect --csv results/vqvae.csv",
    }
    return {name: not_run(command) for name, command in missing.items()} | write_results.blocks()


def not_run(command: str) -> str:
    return f"*Not run yet:* `{command}`"


# ---------------------------------------------------------------------------- the report


def report_block(name: str, up: str) -> str:
    """A table or figure with its title and caption, and what it still lacks."""
    made = artefact_of(entries()[name], all_frames())
    end = "" if made.entry.title.endswith("?") else "."
    parts = [f"**{made.entry.title}{end}** {made.entry.caption}"]
    if made.figure is not None:
        parts.append(f"![{made.entry.title}]({up}{FIGURES}/{name}.png)")
    if made.table is not None:
        parts.append(markdown(made.table).strip())
    if made.gap is not None:
        parts.append(not_run(made.gap.command) if made.gap.everything else lacking(made.gap))
    return "\n\n".join(parts)


def lacking(gap: Gap) -> str:
    return f"*Not all of it has been run ({'; '.join(gap.lines)}):* `{gap.command}`"


def state_of(study: str) -> str:
    """How much of a study is there, as a sentence."""
    needs = RunNeeds(study)
    done, total = needs.done(all_frames()), needs.total
    if done == total:
        return f"All {total:,} runs of it are there."
    if not done:
        return f"**It has not been run yet:** `sibling-replay reproduce {study}`"
    return (
        f"**It is under way:** {done:,} of {total:,} runs are there. What was declared to be "
        f"judged by all of them is not shown before: `sibling-replay reproduce {study}`"
    )


@cache
def entries() -> dict[str, FigureEntry | TableEntry]:
    return {entry.name: entry for section in chapters() for entry in section.entries}


@cache
def all_frames() -> Frames:
    """The committed runs of every study."""
    frames: dict[str, object] = {}
    for study in all_studies().values():
        frames |= study.frames(Source(ROOT / "results", collected=True))
    return frames  # type: ignore[return-value]


def figure_png(name: str) -> bytes | None:
    """A figure of the report; None if there are no runs of it."""
    figure = artefact_of(entries()[name], all_frames()).figure
    if figure is None:
        return None
    with rc_context(matplotlib_ink.LOOK), io.BytesIO() as file:
        drawing = matplotlib_ink.drawing_of(figure)
        drawing.savefig(file, format="png", dpi=DPI, metadata=matplotlib_ink.BLANK["png"])
        return file.getvalue()


def figures_in(text: str) -> list[str]:
    """Names of the figures that a page asks for."""
    wanted = [name.removeprefix("report: ") for name in names_in(text) if "report: " in name]
    return [name for name in wanted if isinstance(entries()[name], FigureEntry)]


# ------------------------------------------------------------------ benchmarks, the command


def benchmark(name: str) -> str:
    """A page of benchmarks without its title; links lead to the repository's files by name."""
    path = ROOT / "benchmarks" / f"{name}.md"
    if not path.is_file():
        return not_run(f"make bench-{name}")
    text = path.read_text().split("\n", 1)[1].strip()
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"`\1`", text)


def help_of(command: str) -> str:
    """What `sibling-replay COMMAND --help` prints on a terminal of 88 columns."""
    from sibling_replay import cli

    out = io.StringIO()
    plain = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
        with contextlib.suppress(SystemExit):
            cli._command([*command.split(), "--help"])
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).rstrip() + "\n"

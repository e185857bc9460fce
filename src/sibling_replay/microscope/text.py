"""A diagnosis as text: 80 columns, with or without a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sibling_replay.microscope.ladder_view import LadderView
from sibling_replay.microscope.view import (
    ESS_NOTE,
    SAMPLE_NOTE,
    Diagnosis,
    GroupView,
    TvBin,
)

WIDTH = 80  # where there is no terminal to ask
_BAR = 24


def show(console: Console, view: Diagnosis) -> None:
    for part in _parts(view):
        console.print(part, highlight=False)


def _parts(view: Diagnosis) -> Iterator[RenderableType]:
    if view.stand_in:
        yield Text(view.stand_in, style="yellow")
        yield ""
    yield Text(view.title, style="bold", overflow="fold")
    for source in view.sources:
        yield Text(f"  {source}")
    yield ""
    yield Text.assemble((f"{view.verdict.name.capitalize()}: ", "bold"), view.verdict.meaning)
    for title, lines in view.sections:
        yield ""
        yield Text(title, style="bold")
        table = Table.grid(padding=(0, 2))
        table.add_column(width=18, no_wrap=True)
        table.add_column(justify="right", min_width=9, no_wrap=True)
        table.add_column(style="dim")
        for line in lines:
            table.add_row(line.name, Text(line.value, style="bold"), line.meaning)
        yield Padding.indent(table, 2)
    yield ""
    yield Text("Groups by outcome TV", style="bold")
    yield Padding.indent(_tv_table(view.tv_bins), 2)
    yield ""
    if view.groups:
        yield Text("Groups that hold most of the misplaced probability", style="bold")
        for rank, group in enumerate(view.groups, start=1):
            yield from _group(rank, group, view.target)
    elif not view.bent:
        yield Text("In no group does PER bend the frequencies of outcomes.")
    if view.ladder is not None:
        yield from _ladder(view.ladder)
    yield ""
    yield Text("What SAMPLE would change", style="bold")
    for note in (SAMPLE_NOTE, ESS_NOTE):
        yield Padding.indent(Text(note), 2)
    yield ""
    yield Text("Rules of the verdict, the first that applies", style="bold")
    for rule in view.rules:
        table = Table.grid(padding=(0, 1))
        table.add_row("-", Text(rule))
        yield Padding.indent(table, 2)


def _tv_table(bins: tuple[TvBin, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=18)
    for _ in range(2):
        table.add_column(justify="right", min_width=9)
    table.add_column()
    table.add_row("TV", "groups", "draws", "", style="dim")
    for each in bins:
        table.add_row(each.label, each.groups, each.draws, "█" * round(_BAR * each.share))
    return table


def _ladder(view: LadderView) -> Iterator[RenderableType]:
    yield ""
    yield Text("A ladder of key maps", style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for place, name in enumerate(view.columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in view.rows:
        name, *cells = row.cells
        mark = " *" if row.taken else ""
        table.add_row(name + mark, *cells, style="bold" if row.taken else None)
    yield Padding.indent(table, 2)
    for note in (f"* {view.taken}", *view.notes):
        yield Padding.indent(Text(note), 2)


def _group(rank: int, group: GroupView, target: str) -> Iterator[RenderableType]:
    yield ""
    yield Text.assemble(f"{rank}. ", (group.label, "bold"))
    facts = ", ".join(f"{fact.name} {fact.value}" for fact in group.facts)
    yield Padding.indent(Text(facts), 3)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("outcome", overflow="fold")
    for name in ("count", "stored f", "PER q", target):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in group.outcomes:
        table.add_row(
            # as Text: a string would be read for markup
            Text(outcome.label),
            outcome.count,
            outcome.stored,
            outcome.replayed,
            outcome.target,
        )
    yield Padding.indent(table, 3)
    if group.others:
        yield Text(f"   and {group.others:,} other outcomes", style="dim")
    yield Padding.indent(Text(group.change), 3)

"""A ladder of maps in words, for the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass

from sibling_replay.diagnostics.split_test import FALSE_DISCOVERIES
from sibling_replay.microscope.ladder import Ladder, Rung
from sibling_replay.microscope.ladder_plot import Plot, plot_of
from sibling_replay.microscope.words import percent, shown_number

# Short, because all of them are to fit into 80 columns with their numbers.
_COLUMNS = (
    "map", "G/N", "median", "10+", "100+", "R law", "R", "prio", "rew", "end", "mixed", "us"
)  # fmt: skip


@dataclass(frozen=True)
class RungRow:
    cells: tuple[str, ...]  # as `columns` of the view
    taken: bool


@dataclass(frozen=True)
class LadderView:
    columns: tuple[str, ...]
    rows: tuple[RungRow, ...]
    taken: str  # which, and why
    notes: tuple[str, ...]  # what the columns are
    plot: Plot


def ladder_view(ladder: Ladder) -> LadderView:
    name = "entries with equal action" if ladder.taken == "action" else ladder.taken
    return LadderView(
        columns=_COLUMNS,
        rows=tuple(RungRow(_cells(rung), rung.key == ladder.taken) for rung in ladder.rungs),
        taken=f"It would take {name}: {ladder.choice.reason}.",
        notes=(
            "G/N: groups an entry, the share of selection's excess that SAMPLE keeps. Median: "
            "entries of the median group; 10+, 100+: entries in groups of so many.",
            f"R: how much more often SAMPLE draws a rare outcome than it is stored; R law: "
            f"1 + (R of PER - 1) G/N. Here {ladder.rare}, {percent(ladder.rare_share)} of the "
            f"entries, with R of PER {shown_number(ladder.prioritized_ratio)}.",
            "prio, rew, end: share of the variance of (ranks of) priority, reward and terminated "
            "that groups explain, beyond chance.",
            f"mixed: draws from groups whose entries differ in {ladder.tested} by where they lie "
            f"(rank test, false-discovery rate {FALSE_DISCOVERIES:.0%}). us: microseconds a key, "
            f"in a batch.",
        ),
        plot=plot_of(ladder),
    )


def _cells(rung: Rung) -> tuple[str, ...]:
    found = rung.found
    shares = (found.explained_priority, found.explained_reward, found.explained_end)
    return (
        rung.key,
        f"{found.groups_per_entry:.4f}",
        f"{found.median_bucket:g}",
        _whole(found.in_tens),
        _whole(found.in_hundreds),
        _ratio(found.predicted_ratio),
        _ratio(found.measured_ratio),
        *(f"{max(0.0, share):.2f}" for share in shares),  # below zero is chance
        _whole(found.heterogeneous_draws),
        f"{rung.microseconds:.2f}" if rung.microseconds < 10 else f"{rung.microseconds:.0f}",
    )


def _whole(share: float) -> str:
    """Whole percent; 0% only of nothing and 100% only of everything."""
    if 0.0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1.0 - 1e-12:
        return ">99%"
    return f"{100 * share:.0f}%"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"

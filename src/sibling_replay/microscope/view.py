"""A diagnosis in words: every number as the string that both the terminal and the page show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from sibling_replay.diagnostics import (
    RULES,
    GroupFinding,
    Summary,
    Verdict,
    examine_transitions,
    judge,
    most_distorted,
    summarize,
)
from sibling_replay.diagnostics.summary import TV_EDGES
from sibling_replay.microscope.ladder import Ladder
from sibling_replay.microscope.ladder_view import LadderView, ladder_view
from sibling_replay.microscope.transitions import Transitions
from sibling_replay.microscope.words import FLAGS, label_of, percent, shown_number, signed
from sibling_replay.terminal import printable

_SHOWN_OUTCOMES = 6
_OUTCOME = ("reward", "next_obs", *FLAGS)


@dataclass(frozen=True)
class Line:
    """One number with its name and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class OutcomeView:
    label: str
    count: str
    stored: str  # f_g(o)
    replayed: str  # q_g(o)
    target: str
    frequency: float  # for a bar's length
    probability: float


@dataclass(frozen=True)
class GroupView:
    label: str
    facts: tuple[Line, ...]
    outcomes: tuple[OutcomeView, ...]
    others: int  # outcomes not shown
    change: str  # what SAMPLE would do


@dataclass(frozen=True)
class TvBin:
    label: str
    groups: str
    draws: str
    share: float  # of draws, for a bar's length


@dataclass(frozen=True)
class Diagnosis:
    title: str
    sources: tuple[str, ...]
    stand_in: str  # said first, if rewards stand in for targets
    verdict: Verdict
    rules: tuple[str, ...]
    sections: tuple[tuple[str, tuple[Line, ...]], ...]
    tv_bins: tuple[TvBin, ...]
    target: str  # what shifts are of
    groups: tuple[GroupView, ...]
    bent: bool  # whether PER bends the frequencies of outcomes in any group
    ladder: LadderView | None  # of maps, if one was asked for
    data: dict[str, Any]  # the numbers themselves, for JSON


def view_of(
    title: str,
    read: Transitions,
    beta: float = 0.4,
    batch_size: int = 32,
    top: int = 10,
    ladder: Ladder | None = None,
) -> Diagnosis:
    """Examine transitions and say what was found."""
    findings = examine_transitions(
        read.columns,
        read.masses,
        groups=read.groups,
        beta=beta,
        targets=read.targets,
        batch_size=batch_size,
    )
    found, worst = summarize(findings), most_distorted(findings, top, _SHOWN_OUTCOMES)
    verdict = judge(found)
    target = "reward" if found.rewards_as_targets else "target"
    labels = [label_of(read.columns, read.group_columns, group.entry) for group in worst]
    sources = (
        f"read from: {read.source}",
        f"priority mass: {read.mass_source}",
        f"siblings: equal {' and '.join(read.group_columns)}",
        *((f"key: {read.key_words}",) if read.key_words else ()),
        f"targets: {read.target_source or 'rewards'}",
        f"beta: {beta:g}",
    )
    return Diagnosis(
        title=printable(title),
        sources=tuple(map(printable, sources)),
        stand_in="Rewards stand in for Bellman targets: the file has neither target nor q_next. "
        "Shifts below are of rewards, and blind to outcomes that differ only in the next state."
        if found.rewards_as_targets
        else "",
        verdict=verdict,
        rules=RULES,
        sections=_sections(found, target),
        tv_bins=_tv_bins(found),
        target=target,
        groups=tuple(
            _group(read.columns, label, group, target)
            for label, group in zip(labels, worst, strict=True)
        ),
        bent=bool(most_distorted(findings, 1, 1)),
        ladder=None if ladder is None else ladder_view(ladder),
        data={
            "file": title,
            "sources": list(sources),
            "verdict": asdict(verdict),
            "summary": asdict(found),
            "most_distorted": [
                {"label": label, **asdict(group)}
                for label, group in zip(labels, worst, strict=True)
            ],
            **({} if ladder is None else {"ladder": ladder.data()}),
        },
    )


def _sections(found: Summary, target: str) -> tuple[tuple[str, tuple[Line, ...]], ...]:
    least, q1, median, q3, most = (shown_number(n) for n in found.siblings)
    with2, with10, with100 = (percent(share) for share in found.entries_with)
    tv50, tv90, tv99, tv_most = (shown_number(tv) for tv in found.tv_quantiles)
    support = (
        Line("entries", f"{found.entries:,}", "stored transitions"),
        Line("groups", f"{found.groups:,}", "different keys"),
        Line("siblings a group", median, f"median; quartiles {q1} and {q3}, {least} to {most}"),
        Line("singletons", percent(found.singletons), "of the groups have one entry"),
        Line("in groups of 2+", with2, f"of the entries; of 10+ {with10}; of 100+ {with100}"),
        Line(
            "draws, 2+ siblings",
            percent(found.draws_with_siblings),
            "of PER's draws fall in groups of at least 2",
        ),
        Line(
            "draws, 2+ outcomes",
            percent(found.draws_with_outcomes),
            "of PER's draws fall in groups with different outcomes",
        ),
        Line(
            "outcomes repeat",
            percent(found.repeated),
            "of the entries with siblings share their outcome with one",
        ),
    )
    outcomes = (
        Line(
            "outcome TV",
            shown_number(found.tv),
            "mass-weighted: how much of what PER replays of a group is misplaced",
        ),
        Line(
            "over groups",
            tv50,
            f"median; 90% of groups up to {tv90}, 99% up to {tv99}, largest {tv_most}",
        ),
    )
    shifts = (
        Line(
            "shift before IS",
            shown_number(found.shift),
            f"mass-weighted |PER's mean {target} - empirical mean|; "
            f"largest {signed(found.shift_largest)}",
        ),
        Line(
            "shift after IS",
            shown_number(found.corrected_shift),
            f"the same with unnormalised weights, beta = {found.beta:g}; "
            f"largest {signed(found.corrected_shift_largest)}",
        ),
        Line(
            "spread",
            shown_number(found.spread),
            f"standard deviation of the {target}s within a group; the shifts are "
            f"{shown_number(found.shift_in_spreads)} and "
            f"{shown_number(found.corrected_shift_in_spreads)} of it",
        ),
    )
    ess = f"of the weights of a minibatch of {found.batch_size}, see below"
    entries = (
        Line(
            "concentration C",
            shown_number(found.concentration),
            "mass-weighted; 0 if siblings are drawn alike, even where it moves no outcome; "
            f"largest {shown_number(found.concentration_largest)}",
        ),
        Line("ESS of PER", shown_number(found.prioritized_ess), ess),
        Line("ESS of SAMPLE", shown_number(found.sibling_ess), ess),
    )
    return (
        ("Group support", support),
        ("Outcome frequencies", outcomes),
        (f"{target.capitalize()} shift", shifts),
        ("Entries and weights", entries),
    )


ESS_NOTE = (
    "ESS: the exact expectation of (Σ w)² / Σ w² over independent draws from this buffer "
    "(stratified draws vary a little less). It measures weights, not bias."
)
SAMPLE_NOTE = (
    "SAMPLE on this buffer draws every group as often as PER does (s_g / S) and inside it every "
    "sibling alike: q becomes f, outcome TV and shift become 0."
)


def _tv_bins(found: Summary) -> tuple[TvBin, ...]:
    edges = ["0", *(f"{edge:g}" for edge in TV_EDGES[1:])]
    labels = ["0", *(f"{low} to {high}" for low, high in pairwise(edges))]
    return tuple(
        TvBin(label, f"{groups:,}", percent(share), share)
        for label, groups, share in zip(labels, found.tv_groups, found.tv_draws, strict=True)
    )


def _group(
    columns: Mapping[str, NDArray[Any]], label: str, group: GroupFinding, target: str
) -> GroupView:
    replayed = group.mean + group.shift
    return GroupView(
        label=label,
        facts=(
            Line("siblings", f"{group.siblings:,}", ""),
            Line("outcomes", f"{group.distinct:,}", ""),
            Line("of all draws", percent(group.probability), ""),
            Line("TV", shown_number(group.tv), ""),
            Line("shift before IS", signed(group.shift), ""),
            Line("after IS", signed(group.corrected_shift), ""),
            Line("C", shown_number(group.concentration), ""),
        ),
        outcomes=tuple(
            OutcomeView(
                label=label_of(columns, _OUTCOME, outcome.entry),
                count=f"{outcome.count:,}",
                stored=percent(outcome.frequency),
                replayed=percent(outcome.probability),
                target=shown_number(outcome.target),
                frequency=outcome.frequency,
                probability=outcome.probability,
            )
            for outcome in group.outcomes
        ),
        others=group.distinct - len(group.outcomes),
        change=f"SAMPLE: mean {target} {shown_number(replayed)} -> {shown_number(group.mean)}, "
        f"TV {shown_number(group.tv)} -> 0, still {percent(group.probability)} of all draws",
    )

"""The report's account of itself: what agrees with the paper, what was not run."""

from __future__ import annotations

from report_runs import NOTHING, frame_of

from sibling_replay.artefacts import comparison, layout
from sibling_replay.artefacts.layout import Count
from sibling_replay.report import build
from sibling_replay.studies import exact as exact_study
from sibling_replay.studies import grid as grid_study
from sibling_replay.studies.paper import numbers as published


def test_every_published_mean_with_an_error_is_compared_or_missing(report):
    printed = [*published.exact().values(), *published.grid().values()]
    printed += [*published.distortion().values(), *published.minatar().values()]
    known = sum(number.se is not None for number in printed)
    assert report.count.compared + report.count.missing == known == 60 + 144 + 15 + 25 + 15
    # Bandit and TwoChains whole, PER on the lake; Bandit's sweep; Bandit's distortion
    assert report.count.compared == (5 + 5 + 1) * 4 + 48 + 4 + 3
    nothing = build.build(NOTHING, "")
    assert nothing.count == Count(missing=known)


def test_the_count_is_that_of_the_comparison(report, frames):
    exact = exact_study.compare(frames["exact"])
    found = {artefact.entry.name: artefact.count for artefact in report.artefacts}
    assert found["tabular-metrics"].within == comparison.within(exact, layout.CONFIDENT)[0]


def test_gaps_name_runs_and_command(frames):
    gap = exact_study.needs().gap(frames)
    assert gap.lines == (
        "FrozenLake-H100/H300: DDQN none, SAMPLE none, MODEL none, AVG-g2 none, AVG-g4 none",
        "FrozenLake-H50: none of 60 runs",
    )
    assert gap.command == (
        "sibling-replay reproduce exact --env FrozenLake-H100/H300 FrozenLake-H50"
    )
    assert not gap.everything
    assert exact_study.needs(("TwoChains",), diagnostics=True).gap(frames) is None
    assert grid_study.needs(("TwoChains",)).gap(frames).everything
    assert grid_study.needs().gap(NOTHING).command == "sibling-replay reproduce grid"


def test_a_gap_in_seeds_is_counted():
    some = {"exact": frame_of("exact", lambda c: c.method == "PER" and c.seed in (1, 2))}
    gap = exact_study.needs(("TwoChains",), ("PER", "AVG")).gap(some)
    assert gap.lines == ("TwoChains: PER 2 of 10 runs, AVG none",)


def test_runs_without_diagnostics_count_as_missing_where_they_are_needed():
    bare = {"exact": frame_of("exact", lambda c: c.env == "TwoChains", diagnostics=False)}
    assert exact_study.needs(("TwoChains",)).gap(bare) is None
    gap = exact_study.needs(("TwoChains",), diagnostics=True).gap(bare)
    assert gap.everything and "recorded no diagnostics" in gap.lines[-1]

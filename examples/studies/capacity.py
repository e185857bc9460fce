"""A study of one's own, in one file: does a larger buffer help PER or SAMPLE?

    python examples/studies/capacity.py

A package that announces it (`[project.entry-points."sibling_replay.studies"]`, `capacity =
"capacity:STUDY"`) makes it known to `sibling-replay reproduce capacity` and the other commands.
"""

from __future__ import annotations

import sys

import polars as pl

from sibling_replay import cli
from sibling_replay.artefacts.entries import FigureEntry, Section
from sibling_replay.artefacts.panels import Figure, Mark, PointPanel
from sibling_replay.artefacts.seeds import runs_of
from sibling_replay.running.runs import Run, select
from sibling_replay.studies import register_study
from sibling_replay.studies.study import Choice, chosen_run
from sibling_replay.studies.tabular import RunNeeds, TabularStudy
from sibling_replay.training.config import paper_config

METHODS, CAPACITIES, SEEDS = ("PER", "SAMPLE"), (500, 5_000), (0, 1)


def auc(frame: pl.DataFrame) -> Figure | None:
    """A panel a size of the buffer."""
    panels = []
    for size in CAPACITIES:
        scores = {m: runs_of(frame, method=m, capacity=size)["auc_return"] for m in METHODS}
        marks = tuple(Mark(m, tuple(some.to_list())) for m, some in scores.items() if len(some))
        if marks:
            panels.append(PointPanel(f"{size:,} transitions", "AUC return", marks))
    return Figure(tuple(panels), columns=2) if panels else None


class CapacityStudy(TabularStudy):
    """PER and SAMPLE in TwoChains with a small and a large buffer."""

    name = "capacity"
    about = "PER and SAMPLE with small and large buffers, 8 short runs"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        found = []
        for method in choice.methods_of(METHODS):
            for size in CAPACITIES:
                for seed in choice.seeds or SEEDS:
                    short = {"steps": 3_000, "learning_starts": 300, "capacity": size}
                    usual = paper_config("TwoChains", method, seed, **short)
                    found.append(chosen_run(self.name, usual, choice, f"capacity={size}"))
        return select(found, choice.envs, choice.methods)

    @property
    def sections(self) -> tuple[Section, ...]:
        needs = RunNeeds(self.name)
        caption = "AUC return in TwoChains, each point a seed."
        entry = FigureEntry("capacity", "Our own", "Size of the buffer", caption, needs, auc)
        return (Section("capacity", "The size of the buffer", "Two methods, two sizes.", (entry,)),)


STUDY = CapacityStudy()

if __name__ == "__main__":  # not in workers, which import this file, too
    register_study(STUDY)
    cli.main(sys.argv[1:] or ["reproduce", "capacity"])

"""Studies by name, as tests ask for them."""

from __future__ import annotations

from sibling_replay.running.runs import Run
from sibling_replay.studies import all_studies, study_named
from sibling_replay.studies.study import Choice, Source


def study(name: str, seeds=(), **choice) -> tuple[Run, ...]:
    """Every run of a study: with the paper's seeds, or with those given."""
    return study_named(name).runs(Choice(seeds=tuple(seeds), **choice))


def of_the_paper(frame, name: str):
    """The runs that are compared with the paper's."""
    return study_named(name).compared(frame)


def load_frames(directory, collected: bool):
    """What a report is made of."""
    frames = {}
    for each in all_studies().values():
        frames |= each.frames(Source(directory, collected))
    return frames

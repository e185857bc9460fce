"""The study of key maps."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sibling_replay.running.jobs import JobFunction
from sibling_replay.running.runs import Run
from sibling_replay.studies.gym_job import GymJob
from sibling_replay.studies.keys.declared import NAME, PIXEL_FRAME, declared_runs
from sibling_replay.studies.keys.tables import SECTION
from sibling_replay.studies.minatar.coverage import has_own_settings
from sibling_replay.studies.study import Choice, Source, Study


@dataclass(frozen=True)
class SB3Job(GymJob):
    """Runs of SB3."""

    def check(self) -> None:
        """Refuse here and now what would fail every run: SB3 is not there."""
        import sibling_replay.integrations.sb3_run  # noqa: F401


class KeyStudy(Study):
    """200 runs of a minute or two, in SB3."""

    name = NAME
    about = (
        "sibling groups by key maps where observations never repeat: 200 runs of SB3's DQN, some 4 "
        "core-hours (needs the extra sb3)"
    )
    options = frozenset({"condition"})
    sections = (SECTION,)

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        return declared_runs(choice)

    def job(self, choice: Choice) -> JobFunction:
        return SB3Job()

    def frames(self, source: Source) -> dict[str, pl.DataFrame]:
        games = source.runs("minatar").filter(env="SpaceInvaders", condition="mp-tail")
        games = games.filter(~has_own_settings(games, "key"))
        pixels = games.filter(pl.col("steps") == 200_000, pl.col("seed") < 2)
        return {**super().frames(source), PIXEL_FRAME: pixels}

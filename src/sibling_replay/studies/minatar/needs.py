"""What the MinAtar artefacts are made of, and what of it is missing.

A run of the study counts by condition, game, method and seed, not by its id, which names an encoder
that another machine trains otherwise. Only runs of the paper's length complete an artefact; shorter
ones are shown, under their length.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sibling_replay.artefacts.entries import Frames, Gap
from sibling_replay.artefacts.summaries import measured
from sibling_replay.envs import GAMES
from sibling_replay.grouping.vqvae.files import paper_codes
from sibling_replay.studies.minatar.coverage import (
    PAPER_STEPS,
    Counts,
    counts,
    described,
    horizons,
)
from sibling_replay.studies.minatar.runs import SEEDS, STUDY
from sibling_replay.training.minatar.config import CONDITIONS, MINATAR_METHODS

ENCODERS = "vqvae"  # the table of inspected encoders, from vqvae.csv


@dataclass(frozen=True)
class MinAtarNeeds:
    """All games, methods and seeds of some conditions."""

    conditions: tuple[str, ...] = CONDITIONS
    diagnostics: bool = False
    study: str = STUDY

    @property
    def total(self) -> int:
        return len(self.conditions) * len(GAMES) * len(MINATAR_METHODS) * len(SEEDS)

    def done(self, frames: Frames) -> int:
        """Runs of the paper's length."""
        return sum(self._counts(self._usable(frames), PAPER_STEPS).values())

    def gap(self, frames: Frames) -> Gap | None:
        usable = self._usable(frames)
        lengths = horizons(usable)
        whole = self._counts(usable, PAPER_STEPS)
        missing = [cell for cell, seeds in whole.items() if seeds < len(SEEDS)]
        if not missing:
            return None
        lines = tuple(self._line(usable, steps) for steps in lengths)
        command = f"sibling-replay reproduce {STUDY}"
        games = list(dict.fromkeys(game for _, game, _ in missing))
        if len(games) < len(GAMES):
            command += f" --game {' '.join(games)}"
        if self.conditions != CONDITIONS:
            command += f" --condition {' '.join(self.conditions)}"
        return Gap(lines or (f"none of {self.total} runs",), command, not lengths)

    def _usable(self, frames: Frames) -> pl.DataFrame:
        frame = frames[STUDY].filter(pl.col("condition").is_in(self.conditions))
        return measured(frame, "ess") if self.diagnostics else frame

    def _counts(self, usable: pl.DataFrame, steps: int) -> Counts:
        return {
            cell: seeds
            for cell, seeds in counts(usable, steps).items()
            if cell[0] in self.conditions
        }

    def _line(self, usable: pl.DataFrame, steps: int) -> str:
        """A length, and what there is of it: games with the same runs are named together."""
        found = self._counts(usable, steps)
        parts = []
        for condition in self.conditions:
            games: dict[str, list[str]] = {}  # what there is -> of which games
            for game in GAMES:
                there = _there({m: found[condition, game, m] for m in MINATAR_METHODS})
                games.setdefault(there, []).append(game)
            parts += [f"{', '.join(some)}, {condition}: {t}" for t, some in games.items() if t]
        return f"{described(steps)} ({'; '.join(parts)})" if parts else described(steps)


def _there(seeds: dict[str, int]) -> str:
    """Of the methods that lack a seed; empty if none does."""
    if len(set(seeds.values())) == 1:
        (n,) = set(seeds.values())
        return "" if n == len(SEEDS) else f"{n} of {len(SEEDS)} seeds" if n else "none"
    lacking = {method: n for method, n in seeds.items() if n < len(SEEDS)}
    return ", ".join(f"{method} {n} of {len(SEEDS)} seeds" for method, n in lacking.items())


@dataclass(frozen=True)
class RateNeeds:
    """Runs of any length of every game and method: they used a learning rate."""

    study: str = STUDY

    def gap(self, frames: Frames) -> Gap | None:
        missing = self._missing(frames)
        if not missing:
            return None
        said: dict[str, list[str]] = {}
        for game, method in missing:
            said.setdefault(game, []).append(method)
        lines = tuple(f"{game}: no run of {', '.join(methods)}" for game, methods in said.items())
        command = f"sibling-replay reproduce {STUDY} --game {' '.join(said)}"
        return Gap(lines, command, frames[STUDY].is_empty())

    def _missing(self, frames: Frames) -> list[tuple[str, str]]:
        ran = set(frames[STUDY].select("env", "method").iter_rows())
        wanted = [(game, method) for game in GAMES for method in MINATAR_METHODS]
        return [cell for cell in wanted if cell not in ran]


@dataclass(frozen=True)
class EncoderNeeds:
    """An encoder of the paper's form of every game, inspected."""

    study: str = ENCODERS

    def gap(self, frames: Frames) -> Gap | None:
        missing = self._missing(frames)
        if not missing:
            return None
        line = f"no inspected encoder of {', '.join(missing)}"
        command = "sibling-replay vqvae inspect --csv results/vqvae.csv"
        return Gap((line,), command, frames[ENCODERS].is_empty())

    def _missing(self, frames: Frames) -> list[str]:
        ours = frames[ENCODERS].filter(grid="2x1", loss="bce")
        forms = set(ours.select("game", "codebook").iter_rows())
        return [game for game in GAMES if (game, paper_codes(game)) not in forms]

"""The bench's runs as arrays: a score a seed and environment of every contender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.artefacts.summaries import series
from sibling_replay.studies.rivals.declared import BY_NAME, ENVS, SEEDS

F64 = NDArray[np.float64]
LATE = 0.2  # of a run


def contender_of(run: str) -> str:
    """The contender that a run's id names."""
    return run.split("/")[3]


def with_contender(frame: pl.DataFrame) -> pl.DataFrame:
    """With a column for the contender, which a run's id names."""
    part = pl.col("run").str.split("/").list.get(3)
    return frame.with_columns(part.alias("contender"))


class Scores:
    """Scores of whole sets of seeds: a contender that lacks any seed in an environment has none
    there."""

    def __init__(
        self, frame: pl.DataFrame, column: str = "auc_return", seeds: Sequence[int] = SEEDS
    ) -> None:
        named = with_contender(frame).filter(pl.col("seed").is_in(list(seeds)))
        self._of: dict[tuple[str, str], F64] = {}
        for (env, contender), runs in named.group_by("env", "contender"):
            if runs["seed"].n_unique() == len(seeds) == runs.height:
                self._of[str(env), str(contender)] = runs.sort("seed")[column].to_numpy()

    def of(self, contender: str, envs: tuple[str, ...]) -> F64 | None:
        """[seeds, environments]; None unless all are there."""
        if any((env, contender) not in self._of for env in envs):
            return None
        return np.stack([self._of[env, contender] for env in envs], axis=1)

    def envs(self, *contenders: str) -> tuple[str, ...]:
        """In which all of these are there."""
        return tuple(
            env for env in ENVS if all((env, contender) in self._of for contender in contenders)
        )

    def whole(self, envs: tuple[str, ...]) -> bool:
        """Whether every contender is there in all of these."""
        return set(envs) <= set(self.envs(*BY_NAME))

    @property
    def contenders(self) -> tuple[str, ...]:
        """Those that are there somewhere, in order."""
        there = {contender for _, contender in self._of}
        return tuple(name for name in BY_NAME if name in there)


def late_returns(frame: pl.DataFrame) -> dict[tuple[str, str], list[float]]:
    """By environment and contender: the mean return of the last fifth of each run."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in with_contender(frame).iter_rows(named=True):
        late = np.asarray(row["eval_step"]) > (1.0 - LATE) * row["steps"]
        returns = np.asarray(row["eval_return"], np.float64)[late]
        found.setdefault((row["env"], row["contender"]), []).append(float(returns.mean()))
    return found


def last_measure(frame: pl.DataFrame, name: str) -> dict[tuple[str, str], float]:
    """By environment and contender: the mean over seeds of what a run measured last."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in with_contender(frame).iter_rows(named=True):
        key: Any = row["env"], row["contender"]
        found.setdefault(key, []).append(float(series(row, name)[-1]))
    return {key: float(np.mean(values)) for key, values in found.items()}

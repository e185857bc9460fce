"""What came out of the study of key maps: numbers, and what became of the hypotheses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sibling_replay.artefacts.entries import Frames, Gap, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, number, texts
from sibling_replay.artefacts.statistics import Interval, mean_se, paired_interval
from sibling_replay.artefacts.summaries import series
from sibling_replay.studies.keys.declared import (
    AUTO,
    ENVS,
    NAME,
    PER,
    PIXEL_COMMAND,
    PIXEL_FRAME,
    PIXELS,
    REPLAYS,
    SEEDS,
    STARTS,
    Replay,
)
from sibling_replay.studies.tabular import RunNeeds

NEEDS = RunNeeds(NAME)


def of_replay(frame: pl.DataFrame, replay: Replay) -> pl.DataFrame:
    """Its runs, by seed."""
    same = (pl.col("method") == replay.method) & (pl.col("initial") == replay.initial)
    return frame.filter(same & (pl.col("key") == replay.key)).sort("seed")


def late_ratio(frame: pl.DataFrame) -> list[float]:
    """R of each run: the mean over the evaluations of its second half."""
    found = []
    for row in frame.iter_rows(named=True):
        late = series(row, "step") > row["steps"] / 2
        found.append(float(series(row, "tail_ratio")[late].mean()))
    return found


def difference(frame: pl.DataFrame, replay: Replay, other: Replay) -> Interval | None:
    """Of AUC, paired by seed; None without two seeds that both have."""
    ours, theirs = of_replay(frame, replay), of_replay(frame, other)
    both = ours.join(theirs, on="seed", suffix="_other").sort("seed")
    if both.height < 2:
        return None
    return paired_interval((both["auc_return"] - both["auc_return_other"]).to_numpy())


def rows(
    frame: pl.DataFrame,
    block: str = "env",
    blocks: Iterable[str] = ENVS,
    replays: Mapping[str, Sequence[Replay]] = REPLAYS,
) -> list[dict[str, str]]:
    """A cell of the table each.

    block, blocks: the column whose values have a part of the table each.
    replays: the ways to replay, by condition.
    """
    found = []
    for each in blocks:
        for condition in replays:
            runs = frame.filter(pl.col(block) == each, pl.col("condition") == condition)
            for replay in replays[condition]:
                of = of_replay(runs, replay)
                if of.height:
                    keys = {block: each, "condition": condition, "replay": replay.words}
                    cells = _numbers(runs, of, replay)
                    found += [keys | {"metric": name, "ours": cells[name], "paper": ""}
                              for name in cells]  # fmt: skip
    return found


def _numbers(runs: pl.DataFrame, of: pl.DataFrame, replay: Replay) -> dict[str, str]:
    cells = {"seeds": str(of.height), "AUC return": _with_error(of["auc_return"].to_list(), 1)}
    against = AUTO if replay in STARTS else PER
    gap = None if replay == PER else difference(runs, replay, against)
    if gap is not None:
        low, high = (number(end, 1, sign=True) for end in (gap.low, gap.high))
        than = "SAMPLE, auto" if replay in STARTS else "PER"
        cells["minus, paired"] = f"{number(gap.value, 1, sign=True)} [{low}, {high}] ({than})"
    if of["condition"][0] == "mp-tail":
        cells["R of the tail"] = _with_error(late_ratio(of), 2)
    if replay.method == "SAMPLE":
        kept = [float(series(row, "groups_per_entry")[-1]) for row in of.iter_rows(named=True)]
        cells["G/N at the end"] = _with_error(kept, 4)
    return cells


def _with_error(values: list[float], decimals: int) -> str:
    mean, error = mean_se(values)
    text = number(mean, decimals)
    return text if np.isnan(error) else f"{text} ± {number(error, decimals)}"


def verdicts(
    frame: pl.DataFrame,
    block: str = "env",
    blocks: Iterable[str] = ENVS,
    seeds: Collection[int] = SEEDS,
) -> list[dict[str, str]]:
    """What became of the hypotheses; nothing is said before all seeds are there."""
    found = []
    for each in blocks:
        runs = frame.filter(pl.col(block) == each)
        noisy, clean = (runs.filter(condition=name) for name in ("mp-tail", "clean"))
        cells = [of_replay(part, replay) for part in (noisy, clean) for replay in (PER, AUTO)]
        if any(cell.height < len(seeds) for cell in cells):
            continue
        gap = difference(noisy, AUTO, PER)
        assert gap is not None
        ratio = float(np.mean(late_ratio(of_replay(noisy, AUTO))))
        ours, theirs = (_mean_auc(clean, replay) for replay in (AUTO, PER))
        said = {
            "H1: above PER under the tail": (gap.low > 0, f"{gap.value:+.1f} "
                f"[{gap.low:+.1f}, {gap.high:+.1f}]"),
            "H2: R at most 1.2": (ratio <= 1.2, f"{ratio:.2f}"),
            "H3: clean, at least 90 % of PER": (ours >= theirs - 0.1 * abs(theirs),
                f"{ours:.1f} beside {theirs:.1f}"),
        }  # fmt: skip
        for name, (holds, text) in said.items():
            answer = {"answer": "yes" if holds else "no", "evidence": text}
            found += [{block: each, "hypothesis": name, "metric": head, "ours": cell, "paper": ""}
                      for head, cell in answer.items()]  # fmt: skip
    return found


def _mean_auc(frame: pl.DataFrame, replay: Replay) -> float:
    return float(np.mean(of_replay(frame, replay)["auc_return"].to_numpy()))


def pixel_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """AUC and last return of each seed, by what makes the groups."""
    found = []
    for words, method, key in PIXELS:
        runs = frame.filter(pl.col("method") == method, pl.col("key") == key).sort("seed")
        for row in runs.iter_rows(named=True):
            keys = {"replay": words, "seed": str(row["seed"]), "paper": ""}
            cells = {"AUC return": row["auc_return"], "last return": row["final_return"]}
            found += [keys | {"metric": name, "ours": number(value, 2)}
                      for name, value in cells.items()]  # fmt: skip
    return found


def _pixel_table(frames: Frames) -> tuple[Table, Count]:
    return texts(pixel_rows(frames[PIXEL_FRAME]), Shape(rows=("replay", "seed"))), Count()


@dataclass(frozen=True)
class PixelNeeds:
    """Two seeds of each."""

    study: str = PIXEL_FRAME

    def gap(self, frames: Frames) -> Gap | None:
        there = len(pixel_rows(frames[PIXEL_FRAME])) // 2
        total = 2 * len(PIXELS)
        if there >= total:
            return None
        return Gap((f"{there} of {total} runs",), PIXEL_COMMAND, there == 0)


def _table(frames: Frames) -> tuple[Table, Count]:
    shape = Shape(rows=("condition", "replay"), block="env")
    return texts(rows(frames[NAME]), shape), Count()


def _verdict_table(frames: Frames) -> tuple[Table, Count]:
    return texts(verdicts(frames[NAME]), Shape(rows=("hypothesis",), block="env")), Count()


SECTION = Section(
    NAME,
    "Siblings where observations never repeat",
    "SB3's DQN on classic control, declared before it was run: does replay over groups that a "
    "key map makes help, and what does it do where nothing is to be corrected?",
    (
        TableEntry(
            "keys-results",
            "Not in the paper",
            "Uniform, PER and SAMPLE by key maps",
            "Mean ± standard error over seeds 100-109; differences in AUC with 95 % paired "
            "t intervals; R: how often the rare outcome is replayed over how often it is "
            "stored, in the second half of a run.",
            NEEDS,
            _table,
        ),
        TableEntry(
            "keys-verdicts",
            "Not in the paper",
            "The hypotheses, as declared",
            "Each environment by itself, once all ten seeds are there.",
            NEEDS,
            _verdict_table,
        ),
        TableEntry(
            "keys-pixels",
            "Not in the paper",
            "SpaceInvaders under the tail, 200,000 steps: groups by pixels",
            "Two seeds, so descriptive: k-means of the pixels beside the VQ-VAE and PER.",
            PixelNeeds(),
            _pixel_table,
        ),
    ),
)

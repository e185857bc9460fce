"""What rivals keep beside masses in the trainer of tables: scores of groups in a tree, and numbers
noted by slot with their sums by group."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.inner import inner
from sibling_replay.replay.tree import new_tree, raise_sum
from sibling_replay.training.tabular.rules import NEYMAN

COUNT, SUM, SQUARES = range(3)


class GroupScores(NamedTuple):
    """Arrays of what is not kept are empty."""

    scores: NDArray[np.float64]  # [G] v_g
    tree: NDArray[np.float64]  # leaves first: n_g^kappa v_g^alpha
    levels: NDArray[np.int64]
    largest: NDArray[np.float64]  # [1] score so far: that of a new group
    sums: NDArray[np.float64]  # [3, G] count, sum and sum of squares of what is noted by slot


def new_scores(n_groups: int, scored: bool, summed: bool) -> GroupScores:
    tree, levels = new_tree(n_groups) if scored else (np.zeros(0), np.zeros(0, np.int64))
    return GroupScores(
        scores=np.zeros(n_groups if scored else 0),
        tree=tree,
        levels=levels,
        largest=np.ones(1),
        sums=np.zeros((3, n_groups if summed else 0)),
    )


@inner(error_model="numpy")
def set_leaf(kept, kappa, alpha, group, members):
    """M_g = n_g^kappa v_g^alpha; 0 without members."""
    leaf = 0.0
    if members > 0:
        leaf = np.float64(members) ** kappa * kept.scores[group] ** alpha
    kept.tree[group] = leaf
    raise_sum(kept.tree, kept.levels, group)


@inner(error_model="numpy")
def set_score(kept, kappa, alpha, group, members, score):
    kept.scores[group] = score
    kept.largest[0] = max(kept.largest[0], score)
    set_leaf(kept, kappa, alpha, group, members)


@inner(error_model="numpy")
def note(kept, noted, slot, group, value):
    """Replace the number of a slot, and adjust the sums of its group; infinite: none."""
    old = noted[slot]
    noted[slot] = value
    if kept.sums.shape[1] == 0:
        return
    if abs(old) < np.inf:
        kept.sums[COUNT, group] -= 1.0
        kept.sums[SUM, group] -= old
        kept.sums[SQUARES, group] -= old * old
        if kept.sums[COUNT, group] == 0.0:  # exactly nothing, whatever rounding left
            kept.sums[SUM, group] = kept.sums[SQUARES, group] = 0.0
    if abs(value) < np.inf:
        kept.sums[COUNT, group] += 1.0
        kept.sums[SUM, group] += value
        kept.sums[SQUARES, group] += value * value


@inner(error_model="numpy")
def score_of(kind, mean, square, epsilon):
    """The score of a group whose members' errors have this mean and mean square."""
    return (math.sqrt(square) if kind == NEYMAN else abs(mean)) + epsilon

"""What the compiled trainer records of its buffer and minibatch: the paper's diagnostics.

Called between sampling and update (appendix "Measurements across the parameter sweep"). It draws
no random number and writes nothing but the network's scratch space, so a measured run and an
unmeasured one are the same run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sibling_replay import diagnostics as dx
from sibling_replay.strategies.recipe import BY_MASS
from sibling_replay.training.settings import linear
from sibling_replay.training.tabular.loop import TabularRun
from sibling_replay.training.tabular.network import all_values

# An environment with so few possible cells has each of them recorded (Bandit's figure needs it).
MOST_CELLS_RECORDED = 8


def measure(run: TabularRun) -> dict[str, float]:
    """One row of diagnostics.

    outcome_tv, shift_before_is, shift_after_is, concentration: of the full buffer, over groups by
    mass. ess, td_std, ratio_mean, ratio_std: of the minibatch. shift_sum, weight_sum: the terms of
    the signed sampled shift. action_l1: cumulative, of all steps and all minibatches so far.
    In environments of few cells, also their count, mass and corrected mass, by group and outcome.
    """
    clock, settings, batch = run.clock[0], run.settings, run.batch
    live = int(clock["live"])
    beta = linear(
        settings.beta_start, settings.beta_end, settings.beta_updates, int(clock["updates"])
    )
    by_mass = settings.rule.recipe.anchors == BY_MASS
    masses = run.memory.entries.tree[:live] if by_mass else np.ones(live)
    n_cells = run.memory.counts.size
    width = n_cells // run.visits.shape[1]
    census = dx.take_tabular_census(run.memory.outcome[:live], masses, width, n_cells, beta)

    values = np.empty_like(run.network.target)
    all_values(run.network, values)
    targets = cell_targets(run, values)
    stored = targets[census.outcome]
    by_cell = np.zeros(run.visits.shape[1], dtype=np.int64)
    by_cell[census.group] = np.arange(len(census.group))
    place = by_cell[batch.groups]  # of each batch row's group in the census

    terms = batch.starts[-1]
    trained = np.add.reduceat(
        batch.shares[:terms] * targets[batch.outcomes[:terms]], batch.starts[:-1]
    )
    td = trained - values.ravel()[batch.groups]
    scaled = masses[batch.slots] / masses.max()  # as the census scales them
    ratio = dx.selection_ratio(scaled, census.group_count[place], census.group_mass[place])
    shift_sum, weight_sum = dx.shift_terms(
        batch.weights, trained, dx.mean_target(census, stored)[place]
    )
    behaviour, replay = run.visits.reshape(2, -1, values.shape[1]).sum(axis=1)
    row = {
        "outcome_tv": dx.by_mass(census, dx.outcome_tv(census)),
        "shift_before_is": dx.by_mass(census, np.abs(dx.target_shift(census, stored))),
        "shift_after_is": dx.by_mass(census, np.abs(dx.corrected_shift(census, stored))),
        "concentration": dx.by_mass(census, dx.entry_concentration(census)),
        "ess": dx.effective_sample_size(batch.weights),
        "td_std": float(td.std()),
        "ratio_mean": float(ratio.mean()),
        "ratio_std": float(ratio.std()),
        "shift_sum": shift_sum,
        "weight_sum": weight_sum,
        "action_l1": dx.action_l1(behaviour, replay),
    }
    if n_cells <= MOST_CELLS_RECORDED:
        row |= _cells(census, n_cells, width)
    return row


def cell_targets(run: TabularRun, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """[G * width] the Double-DQN target of every possible outcome (eq. 11), given Q [S, A]."""
    outcomes = run.outcomes
    best = values.argmax(axis=1)
    bootstrap = run.network.target[np.arange(best.size), best].astype(np.float64)
    return np.asarray(outcomes.reward + outcomes.discount * bootstrap[outcomes.next_state])


def _cells(census: dx.Census, n_cells: int, width: int) -> dict[str, float]:
    """Count, mass and corrected mass of each possible cell; 0 where nothing is stored."""
    row = {}
    for name in ("count", "mass", "corrected"):
        column = np.zeros(n_cells)
        column[census.outcome] = getattr(census, name)
        for cell in range(n_cells):
            group, outcome = divmod(cell, width)
            row[f"{name}/g{group}/o{outcome}"] = float(column[cell])
    return row

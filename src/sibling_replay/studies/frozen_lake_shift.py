"""The paper's analytic example: how far PER bends the targets of FrozenLake's best policy.

"Under the known transition law and infinite-horizon optimal values, with gamma = 0.99, alpha = 0.6,
and no IS correction, the largest downward target shifts among visited greedy state-action pairs
with hole risk are approximately -50.4 and -15.3" (appendix "FrozenLake rewards and transitions").

What "visited" means is left open, and it decides. The states 53 and 27 are reached by several slips
in a row: 1e-7 times an episode in H100/H300, 6e-9 times in H50. If every reachable state counts,
the largest shifts are -50.401 and -18.867; if a state must be visited more than 1e-8 times an
episode they are -50.401 and -15.305, the published ones. No greedy action is tied in either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sibling_replay.diagnostics import prioritized_target_shift
from sibling_replay.envs import TabularModel, optimal_values

VISITED = 1e-8  # expected visits an episode: the reading under which both published shifts come out


class TargetShift(NamedTuple):
    """The shift at one visited greedy pair that risks a hole."""

    state: int
    action: int
    shift: float


def expected_visits(model: TabularModel, actions: NDArray[np.int64]) -> NDArray[np.float64]:
    """[S] how often a policy is expected to act in each state, per episode without a time limit."""
    states = np.arange(model.n_states)
    going = model.probability[states, actions] * ~model.terminated[states, actions]
    moves = np.zeros((model.n_states, model.n_states))
    np.add.at(moves, (states[:, None], model.next_state[states, actions]), going)
    start = np.diff(model.initial_cumulative, prepend=0.0)
    return np.asarray(np.linalg.solve(np.eye(model.n_states) - moves.T, start))


def target_shifts(
    model: TabularModel, gamma: float = 0.99, alpha: float = 0.6, visited: float = VISITED
) -> list[TargetShift]:
    """Every greedy pair with hole risk whose state is expected to be visited more than `visited`
    times an episode, the most downward shift first.

    A hole is a termination that costs: its reward is negative.
    """
    q = optimal_values(model, gamma)
    actions = q.argmax(axis=1)
    found = []
    for state in np.flatnonzero(expected_visits(model, actions) > visited):
        pair = (state, actions[state])
        p, reward, ended = model.probability[pair], model.reward[pair], model.terminated[pair]
        if not (p[ended & (reward < 0)] > 0).any():
            continue
        targets = reward + gamma * ~ended * q.max(axis=1)[model.next_state[pair]]
        shift = prioritized_target_shift(targets, p, q[pair], alpha)
        found.append(TargetShift(int(state), int(actions[state]), shift))
    return sorted(found, key=lambda each: each.shift)

"""What a table says about acting: the best values, what a policy earns, where an episode can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .tables import TabularModel

_MOST_SWEEPS = 1_000_000


def optimal_values(model: TabularModel, gamma: float) -> NDArray[np.float64]:
    """Q* [S, A] of the endless problem: a time limit says nothing about a state.

    Value iteration to rounding finds the best actions; their values are then the solution of a
    linear system, which is exact where the iteration is still short by its last step / (1 - gamma).

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> np.round(optimal_values(table, gamma=0.99), 6).tolist()
        [[2.0, 1.0]]
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must be between 0 and 1, got {gamma!r}")
    q = np.zeros((model.n_states, model.n_actions))
    for _ in range(_MOST_SWEEPS):
        better = _backup(model, gamma, q.max(axis=1))
        if np.abs(better - q).max() <= 1e-13 * (1.0 + np.abs(better).max()):
            return _polished(model, gamma, better)
        q = better
    raise ValueError(f"values do not settle with gamma = {gamma}: some policy never ends")


def _backup(
    model: TabularModel, gamma: float, values: NDArray[np.float64]
) -> NDArray[np.float64]:  # [S] -> [S, A]
    targets = model.reward + gamma * ~model.terminated * values[model.next_state]
    return np.asarray((model.probability * targets).sum(axis=2))


def _polished(
    model: TabularModel, gamma: float, q: NDArray[np.float64]
) -> NDArray[np.float64]:  # [S, A]
    """The values of acting greedily in `q`, solved for."""
    if gamma == 1.0:
        return q  # states that are never left would make the system singular
    policy = greedy_policy(q)
    matrix = np.eye(model.n_states) - gamma * _moves(model, policy)
    paid = (policy * (model.probability * model.reward).sum(axis=2)).sum(axis=1)
    return _backup(model, gamma, np.linalg.solve(matrix, paid))


def _moves(model: TabularModel, policy: NDArray[np.float64]) -> NDArray[np.float64]:
    """[S, S] chances of going on from one state to another."""
    going = policy[:, :, None] * model.probability * ~model.terminated
    moves = np.zeros((model.n_states, model.n_states))
    states = np.broadcast_to(np.arange(model.n_states)[:, None, None], going.shape)
    np.add.at(moves, (states, model.next_state), going)
    return moves


def policy_return(model: TabularModel, policy: ArrayLike) -> float:
    """The expected sum of rewards of an episode, up to the time limit: what an evaluation
    estimates. `policy` [S, A] has the probability of each action.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> round(policy_return(table, [[1.0, 0.0]]), 6)  # always safe
        2.0
    """
    chosen = np.asarray(policy, np.float64)
    moves = _moves(model, chosen)
    paid = (chosen * (model.probability * model.reward).sum(axis=2)).sum(axis=1)
    there = np.diff(model.initial_cumulative, prepend=0.0)
    total = 0.0
    for _ in range(min(model.time_limit, _MOST_SWEEPS)):
        total += float(there @ paid)
        there = there @ moves
        if there.sum() < 1e-15:
            break
    return total


def greedy_policy(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """[S, A] one for the first of the largest values of each state.

    Examples:
        >>> greedy_policy(np.array([[0.0, 2.0], [1.0, 1.0]])).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    return np.asarray(np.eye(q.shape[1])[q.argmax(axis=1)])


def random_policy(model: TabularModel) -> NDArray[np.float64]:
    """[S, A] every action equally often.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> random_policy(table).tolist()
        [[0.5, 0.5]]
    """
    return np.full((model.n_states, model.n_actions), 1.0 / model.n_actions)


def reachable_states(model: TabularModel) -> NDArray[np.bool_]:
    """[S] whether an episode can ask for an action there: elsewhere values are never learnt.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/TwoChains-v0"))
        >>> int(reachable_states(table).sum())
        12
    """
    found = np.diff(model.initial_cumulative, prepend=0.0) > 0
    leads = _moves(model, random_policy(model)) > 0
    while True:
        more = found | leads[found].any(axis=0)
        if (more == found).all():
            return found
        found = more

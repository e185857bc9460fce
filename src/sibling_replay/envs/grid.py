"""Grid worlds from a map in text: four moves, and what a tile pays when it is entered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from .base import Outcome, TableEnv
from .noise_laws import Law

WALL, START, GOAL = "#", "S", "G"
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up, as in FrozenLake


def sure(reward: float) -> Law:
    """A reward without noise."""
    return Law(np.array([reward]), np.ones(1))


class Tile(NamedTuple):
    """What happens to who enters."""

    pays: Law
    ends: bool = False
    leads_to: tuple[int, int] | None = None  # row and column, if it is elsewhere


class GridEnv(TableEnv):
    """A map of equally long rows, with a meaning for each of its letters but walls.

    The state is row * columns + column. A move against a wall or the edge stays, and pays what the
    tile pays that it stays on. Walls and tiles that end an episode are states too, never acted in.
    """

    def __init__(self, rows: Sequence[str], tiles: Mapping[str, Tile]) -> None:
        letters = "".join(rows)
        columns = len(rows[0])

        def entered(state: int, move: tuple[int, int]) -> int:
            row, column = state // columns + move[0], state % columns + move[1]
            inside = 0 <= row < len(rows) and 0 <= column < columns
            return row * columns + column if inside and rows[row][column] != WALL else state

        def outcomes(state: int, move: tuple[int, int]) -> list[Outcome]:
            if letters[state] == WALL or tiles[letters[state]].ends:
                return [(1.0, state, 0.0, True)]
            arrived = entered(state, move)
            tile = tiles[letters[arrived]]
            if tile.leads_to is not None:
                arrived = tile.leads_to[0] * columns + tile.leads_to[1]
            law = zip(tile.pays.probabilities.tolist(), tile.pays.values.tolist(), strict=True)
            return [(probability, arrived, reward, tile.ends) for probability, reward in law]

        self.P = {
            state: {action: outcomes(state, move) for action, move in enumerate(MOVES)}
            for state in range(len(letters))
        }
        self.goal = letters.index(GOAL)
        self.initial_state_distrib = np.zeros(len(letters))
        self.initial_state_distrib[letters.index(START)] = 1.0
        self.observation_space = spaces.Discrete(len(letters))
        self.action_space = spaces.Discrete(len(MOVES))

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return next_state == self.goal and state != self.goal

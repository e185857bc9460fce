"""FickleTaxi: Gymnasium's Taxi with a passenger who may change their mind, as a table."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.taxi import TaxiEnv

from .base import Outcome, TableEnv, check_probability

IN_TAXI = 4
DESTINATIONS = 4


class FickleTaxiEnv(TableEnv):
    """Gymnasium's Taxi whose passenger may name another destination once the taxi has moved.

    ## Description
    `Taxi-v4` with `fickle_passenger=True` decides at the reset, with probability 0.3, whether its
    passenger is fickle. A fickle one changes to one of the other three destinations at the first
    step on which the taxi moves with them inside, and never again. The decision is hidden, and so
    is whether that step was already taken, so that no table over its 500 states is true of it.

    Here the decision is made when it shows, which is the same law, and the state says whether it
    was made. Nothing else differs, and what the state adds is what a driver remembers.

    ## Action space
    `Discrete(6)`: 0 south, 1 north, 2 east, 3 west, 4 pick up, 5 drop off.

    ## Observation space
    `Discrete(1000)`: Taxi's state, plus 500 once the passenger has made up their mind.

    ## Rewards
    Taxi's: 20 for a passenger delivered, -10 for a pick-up or drop-off that is not possible, -1 for
    every other step.

    ## Episode end
    Termination when the passenger is delivered, truncation after 200 steps.

    ## Success
    An episode succeeds if the passenger was delivered.

    ## Arguments
    ```python
    gym.make("sibling_replay/FickleTaxi-v0", fickle_probability=0.3, is_rainy=False)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/FickleTaxi-v0")
        >>> env.observation_space.n.item()
        1000
    """

    def __init__(
        self,
        fickle_probability: float = 0.3,
        is_rainy: bool = False,
        render_mode: None = None,
    ) -> None:
        p = check_probability("fickle_probability", fickle_probability)
        taxi = TaxiEnv(is_rainy=is_rainy)
        n = int(taxi.observation_space.n)  # type: ignore[attr-defined]

        def undecided(state: int, outcome: Outcome) -> list[Outcome]:
            """What Taxi's outcome becomes while the passenger may still change their mind."""
            chance, next_state, reward, terminated = outcome
            row, column, place, _ = taxi.decode(state)
            next_row, next_column, next_place, destination = taxi.decode(next_state)
            if place != IN_TAXI or (row, column) == (next_row, next_column):
                return [outcome]
            others = [other for other in range(DESTINATIONS) if other != destination]
            return [(chance * (1.0 - p), n + next_state, reward, terminated)] + [
                (
                    chance * p / len(others),
                    n + taxi.encode(next_row, next_column, next_place, other),
                    reward,
                    terminated,
                )
                for other in others
            ]

        self.P = {}
        for state, actions in taxi.P.items():
            self.P[state], self.P[n + state] = {}, {}
            for action, listed in actions.items():
                outcomes = [(float(c), int(s), float(r), bool(t)) for c, s, r, t in listed]
                self.P[n + state][action] = [(c, n + s, r, t) for c, s, r, t in outcomes]
                self.P[state][action] = [
                    each for outcome in outcomes for each in undecided(state, outcome)
                ]
        self.initial_state_distrib = np.concatenate([taxi.initial_state_distrib, np.zeros(n)])
        self.observation_space = spaces.Discrete(2 * n)
        self.action_space = spaces.Discrete(6)
        self.render_mode = render_mode
        self._delivered = {
            (state, action, outcome[1])
            for state, actions in self.P.items()
            for action, outcomes in actions.items()
            for outcome in outcomes
            if outcome[3]
        }

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return (state, action, next_state) in self._delivered

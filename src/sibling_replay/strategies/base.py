"""What a strategy is: how to draw, with what probability, with what weight, and what to refresh.

A strategy is a frozen record of its options and holds no state: the same object can serve any
number of buffers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.recipe import ALL_AVERAGED, LARGEST, NO_WEIGHTS, Recipe
from sibling_replay.strategies.weights import NORMALIZATIONS

Normalize: TypeAlias = Literal["batch", "buffer"] | None


class InvalidTDErrors(ValueError):
    """TD errors that cannot become priorities."""


def refuse_invalid(batch: Batch, errors: F64, place: int) -> None:
    """Raise for the error at `place` (or the slot at -2 - `place`), naming the slot."""
    if place < 0:
        raise ValueError(f"slot {batch.slots[-2 - place]} of the batch holds no entry")
    raise InvalidTDErrors(
        f"TD error {place} of the batch (slot {batch.slots[place]}) is {errors[place]}: "
        f"it must be finite. No priority was changed."
    )


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Options common to all strategies.

    alpha: priority exponent, mass = priority^alpha (0: uniform; paper 0.6).
    epsilon: added to the absolute TD error to make a priority (paper 1e-6).
    normalize: divide weights by the largest of the minibatch ("batch", the paper), by the largest
        any entry of the buffer could have ("buffer"), or not at all (None).
    """

    alpha: float = 0.6
    epsilon: float = 1e-6
    normalize: Normalize = "batch"

    needs_groups: ClassVar[bool] = False
    borrows_outcomes: ClassVar[bool] = False  # trains an entry toward outcomes of its siblings

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """The compiled steps it is made of."""

    def __post_init__(self) -> None:
        for name in ("alpha", "epsilon"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise TypeError(f"{name} must be a number, not {value!r}")
            object.__setattr__(self, name, float(value))
        if not 0.0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be finite and not negative, got {self.alpha}")
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(
                f"epsilon must be finite and positive, so that every entry can be drawn, "
                f"got {self.epsilon}"
            )
        if self.normalize not in NORMALIZATIONS:
            raise ValueError(f'normalize must be "batch", "buffer" or None, not {self.normalize!r}')

    @property
    def needs_outcomes(self) -> bool:
        """Whether the buffer must count the distinct outcomes of each group."""
        return False

    @property
    def needs_floors(self) -> Literal["slots", "groups"] | None:
        """Of what the buffer must know the least mean mass."""
        if self.normalize != "buffer" or self.recipe.weights == NO_WEIGHTS:
            return None
        return "groups" if self.needs_groups else "slots"

    @property
    def keeps_largest(self) -> bool:
        """Whether of several priorities for one entry the largest stays."""
        return self.recipe.refreshed in (LARGEST, ALL_AVERAGED)

    @abstractmethod
    def law(self, masses: F64, groups: I64) -> Law:
        """The exact probabilities of one draw, given masses and groups of the live slots."""

    def options(self) -> dict[str, Any]:
        """The options, as plain data."""
        return asdict(self)

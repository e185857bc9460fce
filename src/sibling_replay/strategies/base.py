"""What a strategy is: how to draw, with what probability, with what weight, and what to refresh.

A strategy is a frozen record of its options and holds no state: the same object can serve any
number of buffers. It reads and writes the arrays of a `Memory`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.draws import draw_prioritized
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.refresh import refresh_batch
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
    _trained: ClassVar[int]  # what a prioritized draw trains on (see `draws`)
    _uniforms: ClassVar[int] = 1  # that it takes an entry
    _normalize: ClassVar[int]  # the code of `normalize` for the kernels; set per instance

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
        object.__setattr__(self, "_normalize", NORMALIZATIONS[self.normalize])

    @property
    def needs_outcomes(self) -> bool:
        """Whether the buffer must count the distinct outcomes of each group."""
        return False

    @property
    def needs_floors(self) -> Literal["slots", "groups"] | None:
        """Of what the buffer must know the least mean mass."""
        if self.normalize != "buffer":
            return None
        return "groups" if self.needs_groups else "slots"

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        """Draw a minibatch from a memory that has entries."""
        batch = memory.new_batch(size)
        block, start = uniforms.reserve(self._uniforms * size)
        if not draw_prioritized(
            memory.handle, block, start, batch.block, size, beta, self._normalize, self._trained
        ):
            raise ValueError("the total priority mass is zero: there is nothing to draw from")
        return batch

    @abstractmethod
    def law(self, masses: F64, groups: I64) -> Law:
        """The exact probabilities of one draw, given masses and groups of the live slots."""

    def refresh(self, memory: Memory, batch: Batch, errors: F64) -> None:
        """Set priorities from the TD errors of a drawn batch."""
        invalid = refresh_batch(memory.handle, batch.block, errors, self.alpha, self.epsilon)
        if invalid != -1:
            refuse_invalid(batch, errors, invalid)

    def options(self) -> dict[str, Any]:
        """The options, as plain data."""
        return asdict(self)

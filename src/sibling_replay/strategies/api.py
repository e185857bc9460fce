"""What a strategy is: how to draw, with what probability, with what weight, and what to refresh.

A strategy is a frozen record of its options and holds no state: the same object can serve any
number of buffers. The buffer guards, the strategy decides: it reads a `View`, and says what is to
be drawn and refreshed; the buffer checks that, gathers, stamps, writes, and drops what is stale.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.recipe import Recipe
from sibling_replay.strategies.view import Stream, View
from sibling_replay.strategies.weights import NORMALIZATIONS

Normalize: TypeAlias = Literal["batch", "buffer"] | None
Initial: TypeAlias = Literal["largest", "recent", "median"]
INITIALS = ("largest", "recent", "median")
Values: TypeAlias = Callable[[I64], F64]
Signals: TypeAlias = Mapping[str, F64]


class InvalidTDErrors(ValueError):
    """TD errors that cannot become priorities.

    Examples:
        >>> sampler = SlotSampler(1, Prioritized(), seed=0)
        >>> sampler.put([0])
        >>> sampler.update_priorities(sampler.sample(1), [np.nan])
        Traceback (most recent call last):
            ...
        sibling_replay.strategies.api.InvalidTDErrors: ...
    """


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a strategy uses of a buffer, a learner and a host. Who cannot give it refuses it.

    Examples:
        >>> needs = Needs(groups=True, signals=("target_error",))
        >>> needs.groups, needs.signals
        (True, ('target_error',))
    """

    groups: bool = False  # siblings
    outcomes: bool = False  # counts of the distinct outcomes of each group
    other_outcomes: bool = False  # entries are trained toward outcomes of their siblings
    averages: bool = False  # targets that are means over several outcomes
    residuals: bool = False  # these means are of targets less the values of their own entries
    shifts: bool = False  # targets with something added
    signed: bool = False  # TD errors with their sign
    signals: tuple[str, ...] = ()  # arrays beside the TD errors, one number a row, by name
    columns: Mapping[str, float] = field(default_factory=dict)
    """Numbers the buffer keeps a slot, by name, and what a newcomer's is (NaN or infinity: none
    yet). Of each column it keeps count, sum and sum of squares of every group."""
    scores: bool = False  # a score a group, and a tree over groups with leaves n_g^kappa v_g^alpha
    kappa: float = 0.0
    sweep: int = 0  # refreshes from one `rescore` to the next; 0: never
    values: bool = False  # the learner's present values, in sweeps (`use_values`)
    candidates: int = 0  # for each entry trained, drawn so that `buffer.select` can choose; 0: none
    host_may_draw: bool = False  # a host's own uniform draw is the same thing

    def __post_init__(self) -> None:
        if self.residuals and not self.averages:
            raise ValueError("residuals are averaged: a strategy that needs them needs averages")
        if self.candidates and (self.averages or self.shifts or self.other_outcomes):
            raise ValueError("candidates are plain entries: no averages, shifts, other outcomes")
        if self.scores and not self.groups:
            raise ValueError("scores are of groups: a strategy that needs them needs groups")


class Terms(NamedTuple):
    """Outcomes whose mean a row is trained toward: those of row b are starts[b] to
    starts[b + 1] - 1, and their shares add up to one.

    Examples:
        >>> slots, shares = np.array([4, 5, 6]), np.array([0.5, 0.5, 1.0])
        >>> terms = Terms(np.array([0, 2, 3]), slots, shares)
        >>> terms.slots[terms.starts[0] : terms.starts[1]].tolist()  # of the first row
        [4, 5]
    """

    starts: I64  # [B + 1]
    slots: I64  # [terms]: a slot that holds the outcome
    shares: F64  # [terms]


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """What to train on, a row an entry.

    Examples:
        >>> draw = Draw(slots=np.array([2, 0]), weights=np.array([1.0, 0.5]))
        >>> draw.slots.size
        2
    """

    slots: I64  # whose observation and action are trained
    anchors: I64 | None = None  # whom priority drew; by default the slots
    outcome_slots: I64 | None = None  # whose outcome is trained toward; by default the slots
    weights: F64 | None = None  # importance weights; by default one
    terms: Terms | None = None  # instead of one outcome a row
    shift: F64 | None = None  # added to the targets of the loss, not to TD errors


@dataclass(frozen=True, kw_only=True, eq=False)
class Refresh:
    """What the buffer is to write: to slots, priorities and numbers of columns; to groups, scores.
    Of a slot or group named twice the last stays.

    Examples:
        >>> refresh = Refresh(slots=np.array([2, 0]), priorities=np.array([1.5, 0.1]))
        >>> float(refresh.priorities.max())
        1.5
    """

    slots: I64 | None = None
    priorities: F64 | None = None  # a slot each; raw: the buffer raises them to alpha
    columns: Mapping[str, F64] = field(default_factory=dict)  # name -> a number a slot
    groups: I64 | None = None
    scores: F64 | None = None  # a group each


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Options common to all strategies, and what a strategy must say.

    alpha: priority exponent, mass = priority^alpha (0: uniform; paper 0.6).
    epsilon: added to the absolute TD error to make a priority (paper 1e-6).
    normalize: divide weights by the largest of the minibatch ("batch", the paper), by the largest
        any entry of the buffer could have ("buffer"), or not at all (None).
    initial: the priority of a new entry: the largest ever assigned ("largest", the paper), the
        largest of late ("recent"), or the median of the stored ones ("median").

    To write one, derive from this class, state `needs`, and define `draw`, `refresh` and `law`
    with NumPy; `@register` it so that files and commands find it by `name`. Options of your own
    are fields of a `@dataclass(frozen=True, kw_only=True)`. (Those built in have a `recipe`
    instead of a draw and a refresh: steps that are compiled.)

    Examples:
        >>> Prioritized(alpha=0.7).options()["alpha"]
        0.7
    """

    alpha: float = 0.6
    epsilon: float = 1e-6
    normalize: Normalize = "batch"
    initial: Initial = "largest"

    name: ClassVar[str]  # in files, commands and messages; by default that of the class

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        own = [name for name in ("draw", "refresh") if name in cls.__dict__]
        compiled = cls.recipe is not Strategy.recipe and cls.recipe is not None
        if own and compiled and "recipe" not in cls.__dict__:
            raise TypeError(
                f"{cls.__name__} defines {' and '.join(own)}, and what it derives from is compiled "
                f"and would never call that: derive from Strategy, with draw, refresh and law"
            )

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
        if self.initial not in INITIALS:
            raise ValueError(f"initial must be one of {', '.join(INITIALS)}, not {self.initial!r}")

    @property
    def needs(self) -> Needs:
        """What it uses. Give it as an attribute of the class, or as a property where options
        decide."""
        return Needs()

    @property
    def recipe(self) -> Recipe | None:
        """The compiled steps it is made of; None for a strategy in NumPy."""
        return None

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        """Choose `size` rows. Random numbers come from `stream.take(n)` alone."""
        raise NotImplementedError(f"{self.name} has no draw")

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh | None:
        """New priorities from the TD errors (target minus value) of a draw, or None.

        Rows whose trained slot was overwritten since the draw have been left out. Anchors and
        outcome slots that were are -1, and such terms are gone; groups are those of now.
        """
        return None

    def select(self, td_errors: F64, size: int, stream: Stream) -> tuple[I64, F64]:
        """Choose `size` of the candidates that have these TD errors now: their places, and a weight
        each. For strategies that need `candidates`."""
        raise NotImplementedError(f"{self.name} has no select")

    def rescore(self, view: View, values: Values | None) -> Refresh | None:
        """Everything anew, every `needs.sweep` refreshes: what was last refreshed long ago is
        stale. `values(slots)` gives the learner's present values, if the buffer was told
        (`use_values`)."""
        return None

    @abstractmethod
    def law(self, view: View, size: int) -> Law:
        """The exact probabilities of a row of a batch of `size`, over `view.slots`."""

    def importance_weights(self, view: View, probabilities: F64, beta: float) -> F64:
        """(N P)^-beta for rows that are trained with probability P, normalized as the options say:
        what makes the mean gradient that of uniform replay, at beta = 1."""
        weights: F64 = np.asarray((view.size * probabilities) ** -beta)
        if self.normalize == "batch":
            weights = weights / weights.max()
        elif self.normalize == "buffer":
            least = self.law(view, probabilities.size).trained.min()
            weights = weights / (view.size * least) ** -beta
        return weights

    def options(self) -> dict[str, Any]:
        """The options, as plain data."""
        return asdict(self)

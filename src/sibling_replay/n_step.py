"""n-step outcomes: what a step led to after n steps, written into its entry as these come.

An entry is stored when its step is taken, with what that one step led to. Each of the next n - 1
steps of its episode lengthens it: the discounted reward is added, the next observation and the ends
are those of the newest step, and `discount` is gamma to the number of steps. So every entry is
always whole, and can be drawn at once: at worst it looks less far ahead than n steps, as it must at
the end of an episode and at the newest steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.checkpoint import StateError
from sibling_replay.replay.arrays import I64, U8
from sibling_replay.replay.lengthen import CLOSED, append_steps, places_of
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.staging import whole_number

DISCOUNT = "discount"
SAVED, SAVED_OPEN = "n_step", "n_step_open"  # in a state's header


class NStep:
    """The entries of each environment that still grow, and how they do.

    n_steps: steps that an outcome covers at most, 2 or more.
    gamma: discount of a step.
    """

    def __init__(self, n_steps: int, gamma: float, capacity: int, reward: Field) -> None:
        self.n_steps, self.gamma = n_steps, gamma
        self._capacity = capacity
        self._layout: Layout | None = None  # of which `_places` tells where fields lie
        self._places: I64 = np.zeros((0, 2), dtype=np.int64)
        self._one: dict[int, I64] = {}  # by number, as `environment` gives them
        # In the precision that rewards are stored in: powers of gamma, the first is 1.
        self._powers: NDArray[Any] = gamma ** np.arange(n_steps + 1, dtype=reward.dtype)
        self.end_episodes()

    def end_episodes(self, env_id: int | None = None) -> None:
        """Environments were reset, all or one: what comes does not continue what was stored."""
        env_id = None if env_id is None else whole_number("env_id", env_id)
        if env_id is not None and env_id < 0:
            raise ValueError(f"env_id must be a whole number from 0 on, got {env_id}")
        if env_id is None:
            # [environments, n_steps - 1]: the slot of the step before, of that before it, ...
            self._open: I64 = np.full((0, self.n_steps - 1), CLOSED, dtype=np.int64)
        elif env_id < len(self._open):
            self._open[env_id] = CLOSED

    def with_discount(self, extra: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        """The user's own fields of a step, and the discount of a single step: of one environment,
        shape (), or of several."""
        if DISCOUNT in extra:
            raise TypeError(f"with n_steps above 1 the buffer writes {DISCOUNT!r}: leave it out")
        once = self._powers[1]
        return {**extra, DISCOUNT: np.full(shape, once) if shape else once}

    def environment(self, env_id: Any) -> I64:
        """The same of a step of one environment."""
        found = self._one.get(env_id) if type(env_id) is int else None
        if found is None:
            found = self._one[int(env_id)] = self.environments(1, [env_id])
        return found

    def environments(self, count: int, env_ids: Any) -> I64:
        """Whose the rows of a step are. Without numbers, of all environments in their order: of
        others than before is refused, for their episodes would be mixed up."""
        if env_ids is None:
            if (self._open != CLOSED).any() and count != len(self._open):
                raise ValueError(
                    f"with n_steps={self.n_steps} the rows of a step are environments: there were "
                    f"{len(self._open)}, and now {count}. Give their env_ids, or call "
                    f"end_episodes() where others begin"
                )
            found = np.arange(count)
        else:
            found = np.asarray(env_ids)
            if found.shape == (0,):  # of an empty list they are floats
                found = found.astype(np.int64)
            whole = found.dtype.kind in "iu" and found.shape == (count,)
            if not whole or (found < 0).any() or np.unique(found).size != count:
                raise ValueError(
                    f"env_ids must be {count} different numbers from 0, not {env_ids!r}"
                )
        needed = (int(found.max(initial=-1)) + 1) * self.n_steps
        if needed > self._capacity:
            raise ValueError(
                f"{self.n_steps} steps of {needed // self.n_steps} environments do not fit into a "
                f"capacity of {self._capacity}"
            )
        return found.astype(np.int64)

    def append(self, memory: Memory, block: U8, count: int, envs: I64) -> None:
        """Store a step of some environments, one a row, and lengthen the entries it continues."""
        if count == 0:
            return
        more = int(envs.max()) + 1 - len(self._open)
        if more > 0:
            new = np.full((more, self.n_steps - 1), CLOSED, dtype=np.int64)
            self._open = np.concatenate([self._open, new])
        if self._layout is not memory.layout:
            self._layout, self._places = memory.layout, places_of(memory.layout)
        stored = append_steps(
            memory.handle, block, count, envs, self._open, self._powers, self._places,
            *memory.keeps,
        )  # fmt: skip
        if not stored:
            raise ValueError(
                f"reward: those of {self.n_steps} steps add up to more than {self._powers.dtype} "
                f"can hold"
            )

    # ------------------------------------------------------------------ state

    def options(self) -> dict[str, Any]:
        """As the buffer's constructor takes them, and its header holds them."""
        return {"n_steps": self.n_steps, "gamma": self.gamma}

    def header(self) -> dict[str, Any]:
        return {SAVED: self.options(), SAVED_OPEN: self._open.tolist()}

    def restored(self, header: Mapping[str, Any], most: int) -> I64:
        """The open entries of a state, in slots below `most`, or an error that says what is wrong
        with them."""
        try:
            slots = np.array(header[SAVED_OPEN], dtype=np.int64).reshape(-1, self.n_steps - 1)
            if slots.tolist() != header[SAVED_OPEN]:
                raise ValueError("not whole numbers")
            held = slots[slots != CLOSED]
            if ((held < 0) | (held >= most)).any() or np.unique(held).size != held.size:
                raise ValueError("not slots of different entries")
        except Exception as error:  # a header can be wrong in any way
            raise StateError(f"the state's open entries cannot be restored: {error!r}") from error
        return slots

    def take_over(self, slots: I64) -> None:
        """Go on with open entries that `restored` has checked."""
        self._open = slots


def n_step_of(n_steps: Any, gamma: Any, capacity: int, fields: Mapping[str, Field]) -> NStep | None:
    """What lengthens entries, as a buffer's arguments have it; None for single steps."""
    n_steps = whole_number("n_steps", n_steps)
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1, got {n_steps}")
    if n_steps == 1:
        return None
    number = isinstance(gamma, (int, float, np.floating)) and not isinstance(gamma, bool)
    if not number or not 0.0 <= gamma <= 1.0:
        raise ValueError(f"n_steps={n_steps} needs gamma, a number from 0 to 1, got {gamma!r}")
    if n_steps > capacity:
        raise ValueError(f"n_steps={n_steps} do not fit into a capacity of {capacity}")
    if fields["reward"].dtype.itemsize < 4:
        raise TypeError(f"n_steps={n_steps} needs rewards of float32 or float64, to add them up")
    return NStep(n_steps, float(gamma), capacity, fields["reward"])


def with_discount(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields of a buffer of n steps: `discount` is written by the buffer itself."""
    own = Field(fields["reward"].dtype)
    if fields.get(DISCOUNT, own) != own:
        raise ValueError(
            f"with n_steps above 1 the buffer writes {DISCOUNT!r} itself: leave it out"
        )
    return {**fields, DISCOUNT: own}

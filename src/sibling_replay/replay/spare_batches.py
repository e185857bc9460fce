"""Batches that are handed out again once nobody holds them."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from sibling_replay.replay.batch import Batch, Columns, Plan


class SpareBatches:
    """Batches of one plan; reference counts tell which of them nobody holds.

    Fresh memory costs more than filling it (a page fault every 4 KiB), and so does opening columns.
    """

    __slots__ = ("_flags", "_spare", "_turn", "_unheld", "_writeable", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        # A batch, its record (which views of columns hold), its bytes, its open columns.
        self._spare: list[tuple[Any, ...] | None] = [None, None]
        self._turn = 0
        self._unheld = _references_unheld(plan.opened)
        self._flags = attrgetter(*(f"{name}.flags.writeable" for name in plan.opened))
        self._writeable = (True,) * len(plan.opened)

    def take(self) -> Batch:
        """A batch that nobody else holds. Two take turns: the one in use while the next is drawn,
        and the next."""
        self._turn = turn = 1 - self._turn
        spare = self._spare[turn]
        if spare is not None and sum(map(getrefcount, spare)) == self._unheld:
            free: Batch = spare[0]
            if self._flags(free) == self._writeable:  # whoever had it may have locked a column
                return free
        batch = Batch(self.plan)
        self._spare[turn] = _with_columns(batch)
        return batch


def _with_columns(batch: Batch) -> tuple[Any, ...]:
    columns = (getattr(batch, name) for name in batch.plan.opened)
    return (batch, batch.record, batch.block, *columns)


@cache
def _references_unheld(opened: tuple[str, ...]) -> int:
    """Baseline reference count of a spare batch, measured the way `take` measures it: Python
    versions differ in whether the call itself counts. Too high a number would hand out a batch
    twice."""
    columns: Columns = {name: ((1,), np.dtype(np.float64), 0) for name in opened}
    spare = _with_columns(Batch(Plan(columns, 1, 8)))
    return sum(map(getrefcount, spare))

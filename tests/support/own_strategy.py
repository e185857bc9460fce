"""A strategy of one's own, as the text of a module that a command is to import."""

STRATEGY = """
from dataclasses import dataclass

import numpy as np

from sibling_replay import Draw, Law, Needs, Strategy


@dataclass(frozen=True, kw_only=True)
class Newest(Strategy):
    \"\"\"The newest half, uniformly.\"\"\"

    name = "newest"
    needs = Needs()

    def draw(self, view, size, stream, beta):
        place = (stream.take(size) * view.size).astype(np.int64)
        return Draw(slots=view.slots[place])

    def refresh(self, view, draw, td_errors, signals):
        return None

    def law(self, view, size):
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)
"""

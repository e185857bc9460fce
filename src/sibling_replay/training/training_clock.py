"""How long training has taken, evaluations apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class TrainingClock:
    """CPU seconds of this process since it began, but for what is done while it is stopped."""

    def __init__(self) -> None:
        self._began = time.process_time()
        self._apart = 0.0
        self._before = 0.0

    def go_on_from(self, seconds: float) -> None:
        """So many had been counted when this process took the run up."""
        self._before = seconds

    @property
    def seconds(self) -> float:
        return self._before + time.process_time() - self._began - self._apart

    @contextmanager
    def stopped(self) -> Iterator[None]:
        before = time.process_time()
        yield
        self._apart += time.process_time() - before

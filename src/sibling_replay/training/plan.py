"""When a loop does what: schedules as it reads them, and the steps at which it is looked at."""

from __future__ import annotations

from sibling_replay.training.settings import NetworkSettings


class Plan:
    """Settings as the loop reads them, and where it ends.

    forgotten: steps of which nothing is stored: a model that goes on with an empty buffer fills it
        before it learns, as at first.
    """

    def __init__(self, settings: NetworkSettings, steps: int, forgotten: int = 0) -> None:
        self.steps = steps
        self.batch_size = settings.batch_size
        self.epsilon, self.beta = settings.epsilon, settings.beta
        self.target_share = settings.target_share
        self._settings = settings
        self._first = forgotten + min(settings.learning_starts, settings.capacity)

    @property
    def first_update(self) -> int:
        """The step that the first update follows."""
        every = self._settings.train_every
        first = max(self._first, self._settings.learning_starts, 1)
        return -(-first // every) * every

    def updates_after(self, step: int) -> int:
        return self._settings.updates_after(step) if step >= self._first else 0


def next_stop(step: int, until: int, stops: list[int]) -> int:
    """The next step that is a multiple of one of `stops`, or the last."""
    return min(until, *(step + every - step % every for every in stops))

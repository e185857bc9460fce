"""When a loop does what: schedules as it reads them, and the steps at which it is looked at."""

from __future__ import annotations

from sibling_replay.training.settings import NetworkSettings


class Plan:
    """Settings as the loop reads them, and where it ends."""

    def __init__(self, settings: NetworkSettings, steps: int) -> None:
        self.steps = steps
        self.batch_size = settings.batch_size
        self.epsilon, self.beta = settings.epsilon, settings.beta
        self.updates_after, self.target_share = settings.updates_after, settings.target_share


def next_stop(step: int, until: int, stops: list[int]) -> int:
    """The next step that is a multiple of one of `stops`, or the last."""
    return min(until, *(step + every - step % every for every in stops))

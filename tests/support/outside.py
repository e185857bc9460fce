"""Strategies from outside the package in a host: what it must draw and refresh, said naively.

They are the files under examples/strategies, loaded as a stranger would.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sibling_replay import Needs, Prioritized, ReplayBuffer, Strategy
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.testing.chi_square import LawRejected, check_counts, check_draws
from support.example_files import load_example

EvenGroups = load_example("strategies/even_groups.py").EvenGroups
RankBasedNumPy = load_example("strategies/rank_based.py").RankBasedNumPy
GroupMean = load_example("strategies/group_mean.py").GroupMean

# Ranked anew after every refresh, so that what was refreshed last shows in the next draw.
OUTSIDE = {
    "even-groups": EvenGroups(),
    "rank-based": RankBasedNumPy(every=1),
    "group-mean": GroupMean(),
}
UNSIGNED = {name: each for name, each in OUTSIDE.items() if not each.needs.signed}
STARTS = {initial: Prioritized(initial=initial) for initial in ("recent", "median")}

_CELLS = 16
_FADING = 0.99  # of the largest priority of late, a refresh


class Watched:
    """What a host drew, and the TD errors it handed back, while it trained."""

    def __init__(self) -> None:
        self.errors: dict[int, float] = {}  # slot -> its last
        self.batches: list[np.ndarray] = []  # of errors
        self.stopped = False
        self._places: list[float] = []
        self._rng = np.random.default_rng(0)

    def drew(self, slots: np.ndarray, law_now: Callable[[], np.ndarray]) -> None:
        """Note where in the law of that moment one row of a batch fell: uniform in [0, 1), whatever
        the law. One, because the rows of a batch may depend on one another."""
        if self.stopped:
            return
        slot, law = self._rng.choice(slots), law_now()
        assert law[slot] > 0.0
        self._places.append(law[:slot].sum() + law[slot] * self._rng.random())

    def refreshed(self, slots: np.ndarray, errors: np.ndarray) -> None:
        self.batches.append(np.array(errors, dtype=np.float64))
        self.errors.update(zip(slots.tolist(), self.batches[-1].tolist(), strict=True))

    def check_draws(self) -> None:
        """Those the host trained on followed the law, which moved all the time."""
        cells = (np.array(self._places) * _CELLS).astype(np.int64).clip(0, _CELLS - 1)
        check_counts(np.bincount(cells, minlength=_CELLS), np.full(_CELLS, 1.0 / _CELLS))


def watch_buffers(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watch a host whose storage is our buffer."""
    watched = Watched()
    sample, update = ReplayBuffer.sample, ReplayBuffer.update_priorities

    def watched_sample(self, size, beta=0.4):
        batch = sample(self, size, beta)
        watched.drew(batch.slots, lambda: self.probabilities(size).trained)
        return batch

    def watched_update(self, batch, td_errors, **signals):
        update(self, batch, td_errors, **signals)
        watched.refreshed(batch.slots, td_errors)

    monkeypatch.setattr(ReplayBuffer, "sample", watched_sample)
    monkeypatch.setattr(ReplayBuffer, "update_priorities", watched_update)
    return watched


def watch(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watch a host with a storage of its own."""
    watched = Watched()
    draw, refresh = HostReplay.draw, HostReplay.refresh

    def watched_draw(self, size, beta):
        slots, weights = draw(self, size, beta)
        watched.drew(slots, lambda: self.sampler.probabilities(size).outcome)
        return slots, weights

    def watched_refresh(self, slots, td_errors):
        refresh(self, slots, td_errors)
        watched.refreshed(slots, td_errors)

    monkeypatch.setattr(HostReplay, "draw", watched_draw)
    monkeypatch.setattr(HostReplay, "refresh", watched_refresh)
    return watched


def naive_law(strategy: Strategy, keys: dict[int, object], watched: Watched, capacity: int):
    """[capacity] probabilities right after a refresh; `keys` of every stored slot, as the host has
    it, say who are siblings."""
    members: dict[object, list[int]] = {}
    for slot, key in keys.items():
        members.setdefault(key, []).append(slot)
    law = np.zeros(capacity)
    errors = watched.errors
    if isinstance(strategy, EvenGroups):
        for slot, key in keys.items():
            law[slot] = 1.0 / (len(members) * len(members[key]))
    elif isinstance(strategy, RankBasedNumPy):
        ranked = sorted(sorted(keys), key=lambda slot: -abs(errors.get(slot, math.inf)))
        for rank, slot in enumerate(ranked, 1):
            law[slot] = rank**-strategy.alpha
    else:
        assert len(watched.batches) % strategy.needs.sweep == 0  # nothing since the last sweep
        for siblings in members.values():
            known = [errors[slot] for slot in siblings if slot in errors]
            for slot in siblings:
                law[slot] = (abs(sum(known) / len(known)) + strategy.epsilon) ** strategy.alpha
    return law / law.sum()


def check_trained(
    strategy: Strategy,
    keys: dict[int, object],
    watched: Watched,
    found_law: np.ndarray,
    draw: Callable[[], int],
    draws: int = 8_000,
) -> None:
    """After a host has trained: its draws, then and now, are the strategy's, and so is what its
    TD errors did. `draw` is the host's own, of one slot."""
    watched.stopped = True
    law = naive_law(strategy, keys, watched, len(found_law))
    np.testing.assert_allclose(found_law, law, rtol=1e-8)
    assert law.max() > 3 * law[law > 0].min()
    watched.check_draws()
    slots = np.array([draw() for _ in range(draws)])
    check_draws(slots, law)
    with pytest.raises(LawRejected):  # off by one slot
        check_draws((slots + 1) % len(law), law)
    if strategy.needs.signed:
        handed_back = np.concatenate(watched.batches)
        assert handed_back.min() < 0.0 < handed_back.max()


def check_newcomer(strategy: Strategy, watched: Watched, masses, added: int, largest) -> None:
    """The mass of an entry stored after training, next to the masses of those before it."""
    if strategy.initial == "median":
        expected = np.median(np.delete(masses, added))
    else:
        expected = 0.0
        for errors in watched.batches:
            priority = np.abs(errors).max() + strategy.epsilon
            expected = max(priority**strategy.alpha, expected * _FADING**strategy.alpha)
    np.testing.assert_allclose(masses[added], expected, rtol=1e-9)
    assert masses[added] < 0.95 * largest**strategy.alpha


class Averaging(EvenGroups):
    needs = Needs(groups=True, averages=True)


class Shifting(EvenGroups):
    needs = Needs(groups=True, shifts=True)


class Asking(EvenGroups):
    needs = Needs(groups=True, signals=("target", "value"))


UNFIT = {
    "averages": (
        Averaging(),
        "{} computes each target itself, from one outcome; Averaging needs the mean over several",
    ),
    "shifts": (Shifting(), "{} computes each target itself; Shifting adds something to targets"),
    "signals": (Asking(), "{} hands back TD errors alone; Asking needs target, value as well"),
    "signed": (
        GroupMean(),
        "{} hands back absolute TD errors; group-mean needs them with their sign",
    ),
}


def check_refused(host: str, make: Callable[[Strategy], object], gives: set[str]) -> None:
    """A strategy that needs what the host does not give is refused with a sentence."""
    for need, (strategy, sentence) in UNFIT.items():
        if need in gives:
            make(strategy)
            continue
        with pytest.raises(ValueError, match=sentence.format(host)):
            make(strategy)

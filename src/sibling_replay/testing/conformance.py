"""One call that puts a strategy through everything, and its saboteurs as well."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from sibling_replay.strategies import Strategy
from sibling_replay.strategies.api import Normalize
from sibling_replay.testing.checks import (
    check_drawing,
    check_law,
    check_limits,
    check_long_run,
    check_staleness,
    check_weights,
)
from sibling_replay.testing.records import (
    MakeSignals,
    NaiveLaw,
    NaiveRefresh,
    NaiveRule,
    NaiveSweep,
    WeightedBy,
)
from sibling_replay.testing.scenes import SCENES
from sibling_replay.testing.states import check_states
from sibling_replay.testing.twin import TWINS, Twin

_SEED = 14
_NORMALIZATIONS: tuple[Normalize, ...] = ("batch", "buffer", None)
_MAIN_SCENES = ("fixed", "churned")
_SMALL = {"staleness": 6, "long run": 23, "limits": 23}  # capacities of scenes of their own
_NOT_BY_CHANCE = "of the last .* draws looked at have siblings"  # a warning that scenes provoke

_FIRST_STAGE_ALONE = ".* none was selected"  # another: what is tried here is the first


class CheckFailed(AssertionError):
    """A strategy does not do what it must.

    Examples:
        >>> issubclass(CheckFailed, AssertionError)
        True
    """


class SaboteurPassed(AssertionError):
    """A wrong strategy was not told from a right one.

    Examples:
        >>> issubclass(SaboteurPassed, AssertionError)
        True
    """


def check_strategy(
    strategy: Strategy,
    *,
    law: NaiveLaw,
    refresh: NaiveRefresh | type[NaiveRule],
    weights: WeightedBy = "trained",
    saboteurs: Iterable[Strategy] = (),
    sweep: NaiveSweep | None = None,
    signals: MakeSignals | None = None,
    draws: int = 2_000,
) -> list[str]:
    """Raise `CheckFailed` unless a strategy does what naive statements of it say.

    In a `ReplayBuffer` and a `SlotSampler`, on small scenes with fixed seeds: its `law` is the
    naive one; draws follow it (chi-square at `SIGNIFICANCE`, for anchor, trained and outcome slots,
    in batches of one and of several); weights are (N P)^-beta; every refresh, also one that comes
    late, leaves the masses, columns, scores and `dropped_updates` that the naive refresh and sweep
    give; newcomers start with the largest priority and score so far, if the strategy says so; rows
    overwritten since the draw change nothing; a state restored by `state_dict`, `copy`, `pickle` or
    a file goes on bit for bit; NaN and infinite errors are refused; `check_valid` holds throughout.

    strategy: an instance, with the options it is to be tried with.
    law: law(entries, size) -> anchor, trained and outcome probabilities, in plain Python or NumPy.
    refresh: refresh(entries, rows) -> pairs of slot and priority, or `Update`s, which may also
        write columns and scores; of a slot named twice the last stays. For a rule that remembers
        something, a class with the methods `refresh` and `sweep`: each container gets one.
    sweep: sweep(entries) -> the same, after every `needs.sweep` refreshes.
    weights: the law whose importance weights rows get, "trained" or "outcome"; "ones"; or None, and
        they are not checked.
    saboteurs: strategies with a mistake each. Each must fail a check, or be refused by the buffer:
        else `SaboteurPassed` is raised. It shows that the checks could have failed.
    signals: signals(rng, size) -> the arrays by name that go with TD errors, if the strategy needs
        some; by default normal numbers.
    draws: batches drawn in the two main scenes; a third of that in the others.

    Returns why each saboteur was rejected, in their order.

    Examples:
        >>> def law(entries, size):
        ...     return [[1 / len(entries)] * len(entries)] * 3  # anchor, trained, outcome
        ...
        >>> check_strategy(Uniform(), law=law, refresh=lambda entries, rows: [], saboteurs=[])
        []
    """

    def check(candidate: Strategy) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NOT_BY_CHANCE)
            warnings.filterwarnings("ignore", _FIRST_STAGE_ALONE)
            _Trial(candidate, law, refresh, weights, sweep, signals, draws).run()

    if strategy.needs.sweep and sweep is None and not isinstance(refresh, type):
        raise ValueError(f"{strategy} sweeps every {strategy.needs.sweep} refreshes: give `sweep`")
    check(strategy)
    reasons = []
    for saboteur in saboteurs:
        try:
            check(saboteur)
        except CheckFailed as failed:
            reasons.append(str(failed))
        else:
            raise SaboteurPassed(
                f"{saboteur} passed every check that {strategy} passes: nothing told it from a "
                f"right strategy. Give it a larger mistake, or more `draws`"
            )
    return reasons


class _Trial:
    """A candidate and what it is compared with."""

    def __init__(
        self,
        strategy: Strategy,
        law: NaiveLaw,
        refresh: NaiveRefresh | type[NaiveRule],
        weights: WeightedBy,
        sweep: NaiveSweep | None,
        signals: MakeSignals | None,
        draws: int,
    ) -> None:
        self.strategy, self.law, self.refresh = strategy, law, refresh
        self.weights, self.sweep = weights, sweep
        self.signals, self.draws = signals, draws

    def run(self) -> None:
        """All checks, those that take longest last."""
        twins = {}
        for kind in TWINS:
            for scene in SCENES:
                twins[kind, scene] = self._built(kind, scene, self.strategy)
            for normalize in _NORMALIZATIONS:
                if normalize != self.strategy.normalize:
                    self._built(kind, "fixed", replace(self.strategy, normalize=normalize))
        for kind in TWINS:
            self._small_scenes(kind)
        for (kind, scene), twin in twins.items():
            with self._named("draws", kind, scene):
                main = kind is TWINS[0] and scene in _MAIN_SCENES
                draws = self.draws if main else self.draws // 3
                check_drawing(twin, self.law, draws, np.random.default_rng(_SEED))
                twin.check_valid()
        for kind in TWINS:
            with self._named("state", kind, "churned"):
                check_states(twins[kind, "churned"], np.random.default_rng(_SEED))

    def _built(self, kind: type[Twin], scene: str, strategy: Strategy) -> Twin:
        """A scene, once its law and weights are as they must be."""
        capacity, build = SCENES[scene]
        twin = kind(strategy, capacity, self.refresh, self.sweep, self.signals, _SEED)
        with self._named("refresh", kind, scene):
            build(twin, np.random.default_rng(_SEED))
            twin.check_valid()
        with self._named("law", kind, scene):
            check_law(twin, self.law)
        with self._named("weights", kind, scene):
            check_weights(twin, self.law, self.weights)
        return twin

    def _small_scenes(self, kind: type[Twin]) -> None:
        for name, check in (
            ("staleness", check_staleness),
            ("long run", check_long_run),
            ("limits", check_limits),
        ):
            twin = kind(self.strategy, _SMALL[name], self.refresh, self.sweep, self.signals, _SEED)
            rng = np.random.default_rng(_SEED)
            with self._named(name, kind, "of its own"):
                if check is check_limits:
                    twin.add(rng.integers(0, 5, 20), rng.integers(0, 4, 20))
                check(twin, rng)

    @contextmanager
    def _named(self, check: str, kind: type[Twin], scene: str) -> Iterator[None]:
        """Failures, and refusals by the buffer (ValueError), with where they came up."""
        try:
            yield
        except (AssertionError, ValueError) as error:
            raise CheckFailed(
                f"{self.strategy.name}: check `{check}` failed in a {kind.container}, scene "
                f"{scene!r}: {error}"
            ) from error

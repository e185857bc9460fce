"""What a strategy must do: each check raises an AssertionError that says in words what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.testing.chi_square import TooLittleData, check_counts
from sibling_replay.testing.records import Entry, NaiveLaw, WeightedBy
from sibling_replay.testing.states import state_bytes
from sibling_replay.testing.twin import DrawnBatch, Twin

LAW_TOLERANCE = 1e-9
WEIGHT_TOLERANCE = 2e-6  # weights leave as float32
BATCH = 8
PARTS = ("anchor", "trained", "outcome")


def naive_law_of(twin: Twin, law: NaiveLaw, size: int) -> list[F64]:
    """The three naive laws, and the joint one if it is given, checked to be laws."""
    entries = twin.entries
    parts = [np.asarray(part, dtype=np.float64) for part in law(entries, size)]
    assert len(parts) in (3, 4), f"the naive law gives {len(parts)} parts, expected {PARTS}"
    for name, part in zip((*PARTS, "joint"), parts, strict=False):
        shape = (len(entries),) * (2 if name == "joint" else 1)
        assert part.shape == shape, f"the naive {name} law has shape {part.shape}, expected {shape}"
        assert abs(part.sum() - 1.0) < LAW_TOLERANCE and (part >= 0.0).all(), (
            f"the naive {name} law adds up to {part.sum()}"
        )
    return parts


def check_law(twin: Twin, law: NaiveLaw) -> None:
    """Two statements of the law, made apart, agree."""
    for size in (1, BATCH):
        for name, stated, naive in zip(
            PARTS, twin.probabilities(size), naive_law_of(twin, law, size)[:3], strict=True
        ):
            off = np.abs(stated - naive) > LAW_TOLERANCE * naive
            if off.any():
                place = int(np.argmax(off))
                raise AssertionError(
                    f"`law` gives slot {twin.slots[place]} the {name} probability "
                    f"{stated[place]:.6g}, the naive law {naive[place]:.6g} "
                    f"(batches of {size}, {off.sum()} of {off.size} entries differ)"
                )


def check_weights(twin: Twin, law: NaiveLaw, weighted_by: WeightedBy) -> None:
    """Weights are (N P)^-beta, normalized as the options say.

    At beta = 1 and without normalization P w = 1 / N for every entry: the mean gradient is that of
    uniform replay.
    """
    if weighted_by is None:
        return
    normalize = twin.strategy.normalize
    for size, beta in ((1, 0.0), (1, 1.0), (16, 0.5), (16, 1.0)):
        batch = twin.sampling.sample(size, beta)
        if weighted_by == "ones":
            expected = np.ones(size)
        else:
            part = naive_law_of(twin, law, size)[PARTS.index(weighted_by)]
            whole = (len(part) * part) ** -beta
            expected = whole[np.searchsorted(twin.slots, batch.slots)]
            largest = {None: 1.0, "batch": expected.max(), "buffer": whole.max()}[normalize]
            expected = expected / largest
        off = np.abs(batch.weights - expected) > WEIGHT_TOLERANCE * expected
        if off.any():
            b = int(np.argmax(off))
            raise AssertionError(
                f"slot {batch.slots[b]} has weight {batch.weights[b]:.6g}, expected "
                f"{expected[b]:.6g} (weights={weighted_by!r}, beta={beta}, "
                f"normalize={normalize!r}, {off.sum()} of {size} rows differ)"
            )


def check_drawing(twin: Twin, law: NaiveLaw, draws: int, rng: np.random.Generator) -> None:
    """Draws follow the naive law, by chi-square.

    In batches of one, and in larger ones: rows of a batch may depend on each other (stratified
    ones do), so one row of each batch counts, chosen by chance: those are independent, and have the
    mean law of the rows. Of an average one term counts, chosen by its share.
    """
    entries = twin.entries
    cell_of, cells = _outcome_cells(entries, by_outcome=twin.strategy.needs.outcomes)
    place_of = np.full(twin.capacity, -1)
    place_of[twin.slots] = np.arange(len(entries))
    for size, count in ((1, draws), (BATCH, draws // 2)):
        laws = naive_law_of(twin, law, size)
        to_cell = np.eye(cells)[cell_of]
        laws[2] = laws[2] @ to_cell
        found = np.empty((3, count), dtype=np.int64)
        rows = rng.integers(size, size=count).tolist()
        for i, row in enumerate(rows):
            batch = twin.sampling.sample(size)
            found[0, i], found[1, i] = batch.anchors[row], batch.slots[row]
            found[2, i] = _one_outcome(batch, row, rng)
        places = place_of[found]
        assert (places >= 0).all(), "a slot without entry was drawn"
        places[2] = cell_of[places[2]]
        drawn = dict(zip(PARTS, places, strict=True))
        if len(laws) == 4:
            laws[3] = laws[3] @ to_cell
            drawn["anchor and outcome"] = places[0] * cells + places[2]
        for (name, found_cells), expected in zip(drawn.items(), laws, strict=True):
            _follow(f"{name} slots of {count} batches of {size}", found_cells, expected)


def _follow(what: str, drawn: I64, law: F64) -> None:
    try:
        check_counts(np.bincount(drawn, minlength=law.size), law)
    except TooLittleData as error:
        if law.ndim == 1:  # of pairs too few for a test are common: no impossible one was drawn
            raise AssertionError(f"{error}: give more `draws`") from None
    except AssertionError as error:
        raise AssertionError(
            f"{what} do not follow the naive law (cells are in the order of slots): {error}"
        ) from None


def _outcome_cells(entries: list[Entry], by_outcome: bool) -> tuple[I64, int]:
    """The cell of each entry's outcome, and how many there are. Where equal outcomes of a group are
    counted, any slot may stand for them: they share a cell."""
    if not by_outcome:
        return np.arange(len(entries)), len(entries)
    cells: dict[tuple[int, int], int] = {}
    of = [cells.setdefault((entry.key, entry.outcome), len(cells)) for entry in entries]
    return np.array(of), len(cells)


def _one_outcome(batch: Batch, row: int, rng: np.random.Generator) -> int:
    found = batch.outcomes
    if not isinstance(found, Outcomes):
        return int(batch.outcome_slots[row])
    own = slice(int(found.starts[row]), int(found.starts[row + 1]))
    ends = np.cumsum(found.shares[own])
    term = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
    return int(found.slots[own][min(term, ends.size - 1)])


def check_long_run(twin: Twin, rng: np.random.Generator) -> None:
    """Add, draw and refresh in any order, batches waiting for their TD errors and refreshed more
    than once: masses and dropped updates stay those of the naive refresh."""
    waiting: list[DrawnBatch] = []
    twin.add(rng.integers(0, 5, 4), rng.integers(0, 4, 4))
    for turn in range(120):
        count = int(rng.integers(0, 5))
        twin.add(rng.integers(0, 5, count), rng.integers(0, 4, count))
        if turn % 9 == 8:
            twin.remove(3)
        waiting = [*waiting[-2:], twin.draw(int(rng.integers(1, 12)), float(rng.random()))]
        drawn = waiting[int(rng.integers(len(waiting)))]
        size = len(drawn.rows)
        twin.refresh(drawn, twin.errors(rng, size), twin.signals(rng, size))
        if turn % 20 == 0:
            twin.check_valid()
    twin.check_valid()


def check_staleness(twin: Twin, rng: np.random.Generator) -> None:
    """Rows overwritten since the draw change nothing and are counted; the others are refreshed."""
    size = 2 * twin.capacity
    twin.add(np.arange(twin.capacity) % 3, np.arange(twin.capacity))
    drawn = twin.draw(size)
    for _ in range(3):  # turns, in each of which every slot is filled anew
        before = twin.serials()
        while any(twin.serials()[slot] == serial for slot, serial in before.items()):
            twin.add(rng.integers(0, 3, 1), rng.integers(0, 4, 1))
        masses = twin.masses()
        twin.refresh(drawn, 90.0 + twin.errors(rng, size), twin.signals(rng, size))
        changed = np.flatnonzero(twin.masses() != masses)
        assert changed.size == 0 or twin.strategy.needs.sweep, (  # which come by themselves
            f"slot {changed[0]} was refreshed for an entry that had gone"
        )
    for _ in range(3):  # some have gone, some have not
        drawn = twin.draw(size)
        twin.add(rng.integers(0, 3, 2), rng.integers(0, 4, 2))
        twin.refresh(drawn, 90.0 + twin.errors(rng, size), twin.signals(rng, size))
    twin.check_valid()


def check_limits(twin: Twin, rng: np.random.Generator) -> None:
    """TD errors and signals that are not finite are refused and change nothing; zero, tiny and
    large ones are fine."""
    size = 12
    for wrong in (np.nan, np.inf, -np.inf):
        drawn, errors, signals = twin.draw(size), twin.errors(rng, size), twin.signals(rng, size)
        poisoned = errors.copy()
        poisoned[size // 2] = wrong
        _refused(twin, f"a TD error of {wrong}", drawn, poisoned, signals)
        for name, values in signals.items():
            spoilt = values.copy()
            spoilt[-1] = wrong
            _refused(twin, f"{name} of {wrong}", drawn, errors, {**signals, name: spoilt})
        twin.refresh(drawn, errors, signals)
    for scale in (0.0, 1e-12, 1e9):
        drawn = twin.draw(3 * twin.capacity)
        errors = scale * twin.errors(rng, len(drawn.rows))
        twin.refresh(drawn, errors, twin.signals(rng, errors.size))
        twin.check_valid()


def _refused(
    twin: Twin, what: str, drawn: DrawnBatch, errors: F64, signals: Mapping[str, F64]
) -> None:
    before = state_bytes(twin.sampling.state_dict())
    try:
        twin.update(drawn, errors, signals)
    except ValueError:
        after = state_bytes(twin.sampling.state_dict())
        assert after == before, f"{what} was refused, but something changed"
        return
    raise AssertionError(f"{what} was not refused")

"""What must not move while the house is rebuilt: draws, weights and values, recorded.

    python tests/golden/record.py write      # at the commit whose behaviour is to be kept
    python tests/golden/record.py compare    # at any later one: every difference is printed

A record is a chain of digests over all bytes that a scripted run produces, and the first numbers in
the clear. Digests are compared bit for bit on the kind of processor that wrote them (compiled
arithmetic may round differently on another); tests/golden/test_golden.py compares the numbers
anywhere.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np

from sibling_replay import (
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    SlotSampler,
    Strategy,
    Uniform,
)
from sibling_replay.replay.payload import Field
from sibling_replay.training.config import METHODS, paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run, train_tabular

FILE = Path(__file__).with_name("golden.json")
EVERY = 200  # updates or batches a digest
SHOWN = 2  # updates or batches in the clear
NUMBERS = 4  # numbers of each array in the clear

ENVIRONMENTS = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300", "FrozenLake-H50")


class Chain:
    """A running digest of named arrays, noted now and then, and the first of them in the clear."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen = 0
        self.noted: list[str] = []
        self.shown: list[dict[str, list[float]]] = []

    def add(self, **arrays: Any) -> None:
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            self._hash.update(f"{name} {array.dtype.str} {array.shape}".encode())
            self._hash.update(array.tobytes())
        if self._seen < SHOWN:
            self.shown.append(
                {name: np.ravel(x)[:NUMBERS].astype(float).tolist() for name, x in arrays.items()}
            )
        self._seen += 1
        if self._seen % EVERY == 0:
            self.noted.append(self._hash.hexdigest()[:16])

    def record(self) -> dict[str, Any]:
        return {"digests": [*self.noted, self._hash.hexdigest()[:16]], "shown": self.shown}


# ------------------------------------------------------------------------------------- trainer


def short_config(env: str, method: str) -> Any:
    """A run of two thousand steps whose buffer wraps around several times."""
    return paper_config(
        env,
        method,
        seed=7,
        steps=2_000,
        capacity=300,
        learning_starts=150,
        target_interval=100,
        epsilon_decay_steps=1_000,
        eval_every_episodes=25,
        eval_episodes=5,
        beta_updates=1_000,
        diagnostics_every=250,
    )


def trainer_steps(env: str, method: str) -> dict[str, Any]:
    """Every minibatch of a run with its weights and TD errors; at last, the values."""
    run, draws = new_run(short_config(env, method))
    lent, chain = Lent(run), Chain()
    for step in range(1, run.settings.steps + 1):
        advance(lent, draws, step, True)
        if not run.clock["paused"][0]:
            continue
        batch = run.batch
        terms = batch.starts[-1]
        drawn = {
            "slots": batch.slots.copy(),
            "groups": batch.groups.copy(),
            "weights": batch.weights.copy(),
            "outcomes": batch.outcomes[:terms].copy(),
            "shares": batch.shares[:terms].copy(),
        }
        advance(lent, draws, step, False)
        chain.add(**drawn, td=batch.td)
    chain.add(
        theta=run.network.theta,
        masses=run.memory.entries.tree[: run.memory.outcome.size],
        largest=run.clock["largest"],
    )
    return chain.record()


def trainer_result(env: str, method: str) -> dict[str, Any]:
    """The stored result of the same run: evaluations and diagnostics."""
    result = train_tabular(short_config(env, method))
    chain = Chain()
    chain.add(
        step=result.eval_step,
        episode=result.eval_episode,
        mean_return=result.eval_return,
        success=result.eval_success,
    )
    chain.add(**{name: column for name, column in result.diagnostics.items()})
    return chain.record()


# ------------------------------------------------------------------------------------- buffers


def fields(obs: Field) -> dict[str, Field]:
    flag = Field(np.dtype(np.bool_))
    return {
        "obs": obs,
        "action": Field(np.dtype(np.int64)),
        "reward": Field(np.dtype(np.float32)),
        "next_obs": obs,
        "terminated": flag,
        "truncated": flag,
    }


def state_and_action(obs: Any, action: Any) -> Any:
    """A key function that keeps the action in its result."""
    return int(np.sum(obs)) // 2 * 4 + int(action)


STRATEGIES: dict[str, Strategy] = {
    "uniform": Uniform(),
    "per": Prioritized(),
    "per-buffer": Prioritized(alpha=1.0, normalize="buffer"),
    "per-none": Prioritized(alpha=0.0, normalize=None),
    "sample": SiblingSample(),
    "sample-buffer": SiblingSample(alpha=0.3, normalize="buffer"),
    "model": SiblingModel(),
    "avg": SiblingAverage(),
    "avg-all": SiblingAverage(update_all_siblings=True),
    "avg-3": SiblingAverage(max_siblings=3),
    "avg-3-all": SiblingAverage(max_siblings=3, update_all_siblings=True, normalize=None),
}
FORMS = {
    "int": Field(np.dtype(np.int64)),
    "vector": Field(np.dtype(np.float32), (3,)),
    "bits": Field(np.dtype(np.bool_), (4, 5)),
}


def transitions(obs: Field, rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Few observations and actions, so that groups and outcomes repeat."""

    def some() -> Any:
        number = rng.integers(6, size=count)
        if obs.shape == ():
            return number.astype(obs.dtype)
        kinds = np.random.default_rng(5).integers(0, 2, size=(6, *obs.shape))
        return kinds[number].astype(obs.dtype)

    return (
        some(),
        rng.integers(3, size=count),
        np.round(rng.normal(size=count), 0).astype(np.float32),
        some(),
        rng.random(count) < 0.1,
        rng.random(count) < 0.05,
    )


def errors_of(batch: Any) -> Any:
    """TD errors that depend on what was drawn, and vary by orders of magnitude."""
    return np.exp(3.0 * np.sin(1.7 * batch.slots + 0.3 * batch.outcome_slots))


def buffer_script(strategy: Strategy, obs: Field, key: Any) -> dict[str, Any]:
    """Adds, draws and refreshes, some of them late, in a ring that wraps around many times."""
    grouping = {} if key is None else {"key": key}
    buffer = ReplayBuffer(fields(obs), 97, strategy, seed=3, **grouping)
    rng = np.random.default_rng(11)
    draws, averages = Chain(), Chain()
    waiting: list[Any] = []
    for turn in range(700):
        count = int(rng.integers(1, 5))
        columns = transitions(obs, rng, count)
        if count == 1:
            buffer.add(*(column[0] for column in columns))
        else:
            buffer.extend(*columns)
        batch = buffer.sample(32 if turn % 3 else 7, beta=0.4 + 0.5 * (turn % 2))
        mean = batch.average(batch.outcomes.reward.astype(np.float64))
        draws.add(
            slots=batch.slots,
            anchors=batch.anchors,
            outcome_slots=batch.outcome_slots,
            sizes=batch.group_sizes,
            weights=batch.weights,
            obs=batch.obs,
            reward=batch.reward,
        )
        averages.add(mean=mean)
        waiting.append(batch)
        if turn % 4 == 3:  # some are of entries that have gone since
            for late in waiting:
                buffer.update_priorities(late, errors_of(late))
            waiting = []
    draws.add(masses=buffer.masses, dropped=buffer.dropped_updates, peak=buffer.max_priority)
    return {"draws": draws.record(), "averages": averages.record()}


def slot_script(strategy: Strategy) -> dict[str, Any]:
    """Slots filled, refilled and emptied in any order."""
    sampler = SlotSampler(101, strategy, seed=4)
    rng = np.random.default_rng(12)
    draws = Chain()
    for turn in range(600):
        slots = rng.permutation(101)[: rng.integers(1, 6)]
        keys = rng.integers(12, size=slots.size) if strategy.needs.groups else None
        sampler.put(slots, keys)
        if turn % 5 == 4:
            sampler.remove(rng.choice(sampler.live_slots, 2, replace=False))
        batch = sampler.sample(16, beta=0.7)
        batch.average(np.ones(len(batch.outcomes)))
        draws.add(
            slots=batch.slots,
            anchors=batch.anchors,
            outcome_slots=batch.outcome_slots,
            weights=batch.weights,
        )
        sampler.update_priorities(batch, errors_of(batch))
    draws.add(masses=sampler.masses, dropped=sampler.dropped_updates)
    return draws.record()


# --------------------------------------------------------------------------------------- all


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Every record by name."""
    for env in ENVIRONMENTS:
        for method in METHODS:
            yield f"trainer/{env}/{method}/steps", lambda e=env, m=method: trainer_steps(e, m)
            yield f"trainer/{env}/{method}/result", lambda e=env, m=method: trainer_result(e, m)
    for name, strategy in STRATEGIES.items():
        for form, obs in FORMS.items():
            yield f"buffer/{name}/{form}", lambda s=strategy, o=obs: buffer_script(s, o, None)
        if strategy.needs.groups:
            yield (
                f"buffer/{name}/key",
                lambda s=strategy: buffer_script(s, FORMS["int"], state_and_action),
            )
        yield f"slots/{name}", lambda s=strategy: slot_script(s)


def processor() -> str:
    return str(llvmlite.binding.get_host_cpu_name())


def write() -> None:
    records = {name: make() for name, make in cases()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(made)}" for name, made in records.items())
    FILE.write_text(f'{{"processor": "{processor()}", "records": {{\n{lines}\n}}}}\n')
    print(f"{len(records)} records: {FILE}")


def compare() -> int:
    """Print every record that differs and how many digests of it agree. Returns how many differ."""
    golden = json.loads(FILE.read_text())
    if golden["processor"] != processor():
        print(f"recorded on a {golden['processor']}, this is a {processor()}: bits may differ")
    different = 0
    records = golden["records"]
    for name, make in cases():
        found = make()
        for part, old, new in parts(records[name], found):
            if old["digests"] == new["digests"]:
                continue
            different += 1
            pairs = zip(old["digests"], new["digests"], strict=False)
            same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(old["digests"]))
            print(f"{name}{part}: {same} of {len(old['digests'])} digests agree")
    print(f"{different} differ of {len(records)} records")
    return different


def parts(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """A record, or each of the records it is made of."""
    if "digests" in old:
        yield "", old, new
    else:
        for part in old:
            yield f"/{part}", old[part], new[part]


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write()
    elif sys.argv[1:] == ["compare"]:
        raise SystemExit(1 if compare() else 0)
    else:
        raise SystemExit("usage: record.py write | compare")

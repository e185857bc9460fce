"""What the compiled trainer records, against plain loops over its paused state."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from sibling_replay.training.config import METHODS, paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.measure import measure
from sibling_replay.training.tabular.network import all_values
from sibling_replay.training.tabular.trainer import new_run, train_tabular

SETTINGS = {
    "steps": 1_200,
    "learning_starts": 100,
    "capacity": 500,
    "target_interval": 100,
    "epsilon_decay_steps": 800,
    "eval_episodes": 3,
    "eval_every_episodes": 50,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", ["OutlierBandit", "FrozenLake-H50"])
def test_against_plain_loops(env: str, method: str) -> None:
    config = paper_config(env, method, 1, **SETTINGS)
    run, draws = new_run(config)
    lent = Lent(run)
    acted: list[int] = []
    replayed: list[int] = []
    for step in range(1, 901):
        advance(lent, draws, step, True)
        acted.append(int(run.memory.group[(step - 1) % config.capacity]))
        if step >= config.learning_starts:
            replayed += run.batch.groups.tolist()
    assert run.clock["paused"][0]
    row = measure(run)

    live, n_actions = config.capacity, run.network.bias3.size
    u = np.ones(live) if method == "DDQN" else run.memory.entries.tree[:live]
    values = np.empty_like(run.network.target)
    all_values(run.network, values)

    def target(outcome: int) -> float:
        state = run.outcomes.next_state[outcome]
        best = run.network.target[state, values[state].argmax()]
        return float(run.outcomes.reward[outcome] + run.outcomes.discount[outcome] * best)

    members = defaultdict(list)
    for slot in range(live):
        members[int(run.memory.group[slot])].append(slot)
    beta = config.beta(int(run.clock["updates"][0]))
    total = u.sum()
    expected = defaultdict(float)
    mean_target, sums = {}, {}
    for group, slots in members.items():
        s, n = sum(u[i] for i in slots), len(slots)
        y = {i: target(run.memory.outcome[i]) for i in slots}
        weight = sum(u[i] ** (1 - beta) for i in slots)
        q, f = defaultdict(float), defaultdict(float)
        for i in slots:
            q[run.memory.outcome[i]] += u[i] / s
            f[run.memory.outcome[i]] += 1 / n
        mean = sum(y.values()) / n
        mean_target[group], sums[group] = mean, (s, n)
        share = s / total
        expected["outcome_tv"] += share * sum(abs(q[o] - f[o]) for o in q) / 2
        expected["shift_before_is"] += share * abs(sum(u[i] / s * y[i] for i in slots) - mean)
        corrected = sum(u[i] ** (1 - beta) / weight * y[i] for i in slots)
        expected["shift_after_is"] += share * abs(corrected - mean)
        expected["concentration"] += share * (n * sum((u[i] / s) ** 2 for i in slots) - 1)

    batch = run.batch
    td, ratio = [], []
    for b, group in enumerate(batch.groups.tolist()):
        terms = range(batch.starts[b], batch.starts[b + 1])
        trained = sum(batch.shares[t] * target(batch.outcomes[t]) for t in terms)
        td.append(trained - values[group // n_actions, group % n_actions])
        s, n = sums[group]
        ratio.append(n * u[batch.slots[b]] / s)
        expected["shift_sum"] += float(batch.weights[b]) * (trained - mean_target[group])
        expected["weight_sum"] += float(batch.weights[b])
    weights = batch.weights.astype(np.float64)
    expected["ess"] = weights.sum() ** 2 / (weights**2).sum()
    expected["td_std"] = np.std(td)
    expected["ratio_mean"], expected["ratio_std"] = np.mean(ratio), np.std(ratio)
    behaviour = np.bincount(np.array(acted) % n_actions, minlength=n_actions) / len(acted)
    replay = np.bincount(np.array(replayed) % n_actions, minlength=n_actions) / len(replayed)
    expected["action_l1"] = np.abs(behaviour - replay).sum()

    cells = {name for name in row if "/" in name}
    assert row.keys() - cells == expected.keys()
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name
    assert bool(cells) == (env == "OutlierBandit")
    assert sum(row[name] for name in cells if name.startswith("count/")) == (live if cells else 0)


@pytest.mark.parametrize("method", METHODS)
def test_measuring_changes_no_byte(method: str) -> None:
    config = paper_config("TwoChains", method, 2, **SETTINGS)
    plain = train_tabular(config)
    measured = train_tabular(replace(config, diagnostics_every=100))
    for name in ("eval_step", "eval_episode", "eval_return", "eval_success"):
        assert getattr(plain, name).tobytes() == getattr(measured, name).tobytes(), name
    assert plain.diagnostics == {}
    assert measured.diagnostics["step"].tolist() == list(range(100, 1_201, 100))
    assert all(np.isfinite(column).all() for column in measured.diagnostics.values())
    # and the network itself, measured at every step, to the last bit
    states = []
    for watch in (False, True):
        run, draws = new_run(config)
        lent = Lent(run)
        for step in range(1, 301):
            advance(lent, draws, step, watch)
            if watch and run.clock["paused"][0]:
                measure(run)
        advance(lent, draws, 300, False)
        states.append(run.network.theta.tobytes() + run.memory.entries.tree.tobytes())
    assert states[0] == states[1]

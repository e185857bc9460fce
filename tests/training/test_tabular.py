"""The compiled trainer: a pure function of its config, evaluated when it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sibling_replay.replay.checks import check_index
from sibling_replay.training.config import ENVIRONMENTS, METHODS, TabularConfig, paper_config
from sibling_replay.training.results import RunResult
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import TabularRun, advance
from sibling_replay.training.tabular.trainer import new_run, train_tabular
from sibling_replay.training.torch.reference import train_reference


def short(env: str = "TwoChains", method: str = "SAMPLE", **settings: Any) -> TabularConfig:
    shortened = {
        "steps": 1_500,
        "learning_starts": 200,
        "capacity": 600,
        "target_interval": 100,
        "epsilon_decay_steps": 1_000,
        "eval_episodes": 7,
        "eval_every_episodes": 10,
    }
    return paper_config(env, method, 4, **{**shortened, **settings})


def same(a: RunResult, b: RunResult) -> bool:
    return (a.episodes, a.updates) == (b.episodes, b.updates) and all(
        getattr(a, name).tobytes() == getattr(b, name).tobytes()
        for name in ("eval_step", "eval_episode", "eval_return", "eval_success")
    )


@pytest.mark.parametrize("method", METHODS)
def test_same_config_same_bytes_whatever_the_chunks(method: str) -> None:
    config = short("FrozenLake-H50", method)
    result = train_tabular(config)
    assert same(result, train_tabular(config, chunk_steps=137))
    assert not same(result, train_tabular(replace(config, seed=5)))


def test_the_whole_state_is_the_same_whatever_the_chunks() -> None:
    config = short()
    (whole, draws), (parts, others) = new_run(config), new_run(config)
    advance(Lent(whole), draws, 1_500, False)
    for until in (1, 2, 199, 200, 201, 777, 1_500):
        advance(Lent(parts), others, until, until % 2 == 0)  # some with a pause
    advance(Lent(parts), others, 1_500, False)
    np.testing.assert_array_equal(whole.network.theta, parts.network.theta)
    np.testing.assert_array_equal(whole.memory.entries.tree, parts.memory.entries.tree)
    assert whole.clock.tobytes() == parts.clock.tobytes()


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("method", METHODS)
def test_the_books_balance(env: str, method: str) -> None:
    """After evictions the index is valid and counts, groups and outcomes agree with the slots."""
    config = short(env, method)
    run, draws = new_run(config)
    advance(Lent(run), draws, config.steps, False)
    memory = run.memory
    assert run.clock["live"][0] == config.capacity
    counts = np.bincount(memory.outcome, minlength=memory.counts.size)
    np.testing.assert_array_equal(counts, memory.counts)
    width = memory.counts.size // (run.network.first.shape[0] * run.network.bias3.size)
    np.testing.assert_array_equal(memory.outcome // width, memory.group)
    assert not memory.best.any()
    if method == "DDQN":
        return
    ok, why = check_index(memory.entries, np.arange(config.capacity))
    assert ok, why
    assert run.clock["largest"][0] >= 1.0
    if method != "PER":
        np.testing.assert_array_equal(memory.entries.items[0, : config.capacity], memory.group)


def test_evaluations_follow_episodes_and_the_last_step() -> None:
    config = short(eval_every_episodes=3)
    result = train_tabular(config)
    assert result.updates == config.steps - config.learning_starts + 1
    assert (np.diff(result.eval_step) > 0).all()
    assert (result.eval_episode[:-1] % 3 == 0).all()
    assert len(result.eval_step) - 1 <= result.episodes // 3 <= len(result.eval_step)
    assert result.eval_step[-1] == config.steps
    assert ((result.eval_success >= 0) & (result.eval_success <= 1)).all()
    with pytest.raises(ValueError, match="read-only"):
        result.eval_return[0] = 0.0


def test_a_last_step_that_ends_an_episode_is_evaluated_once() -> None:
    config = short("OutlierBandit", "DDQN", eval_every_episodes=500)
    assert train_tabular(config).eval_step.tolist() == [500, 1_000, 1_500]


def test_evaluating_more_changes_no_training_step() -> None:
    often, seldom = short(eval_every_episodes=1), short(eval_every_episodes=1_000)
    runs = [new_run(config) for config in (often, seldom)]
    for run, draws in runs:
        advance(Lent(run), draws, 1_500, False)
    np.testing.assert_array_equal(runs[0][0].network.theta, runs[1][0].network.theta)


def test_evaluations_by_mean_rewards() -> None:
    """The same training, actions and successes; a risky arm pays 1 instead of 100 in a hundred."""
    drawn = train_tabular(short("OutlierBandit"))
    means = train_tabular(short("OutlierBandit", eval_mean_rewards=True))
    assert (drawn.episodes, drawn.updates) == (means.episodes, means.updates)
    for name in ("eval_step", "eval_episode", "eval_success"):
        np.testing.assert_array_equal(getattr(drawn, name), getattr(means, name))
    assert set(np.round(means.eval_return, 9)) == {1.0, 2.0}  # the risky arm and the safe one
    np.testing.assert_array_equal(means.eval_return == 2.0, means.eval_success == 1.0)
    config = short(eval_mean_rewards=True)
    with pytest.raises(ValueError, match="no mean rewards"):
        train_reference(config)


@pytest.mark.parametrize("every", [100, 130])
def test_an_observer_sees_the_buffer_before_the_update_and_changes_nothing(every: int) -> None:
    config = short(diagnostics_every=every)
    seen: list[tuple[int, int]] = []

    def observe(run: TabularRun) -> dict[str, float]:
        seen.append((int(run.clock["step"][0]), int(run.clock["updates"][0])))
        return {"total_mass": float(run.memory.entries.tree[-1])}

    result = train_tabular(config, observe=observe, chunk_steps=450)
    assert same(result, train_tabular(replace(config, diagnostics_every=0)))
    expected = [t for t in range(every, 1_501, every) if t >= config.learning_starts]
    assert [step for step, _ in seen] == expected == result.diagnostics["step"].tolist()
    assert [updates for _, updates in seen] == [t - config.learning_starts for t in expected]
    assert len(result.diagnostics["total_mass"]) == len(expected)
    assert train_tabular(replace(config, diagnostics_every=0)).diagnostics == {}


def test_any_toy_text_environment_with_a_table() -> None:
    result = train_tabular(
        short("CliffWalking-v1", "SAMPLE", eval_episodes=1, eval_every_episodes=1_000)
    )
    assert np.isfinite(result.eval_return).all()


def test_an_environment_without_a_table_is_refused() -> None:
    with pytest.raises(TypeError, match="no transition table"):
        train_tabular(short("CartPole-v1"))


def test_it_learns() -> None:
    """Uniform replay finds the safe arm of the bandit within 5,000 steps; PER is misled for long
    (paper: AUC 1.97 against 1.59 over 50,000)."""
    uniform, misled = (
        train_tabular(paper_config("OutlierBandit", method, 0, steps=5_000))
        for method in ("DDQN", "PER")
    )
    assert uniform.eval_return[-1] == 2.0
    assert uniform.eval_success[-1] == 1.0
    assert misled.eval_return[2:].mean() < 1.6 < uniform.eval_return[2:].mean()


def test_outcomes_of_several_steps_are_those_of_the_trajectory() -> None:
    """Slot by slot, with the ring's seam and episodes that end, against sums by hand."""
    config = paper_config(
        "TwoChains", "DDQN", 2, steps=433, capacity=100, learning_starts=433, n_steps=4, gamma=0.5
    )
    run, draws = new_run(config)
    lent, model = Lent(run), run.world
    trajectory: list[tuple[float, int, bool]] = []
    for step in range(1, config.steps + 1):
        advance(lent, draws, step, False)
        slot = (step - 1) % config.capacity
        outcome, group = run.memory.outcome[slot], run.memory.group[slot]
        listed = np.flatnonzero(model.outcome[group] == outcome - outcome % 2)[0]
        ended = bool(model.terminated[group, listed]) or outcome % 2 == 1
        reward = float(model.reward[group, listed])
        trajectory.append((reward, int(model.next_state[group, listed]), ended))
    assert sum(ended for *_, ended in trajectory) > 20
    for step in range(config.steps - config.capacity, config.steps):
        covered = trajectory[step : step + config.n_steps]
        ends = [place for place, (_, _, ended) in enumerate(covered) if ended]
        covered = covered[: ends[0] + 1] if ends else covered
        total = sum(config.gamma**k * reward for k, (reward, _, _) in enumerate(covered))
        discount = 0.0 if ends else config.gamma ** len(covered)
        after = covered[-1][1]
        slot = step % config.capacity
        assert run.outcomes.reward[slot] == pytest.approx(total, abs=1e-6)
        assert run.outcomes.discount[slot] == discount
        assert run.outcomes.next_state[slot] == after


def test_what_several_steps_cannot_serve_is_refused() -> None:
    for method, options in (("AVG", ""), ("GROUP", "rescore_every=10")):
        config = paper_config("TwoChains", method, 0, options=options, n_steps=3)
        with pytest.raises(ValueError, match="of single steps only, not of n_steps=3"):
            new_run(config)
    with pytest.raises(ValueError, match="n_steps must be at most the capacity, got 9"):
        paper_config("TwoChains", "PER", 0, capacity=8, n_steps=9)
    watched = paper_config("TwoChains", "PER", 0, diagnostics_every=10, n_steps=3)
    with pytest.raises(ValueError, match="diagnostics are of single steps"):
        train_tabular(watched)

"""One algorithm, two trainers: the compiled loop walks the trajectory of the torch reference.

In double precision, so that the comparison can go on for thousands of steps: training on FrozenLake
is chaotic, and in single precision two correct programs part after some hundred updates. What is
compared is the same code, for another dtype. A buffer's weights are single precision even then:
once in a while a difference of 1e-10 in a mass rounds one of them up here and down there, which is
a difference of 1e-8 from that update on. Hence the tolerance, and a low learning rate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import njit

from sibling_replay import Draw, Needs, Prioritized, Refresh, ReplayBuffer
from sibling_replay.training.config import ENVIRONMENTS, METHODS, TabularConfig, paper_config
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.network import all_values
from sibling_replay.training.tabular.trainer import new_run, train_tabular

torch = pytest.importorskip("torch")
from sibling_replay.training.torch import reference as torch_reference  # noqa: E402

STEPS = 2_100
TOLERANCE = 1e-6  # of values, relative to the largest; most agree to 1e-13

# A small buffer, so that entries are evicted; several target updates.
SETTINGS: dict[str, Any] = {
    "steps": STEPS,
    "capacity": 700,
    "learning_starts": 100,
    "learning_rate": 3e-4,
    "target_interval": 250,
    "epsilon_decay_steps": 1_500,
    "beta_updates": 2_000,
    "eval_every_episodes": 20,
    "eval_episodes": 5,
}

# Every method and every environment for a thousand steps (the buffer holds 700) in the suite that
# is run all the time; every pair for 2,100 in the long.
SHORT = {
    ("DDQN", "OutlierBandit"),
    ("PER", "FrozenLake-H100/H300"),
    ("SAMPLE", "FrozenLake-H50"),
    ("MODEL", "TwoChains"),
    ("AVG", "TwoChains"),
    ("AVG-g2", "FrozenLake-H100/H300"),
    ("AVG-g4", "OutlierBandit"),
    ("RANK", "TwoChains"),
    ("LAP", "TwoChains"),
    ("RELO", "FrozenLake-H50"),
    ("CER", "OutlierBandit"),
    ("AGE", "TwoChains"),
    ("CV", "TwoChains"),
}
# Rivals whose draws are by slot. (Draws by group go by the order of groups, which is not the same.)
RIVALS = ("RANK", "LAP", "RELO", "CER", "AGE", "CV")
PAIRS = [
    *(pytest.param(*pair, 1_000, marks=[]) for pair in sorted(SHORT)),
    *(
        pytest.param(method, env, SETTINGS["steps"], marks=pytest.mark.long)
        for method in (*METHODS, *RIVALS)
        for env in ENVIRONMENTS
    ),
]


@njit(cache=True)
def record(run, draws, until, groups, slots):
    """Advance step by step, noting the (s, a) of each step and the slots of each update."""
    for step in range(run.clock[0].step + 1, until + 1):
        advance(run, draws, step, False)
        groups[step] = run.memory.group[(step - 1) % run.memory.group.size]
        slots[step] = run.batch.slots


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("method", "env", "steps"), PAIRS)
def test_same_actions_same_slots_same_values(method: str, env: str, steps: int) -> None:
    alpha = {"CV": 0.0}.get(method, 0.6)
    settings = {**SETTINGS, "steps": steps}
    walk_side_by_side(paper_config(env, method, seed=3, alpha=alpha, **settings))


N_STEP = [
    ("DDQN", "TwoChains", 3),
    ("SAMPLE", "FrozenLake-H100/H300", 5),
    ("AVG-g2", "TwoChains", 2),
    ("PER", "FrozenLake-H50", 3),
    ("MODEL", "TwoChains", 4),
    ("LAP", "TwoChains", 3),
]


@pytest.mark.parametrize(
    ("method", "env", "n_steps"),
    [pytest.param(*each, marks=[pytest.mark.long] * (at > 1)) for at, each in enumerate(N_STEP)],
)
def test_same_with_outcomes_of_several_steps(method: str, env: str, n_steps: int) -> None:
    walk_side_by_side(paper_config(env, method, seed=4, n_steps=n_steps, **SETTINGS))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("LAP", {"loss": "huber"}),
        ("DDQN", {"updates_a_step": 2}),
        pytest.param("PER", {"loss": "pal:0.4", "updates_a_step": 3}, marks=pytest.mark.long),
    ],
)
def test_same_with_other_losses_and_several_updates(method: str, settings: dict[str, Any]) -> None:
    shorter = {**SETTINGS, "steps": 900, "learning_rate": 1e-4}
    walk_side_by_side(paper_config("TwoChains", method, seed=6, **shorter, **settings))


@pytest.mark.parametrize(
    ("method", "n_steps"),
    [("SAMPLE", 1), pytest.param("AVG", 1, marks=pytest.mark.long), ("DDQN", 3)],
)
def test_same_where_targets_go_through_time_limits(method: str, n_steps: int) -> None:
    """In a chain of a hundred steps nearly every early episode is cut off."""
    options = {"n_steps": n_steps, "through_time_limits": True}
    config = paper_config("Chain", method, seed=7, **{**SETTINGS, "steps": 900}, **options)
    walk_side_by_side(config)
    ends, goes_on = (
        new_run(each, np.float64) for each in (replace(config, through_time_limits=False), config)
    )
    for run, draws in (ends, goes_on):
        advance(Lent(run), draws, config.steps, False)
    assert not np.allclose(ends[0].network.theta, goes_on[0].network.theta)


def walk_side_by_side(config: TabularConfig) -> None:
    run, draws = new_run(config, np.float64)
    lent = Lent(run)
    groups = np.zeros(config.steps + 1, np.int64)
    slots = np.zeros((config.steps + 1, config.batch_size), np.int64)
    values = np.zeros_like(run.network.target)
    n_actions = values.shape[1]

    setup = torch_reference.set_up(config, dtype=torch.float64)
    updates = 0
    for step in setup.steps(config):
        if step.number % 100 == 1:
            record(lent, draws, min(step.number + 99, config.steps), groups, slots)
        assert groups[step.number] == step.transition.obs * n_actions + step.transition.action
        if step.batch is not None:
            updates = step.updates
            np.testing.assert_array_equal(slots[step.number], step.batch.slots, str(step.number))
        if step.number % 100 == 0:
            all_values(run.network, values)
            with torch.no_grad():
                eye = torch.eye(len(values), dtype=torch.float64)
                expected = setup.learner.network(eye).numpy()
            scale = 1.0 + np.abs(expected).max()
            np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=TOLERANCE)
    learning = config.steps - config.learning_starts + 1
    assert updates == learning * config.updates_a_step == run.clock["updates"][0]
    assert setup.buffer.max_priority == pytest.approx(run.clock["largest"][0], rel=1e-6) or (
        config.method == "DDQN"
    )


@pytest.mark.parametrize("method", ["DDQN", "SAMPLE", "AVG"])
def test_same_evaluation_curve(method: str) -> None:
    config = short(method)
    compiled = train_tabular(config, dtype=np.float64)
    reference = torch_reference.train_reference(config, dtype=torch.float64)
    for name in ("eval_step", "eval_episode", "eval_return", "eval_success"):
        np.testing.assert_array_equal(getattr(compiled, name), getattr(reference, name), name)
    assert (compiled.episodes, compiled.updates) == (reference.episodes, reference.updates)
    assert len(compiled.eval_step) > 2
    assert compiled.eval_step[-1] == config.steps


def short(method: str) -> TabularConfig:
    return paper_config("TwoChains", method, seed=5, **{**SETTINGS, "steps": 600})


def test_single_precision_follows_while_chaos_allows() -> None:
    """By rounding alone, until two values are so close that it decides which is larger: on some
    processors that comes before step 500."""
    config = paper_config("TwoChains", "DDQN", seed=3, **{**SETTINGS, "steps": 400})
    run, draws = new_run(config)
    advance(Lent(run), draws, config.steps, False)
    setup = torch_reference.set_up(config)
    for _ in setup.steps(config):
        pass
    with torch.no_grad():
        expected = setup.learner.network(torch.eye(run.network.first.shape[0])).numpy()
    values = np.zeros_like(run.network.target)
    all_values(run.network, values)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


def test_the_reference_learns_on_an_environment_without_a_table() -> None:
    config = paper_config(
        "CartPole-v1", "PER", seed=0, **{**SETTINGS, "steps": 300, "eval_episodes": 1}
    )
    result = torch_reference.train_reference(config)
    assert result.updates == 201
    assert np.isfinite(result.eval_return).all()


def test_the_torch_trainer_groups_by_a_key() -> None:
    """As a buffer does: rows of the lake, say, with the action. A key that tells all states apart
    is the default."""
    config = paper_config("FrozenLake-H50", "SAMPLE", seed=3, **{**SETTINGS, "steps": 400})
    rows, exact, states = (
        torch_reference.set_up(config, key=key)
        for key in (lambda obs, action: obs // 8, "default", lambda obs, action: obs)
    )
    drawn = []
    for setup in (rows, exact, states):
        batches = [step.batch for step in setup.steps(config) if step.batch is not None]
        drawn.append(np.concatenate([batch.slots for batch in batches]))
    stored = rows.buffer.transitions()
    assert len(np.unique(rows.buffer.groups)) == len(
        np.unique(stored["obs"] // 8 * 4 + stored["action"])
    )
    assert len(np.unique(rows.buffer.groups)) < len(np.unique(exact.buffer.groups))
    assert np.array_equal(drawn[1], drawn[2]) and not np.array_equal(drawn[0], drawn[1])


def test_a_shift_pulls_the_loss_and_signals_reach_the_strategy() -> None:
    """With the target minus the value as a shift to come, nothing else: seen by what is learnt."""
    seen = []

    class Shifting(Prioritized):
        needs = Needs(shifts=True, signals=("target", "value"))
        recipe = None
        pull = 0.0

        def draw(self, view, size, stream, beta):
            slots = view.find((np.arange(size) + stream.take(size)) * (view.total / size))
            return Draw(slots=slots, shift=np.full(size, self.pull))

        def refresh(self, view, draw, td_errors, signals):
            seen.append(np.abs(signals["target"] - signals["value"] - td_errors).max())
            return Refresh(slots=draw.slots, priorities=np.abs(td_errors) + self.epsilon)

    class Pulling(Shifting):
        pull = 0.5

    config = paper_config("TwoChains", "PER", seed=3, **{**SETTINGS, "steps": 400})
    values = []
    for strategy in (Shifting(), Pulling()):
        setup = torch_reference.set_up(config)
        buffer = ReplayBuffer.for_env(setup.env, 700, strategy, seed=1)
        setup = replace(setup, buffer=buffer)
        for _ in setup.steps(config):
            pass
        with torch.no_grad():
            states = torch.eye(setup.learner.network[1].in_features)
            values.append(setup.learner.network(states).mean().item())
    assert len(seen) > 500 and max(seen) < 1e-6
    assert values[1] > values[0] + 0.1

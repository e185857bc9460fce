"""The compiled trainer: Double DQN with sibling-aware replay on an environment with a table.

`train_tabular` is a pure function of its config. The whole loop (act, step, add, draw, update,
refresh, evaluate) runs in compiled, GIL-free code, many thousand steps per call;
`torch/reference.py` states the same algorithm readably and walks the same trajectory.

How the paper's text is read, where it leaves a choice (steps count from 1, and a transition is
stored before the update of its step):

1. The first update follows step `learning_starts`; then there is one per step.
2. The target network is copied after the update of every step that `target_interval` divides.
3. epsilon and beta start at their initial values: step t explores with epsilon(t - 1), update k has
   beta(k - 1). beta therefore ends just short of 1: "toward 1".
4. An episode that reaches the time limit stops bootstrapping (d = max(term, trunc)), and `trunc` is
   part of the outcome, also when the episode terminated in that very step. With
   `through_time_limits` (which is not the paper's) targets go on there.
5. Evaluations follow every so many finished training episodes (`eval_every_episodes`), after the
   update of the last step; the final one follows the last step, unless it was just evaluated.
6. Evaluation is greedy, on an environment of its own whose random stream runs on from evaluation to
   evaluation; an episode that no time limit ends is given up after 10,000 steps. Success is the
   share of episodes that met a successful transition. With `eval_mean_rewards` (which is not the
   paper's) an action pays the mean of its rewards: the expected return is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import DTypeLike, NDArray

from sibling_replay.envs import TabularModel, make_env
from sibling_replay.rng import SEED_BOUND, streams
from sibling_replay.training.config import TabularConfig, gym_id
from sibling_replay.training.initial import initial_layers
from sibling_replay.training.losses import loss_named
from sibling_replay.training.methods import strategy_of, table_rule
from sibling_replay.training.results import RunResult
from sibling_replay.training.tabular.batch import (
    new_batch,
    new_memory,
    outcome_tables,
    outcomes_by_slot,
)
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import (
    CLOCK,
    Draws,
    EvaluationCurve,
    Settings,
    TabularRun,
    World,
    advance,
)
from sibling_replay.training.tabular.measure import measure
from sibling_replay.training.tabular.network import new_network
from sibling_replay.training.tabular.rules import counts_outcomes

CHUNK_STEPS = 20_000  # steps per compiled call, under a second; does not change results

Observer = Callable[[TabularRun], dict[str, float]]


def train_tabular(
    config: TabularConfig,
    *,
    observe: Observer = measure,
    dtype: DTypeLike = np.float32,
    chunk_steps: int = CHUNK_STEPS,
) -> RunResult:
    """Run to the end and return the evaluation curve.

    At every step that `config.diagnostics_every` divides, once learning has started, `observe` is
    called after sampling and before the update; it must leave the run as it is. What it returns
    becomes the columns of `RunResult.diagnostics`, beside the step.
    """
    if config.diagnostics_every > 0 and config.n_steps > 1 and observe is measure:
        raise ValueError(
            f"the paper's diagnostics are of single steps: with n_steps={config.n_steps} leave "
            "diagnostics_every at 0"
        )
    run, draws = new_run(config, dtype)
    lent = Lent(run)
    rows = []
    every = config.diagnostics_every
    step = 0
    while step < config.steps:
        stop = min(step + chunk_steps, config.steps)
        if every > 0:
            stop = min(stop, (step // every + 1) * every)
        advance(lent, draws, stop, every > 0 and stop % every == 0)
        step = stop
        if run.clock["paused"][0]:
            rows.append({"step": step, **observe(run)})
    advance(lent, draws, config.steps, False)  # the rest of the last step, if it was paused
    return result_of(run, config, rows)


def result_of(run: TabularRun, config: TabularConfig, rows: list[dict[str, float]]) -> RunResult:
    done = int(run.clock["evaluations"][0])
    return RunResult(
        config=config,
        eval_step=run.curve.step[:done].copy(),
        eval_episode=run.curve.episode[:done].copy(),
        eval_return=run.curve.mean_return[:done].copy(),
        eval_success=run.curve.success[:done].copy(),
        episodes=int(run.clock["episodes"][0]),
        updates=int(run.clock["updates"][0]),
        diagnostics={
            key: np.array([row[key] for row in rows], np.int64 if key == "step" else np.float32)
            for key in (rows[0] if rows else ())
        },
    )


def new_run(config: TabularConfig, dtype: DTypeLike = np.float32) -> tuple[TabularRun, Draws]:
    """The state of a run before its first step: the environment is reset, the buffer is empty."""
    model = tabular_model(config.env)
    n_groups, width = model.n_states * model.n_actions, 2 * model.next_state.shape[2]
    rng = streams(config.seed)
    env_rng, _ = seeding.np_random(int(rng.env.integers(SEED_BOUND)))
    eval_rng, _ = seeding.np_random(int(rng.eval.integers(SEED_BOUND)))
    sizes = (model.n_states, config.hidden, config.hidden, model.n_actions)
    clock = np.zeros(1, CLOCK)
    clock["state"] = np.argmax(model.initial_cumulative > env_rng.random())
    strategy, rule = strategy_of(config), table_rule(config)
    if config.n_steps > 1 and counts_outcomes(rule):
        raise ValueError(
            f"{config.method} goes by the counts of a group's outcomes, which the compiled trainer "
            f"has of single steps only, not of n_steps={config.n_steps}"
        )
    clock["largest"] = first = max(1.0, rule.recipe.floor)
    clock["largest_mass"] = first**config.alpha
    batch = new_batch(config.batch_size, rule, width, dtype)
    most_evaluations = config.steps // config.eval_every_episodes + 1
    run = TabularRun(
        settings=Settings(
            rule=rule,
            loss=loss_named(config.loss),
            n_steps=config.n_steps,
            through_time_limits=config.through_time_limits,
            steps=config.steps,
            updates_a_step=config.updates_a_step,
            learning_starts=config.learning_starts,
            learning_rate=float(config.learning_rate),
            grad_clip=float(config.grad_clip),
            target_interval=config.target_interval,
            epsilon_start=float(config.epsilon_start),
            epsilon_end=float(config.epsilon_end),
            epsilon_decay_steps=config.epsilon_decay_steps,
            eval_episodes=config.eval_episodes,
            eval_interval=config.eval_every_episodes,
            eval_mean_rewards=config.eval_mean_rewards,
            alpha=float(strategy.alpha),
            epsilon=0.0 if rule.recipe.floor else float(strategy.epsilon),
            beta_start=float(config.beta_start),
            beta_end=float(config.beta_end),
            beta_updates=config.beta_updates,
        ),
        world=_world(model, n_groups, width),
        outcomes=outcome_tables(model, config.gamma, dtype, config.through_time_limits)
        if config.n_steps == 1
        else outcomes_by_slot(config.n_steps, config.capacity, config.gamma, dtype),
        network=new_network(
            initial_layers(rng.init, sizes), batch.slots.size + batch.outcomes.size, dtype
        ),
        memory=new_memory(config.capacity, n_groups, width, strategy.needs.groups, rule),
        batch=batch,
        curve=EvaluationCurve(
            step=np.zeros(most_evaluations, np.int64),
            episode=np.zeros(most_evaluations, np.int64),
            mean_return=np.zeros(most_evaluations),
            success=np.zeros(most_evaluations),
            values=np.zeros((model.n_states, model.n_actions), dtype),
            policy=np.zeros(model.n_states, np.int64),
        ),
        clock=clock,
        visits=np.zeros((2, n_groups), np.int64),
        outcome_visits=np.zeros((2, n_groups * width)),
    )
    return run, Draws(env=env_rng, explore=rng.explore, replay=rng.replay, eval=eval_rng)


def tabular_model(env: str) -> TabularModel:
    """The table of an environment of the paper, or of any registered one that has a `P`, with the
    parameters that its name gives it."""
    made = make_env(gym_id(env))
    try:
        return TabularModel.from_env(made)
    finally:
        made.close()


def _world(model: TabularModel, n_groups: int, width: int) -> World:
    def flat(array: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(array.reshape(n_groups, -1))

    first = np.arange(n_groups, dtype=np.int32)[:, None] * np.int32(width)
    cumulative, reward = flat(model.cumulative), flat(model.reward)
    return World(
        cumulative=cumulative,
        next_state=flat(model.next_state),
        reward=reward,
        mean_reward=(np.diff(cumulative, prepend=0.0, axis=1) * reward).sum(axis=1),
        terminated=flat(model.terminated),
        success=flat(model.success),
        outcome=first + 2 * flat(model.outcome_id),
        initial=model.initial_cumulative,
        time_limit=model.time_limit,
    )

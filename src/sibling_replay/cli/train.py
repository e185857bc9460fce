"""`sibling-replay train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym

from sibling_replay.cli.carry_out import carry_out, finish, new_backend, say
from sibling_replay.cli.options import Runs, by_default
from sibling_replay.envs import TabularModel
from sibling_replay.running import store
from sibling_replay.running.runs import spelt
from sibling_replay.studies.own import OWN, own_run
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import ENVIRONMENTS, gym_id, paper_config
from sibling_replay.training.methods import method_named

PaperFloat = Annotated[float | None, by_default("the paper's", "FLOAT")]
PaperInt = Annotated[int | None, by_default("the paper's", "INT")]
PaperBool = Annotated[bool | None, by_default("the paper's", "{True,False}")]


def train(
    env: str,
    method: str,
    seed: int = 0,
    alpha: PaperFloat = None,
    beta_start: PaperFloat = None,
    beta_end: PaperFloat = None,
    beta_updates: PaperInt = None,
    steps: PaperInt = None,
    capacity: PaperInt = None,
    learning_starts: PaperInt = None,
    learning_rate: PaperFloat = None,
    gamma: PaperFloat = None,
    target_interval: PaperInt = None,
    epsilon_start: PaperFloat = None,
    epsilon_end: PaperFloat = None,
    epsilon_decay_steps: PaperInt = None,
    eval_episodes: PaperInt = None,
    eval_every_episodes: PaperInt = None,
    batch_size: PaperInt = None,
    hidden: PaperInt = None,
    grad_clip: PaperFloat = None,
    update_all_siblings: PaperBool = None,
    runs: Runs = Path("runs"),
) -> int:
    """Train one run of your own and store it; settings not given are the paper's.

    Paper's values are listed for OutlierBandit / TwoChains / FrozenLake; any other environment
    takes FrozenLake's. `status train` and `table train` list such runs.

    Args:
        env: OutlierBandit, TwoChains, FrozenLake-H100/H300, FrozenLake-H50, or the Gymnasium id of
            any environment with a transition table P and a time limit (e.g. FrozenLake-v1); letters
            in any case.
        method: DDQN, PER, SAMPLE, MODEL, AVG (whole groups), AVG-g2, AVG-g4 (or any AVG-gK);
            letters in any case.
        seed: Of all random streams (paper: 0-9, or 1-10 for FrozenLake).
        alpha: Priority exponent, no unit (paper: 0.6; sweep 0.1, 0.3, 0.6, 1).
        beta_start: Importance exponent at the first update, no unit (paper: 0.4).
        beta_end: Importance exponent after beta_updates, no unit; equal to beta_start it is fixed
            (paper: 1; sweep fixed at 0, 0.4, 0.7, 1).
        beta_updates: Replay updates over which beta is annealed (paper: 50k / 100k / 500k).
        steps: Length of training in environment steps (paper: 50k / 100k / 500k).
        capacity: Replay buffer in transitions (paper: 5k / 5k / 50k).
        learning_starts: First update, in environment steps (paper: 500 / 1000 / 5000).
        learning_rate: Of Adam, no unit (paper: 7.5e-4 / 7.5e-4 / 3e-3).
        gamma: Discount per step (paper: 0 / 0.99 / 0.99).
        target_interval: Hard target update every so many environment steps
            (paper: 500 / 1000 / 1000).
        epsilon_start: Exploration probability at first (paper: 1).
        epsilon_end: Exploration probability at last (paper: 0.02 / 0.05 / 0.05).
        epsilon_decay_steps: Environment steps between the two (paper: 10k / 50k / 500k).
        eval_episodes: Episodes per evaluation (paper: 500 / 200 / 50).
        eval_every_episodes: Training episodes between evaluations (paper: 500 / 100 / 20).
        batch_size: Transitions per update (paper: 32).
        hidden: Units in each of the two hidden layers (paper: 64).
        grad_clip: Largest gradient norm (paper: 10).
        update_all_siblings: AVG only: refresh every sibling used, not only the anchor
            (paper: false / true / true).
    """
    arguments = dict(locals())
    for name in ("env", "method", "seed", "runs"):
        del arguments[name]
    env, method = table_environment(env), method_named(method)
    overrides = {name: value for name, value in arguments.items() if value is not None}
    run = own_run(paper_config(env, method, seed, **overrides))
    job = OWN.job(Choice())
    report = carry_out([run], runs, new_backend("local", 1, None, job), "train", job)
    if not report.failures:
        row = store.load_file(store.run_path(runs, run.id)).row(0, named=True)
        for metric in ("return", "success"):
            numbers = (f"{kind} {row[f'{kind}_{metric}']:.4g}" for kind in ("auc", "late", "final"))
            say(f"{metric:<8} {', '.join(numbers)}")
    return finish(report, store.run_path(runs, run.id))


def table_environment(name: str) -> str:
    """An environment of the paper, or the id of any registered one that `train` can run: it has a
    transition table and a time limit."""
    try:
        env = spelt("environment", name, [*ENVIRONMENTS, *gym.registry])
    except ValueError:
        raise ValueError(
            f"unknown environment {name!r}: choose from {', '.join(ENVIRONMENTS)}, "
            "or give the Gymnasium id of an environment with a transition table P"
        ) from None
    if env in ENVIRONMENTS:
        return env
    try:
        made: gym.Env[Any, Any] = gym.make(gym_id(env))
    except Exception as error:  # whatever its constructor raises; often a missing extra
        raise ValueError(f"{env} cannot be made: {error}") from error
    try:
        TabularModel.from_env(made)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`train` needs an environment with a transition table P over numbered states and "
            f"actions, such as FrozenLake-v1, and {env} is not one: {error}. For other "
            "environments use the library in your own loop or in a host, such as Stable-Baselines3"
        ) from error
    finally:
        made.close()
    if gym.spec(env).max_episode_steps is None:
        raise ValueError(
            f"{env} has no time limit: a greedy policy that never ends an episode would be "
            "evaluated for ever. Register it with max_episode_steps"
        )
    return env

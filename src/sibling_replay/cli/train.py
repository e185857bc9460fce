"""`sibling-replay train`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import tyro

from sibling_replay.cli.carry_out import carry_out, finish, new_backend, say
from sibling_replay.cli.options import Runs, by_default
from sibling_replay.cli.settings import settings_of_kind
from sibling_replay.envs import SHORT_NAMES, TabularModel, env_text, make_env, parse_env
from sibling_replay.running import store
from sibling_replay.running.runs import spelt
from sibling_replay.studies.own import OWN, own_run, refuse_idle
from sibling_replay.studies.rivals.settings import bench_config
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import ENVIRONMENTS, TabularConfig, gym_id
from sibling_replay.training.evaluation import LONGEST_EVALUATION
from sibling_replay.training.gym_config import GymConfig, gym_config
from sibling_replay.training.methods import draws_by_siblings, method_named
from sibling_replay.training.spaces import check_spaces

Learner = Literal["tabular", "compiled", "torch", "sb3"]
LEARNERS = "{tabular,compiled,torch,sb3}"
_NO_BETA = ("DDQN", "LAP", "SER", "LABER", "CER", "AGE")  # whose weights hang on no exponent
PaperFloat = Annotated[float | None, by_default("the paper's", "FLOAT")]
PaperInt = Annotated[int | None, by_default("the paper's", "INT")]
PaperBool = Annotated[bool | None, by_default("the paper's", "{True,False}")]


def train(
    env: str,
    method: Annotated[str, tyro.conf.arg(aliases=["--strategy"])],
    seed: int = 0,
    key: Annotated[str | None, by_default("auto where there is no table", "KEY")] = None,
    learner: Annotated[Learner | None, by_default("as the environment is", LEARNERS)] = None,
    alpha: PaperFloat = None,
    options: Annotated[str | None, by_default("its own", "NAME=VALUE,NAME=VALUE")] = None,
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
    hidden: Annotated[str | None, by_default("the paper's", "UNITS")] = None,
    grad_clip: PaperFloat = None,
    update_all_siblings: PaperBool = None,
    loss: Annotated[str | None, by_default("mse", "LOSS")] = None,
    updates_a_step: Annotated[int | None, by_default("1", "INT")] = None,
    n_steps: Annotated[int | None, by_default("1", "INT")] = None,
    through_time_limits: Annotated[
        bool | None, by_default("false with a table, else true", "{True,False}")
    ] = None,
    eval_mean_rewards: Annotated[bool | None, by_default("false", "{True,False}")] = None,
    set: Annotated[tuple[str, ...], by_default("none", "NAME=VALUE [NAME=VALUE ...]")] = (),
    runs: Runs = Path("runs"),
) -> int:
    """Train one run of your own and store it; settings not given are the paper's.

    An environment with a transition table P and a time limit (FrozenLake-v1) is trained by the
    compiled trainer of the paper's studies, whose values are listed for OutlierBandit / TwoChains /
    FrozenLake; those of the bench (NoisyGridworld) have settings of their own, and any other such
    environment takes FrozenLake's. Every other environment with vectors
    for observations and discrete actions (CartPole-v1) is trained by `DQN`, over 50,000 steps
    unless --steps says otherwise; if it is interrupted it goes on from its checkpoint.
    `status train` and `table train` list such runs.

    Args:
        env: OutlierBandit, TwoChains, FrozenLake-H100/H300, FrozenLake-H50, another of ours by its
            short name (NoisyGridworld), or the id of any environment that Gymnasium knows; letters
            in any case. `my_package:MyEnv-v0` imports my_package first. Parameters follow after
            commas: FrozenLake-v1,map_name=8x8. With rewards=mean every action pays its mean, with
            reward_noise=tail-30 (or gauss-1, student-2) rewards have noise.
        method: DDQN, PER, SAMPLE, MODEL, AVG (whole groups), AVG-g2, AVG-g4 (or any AVG-gK), or one
            to compare with: RANK, LAP, RELO, LABER, SER, EPER, GROUP, CV, CER, AGE, letters in any
            case; or a strategy of your own as `my_package.replay:Mine`.
        key: What makes siblings where there is no table: auto, exact, grid:4, simhash:12,
            kmeans:256.
        learner: tabular for environments with a table; compiled (or torch) for vectors.
        set: Other settings where there is no table, such as loss=huber tau=0.005 train_every=4
            updates_a_round=4 eval_every_steps=5000 condition=mp-tail.
        seed: Of all random streams (paper: 0-9, or 1-10 for FrozenLake).
        alpha: Priority exponent, no unit (paper: 0.6; sweep 0.1, 0.3, 0.6, 1).
        options: Other options of the strategy, such as every=500 for RANK.
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
        hidden: Units in each of the two hidden layers (paper: 64), or, where there is no table, of
            any layers, as in 256-128-64.
        grad_clip: Largest gradient norm (paper: 10).
        loss: mse (paper: mse), huber, huber:K, pal or pal:ALPHA.
        updates_a_step: Replay updates after every environment step, with a table (paper: 1).
        n_steps: Steps that an outcome covers at most, for n-step targets (paper: 1).
        through_time_limits: Whether targets bootstrap where a time limit cut an episode off
            (paper: false).
        eval_mean_rewards: Whether evaluations pay the mean reward of an action, with a table: as
            much on average, and less noise (paper: false).
        update_all_siblings: AVG only: refresh every sibling used, not only the anchor
            (paper: false / true / true).
    """
    arguments = dict(locals())
    for name in ("env", "method", "seed", "key", "learner", "set", "runs"):
        del arguments[name]
    given = {name: value for name, value in arguments.items() if value is not None}
    env, method = known_environment(env), named_method(method)
    if learner in (None, "tabular") and (learner == "tabular" or has_table(env)):
        config: TabularConfig | GymConfig = _with_table(env, method, seed, given, key, set)
    else:
        config = _without_table(env, method, seed, given, key, learner, set)
    refuse_idle(config)
    # the paper's and the bench's own lengths are as they are
    if set or given.keys() & {"steps", "epsilon_decay_steps", "beta_updates"}:
        _tell_schedules_cut_off(config)
    run = own_run(config)
    job = OWN.job(Choice(out=runs))
    report = carry_out([run], runs, new_backend("local", 1, None, job), "train", job)
    if not report.failures:
        row = store.load_file(store.run_path(runs, run.id)).row(0, named=True)
        for metric in ("return", "success"):
            if math.isnan(row[f"final_{metric}"]):
                continue  # most environments know no success
            numbers = (f"{kind} {row[f'{kind}_{metric}']:.4g}" for kind in ("auc", "late", "final"))
            say(f"{metric:<8} {', '.join(numbers)}")
        if math.isnan(row["auc_return"]):
            say("an area under the curve (auc) needs two evaluations, and there was one")
    return finish(report, store.run_path(runs, run.id))


def _tell_schedules_cut_off(config: TabularConfig | GymConfig) -> None:
    """Say which schedules end after the run does."""
    if isinstance(config, TabularConfig):
        updates = config.steps * config.updates_a_step
    else:
        updates = config.steps // config.train_every * config.updates_a_round
    for name, unit, end in (
        ("epsilon_decay_steps", "step", config.steps),
        ("beta_updates", "update", updates),
    ):
        last = getattr(config, name)
        if last > end and not (unit == "update" and config.method in _NO_BETA):
            say(f"{name} is {last:,}, past the last {unit} of this run: its schedule is cut off")


def named_method(name: str) -> str:
    """A method by name, or the place of one, which is imported from here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return method_named(name)
    except LookupError as error:
        raise ValueError(str(error)) from error


def _with_table(
    env: str, method: str, seed: int, given: dict[str, Any], key: str | None, others: Sequence[str]
) -> TabularConfig:
    check_table(env)
    if key is not None or others:
        option = "--key" if key is not None else "--set"
        raise ValueError(
            f"{option} is for runs without a table: groups of {env} are exact. With --learner "
            "compiled it is trained by DQN"
        )
    if "hidden" in given:
        if not given["hidden"].isdecimal():
            raise ValueError(f"--hidden must be a number where there is a table: {given['hidden']}")
        given["hidden"] = int(given["hidden"])
    return bench_config(env, method, seed, **given)


def _without_table(
    env: str,
    method: str,
    seed: int,
    given: dict[str, Any],
    key: str | None,
    learner: str | None,
    others: Sequence[str],
) -> GymConfig:
    for name in (
        "eval_every_episodes", "update_all_siblings", "updates_a_step", "eval_mean_rewards",
    ):  # fmt: skip
        if name in given:
            raise ValueError(
                f"--{name.replace('_', '-')} is for environments with a transition table, and "
                f"{env} is trained without one"
            )
    if "hidden" in given:
        units = given.pop("hidden")
        given["hidden_layers"] = f"{units}-{units}" if units.isdecimal() else units
    if learner is not None:
        given["learner"] = learner
    if key is not None:
        if draws_by_siblings(method) is False:
            raise ValueError(
                f"--key makes siblings, and {method} draws without: it would do nothing"
            )
        given["key"] = key
    by_set = settings_of_kind(GymConfig, others, "train")
    twice = sorted(given.keys() & by_set.keys())
    if twice:
        raise ValueError(f"{twice[0]} is given twice: by --set and by an option of its own")
    given |= by_set
    config = gym_config(gym_id(env), method, seed, **given)
    check_vectors(env)
    return config


def check_vectors(env: str) -> None:
    """Refuse an environment that `DQN` cannot learn."""
    made = make_env(gym_id(env))
    try:
        check_spaces(made.observation_space, made.action_space)
    except TypeError as error:
        raise ValueError(f"{env}: {error}") from error
    finally:
        made.close()


def known_environment(name: str) -> str:
    """An environment of the paper or of ours, or the id of any that Gymnasium can make; and its
    parameters, in their one spelling."""
    name, parameters = parse_env(name)
    module, colon, _ = name.partition(":")
    if colon:
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        try:
            import_module(module)
        except ImportError as error:
            raise ValueError(f"--env {name}: {error}") from error
        env = name
    else:
        known = [*ENVIRONMENTS, *SHORT_NAMES, *gym.registry]
        try:
            env = spelt("environment", name, known)
        except ValueError:
            close = " or ".join(get_close_matches(name, known, n=2))
            meant = f" (did you mean {close}?)" if close else ""
            raise ValueError(
                f"unknown environment {name!r}{meant}: choose from {', '.join(ENVIRONMENTS)}, or "
                "give the id of one that Gymnasium knows (my_package:MyEnv-v0 imports my_package "
                "first)"
            ) from None
    env = env_text(env, parameters)
    try:
        make_env(gym_id(env)).close()
    except Exception as error:  # whatever its constructor raises; often a missing extra
        raise ValueError(f"{env} cannot be made: {error}") from error
    return env


def has_table(env: str) -> bool:
    """Whether the compiled trainer of the paper's studies can run it."""
    return env in ENVIRONMENTS or hasattr(make_env(gym_id(env)).unwrapped, "P")


def check_table(env: str) -> None:
    """Refuse an environment that the compiled trainer cannot run."""
    if env in ENVIRONMENTS:
        return
    made = make_env(gym_id(env))
    try:
        TabularModel.from_env(made)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the tabular trainer needs an environment with a transition table P over numbered "
            f"states and actions, such as FrozenLake-v1, and {env} is not one: {error}. "
            "--learner compiled trains on vectors"
        ) from error
    finally:
        made.close()
    if made.spec is None or made.spec.max_episode_steps is None:
        raise ValueError(
            f"{env} has no time limit: a greedy policy that never ends an episode would be "
            f"evaluated for {LONGEST_EVALUATION:,} steps each time. Give it one: "
            f"{env},max_episode_steps=200"
        )

"""`sibling-replay bench`: which way to replay, on an environment of one's own."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from rich.table import Table

from sibling_replay import terminal
from sibling_replay.cli.carry_out import carry_out, finish, new_backend, say
from sibling_replay.cli.options import Runs, by_default
from sibling_replay.cli.train import (
    check_table,
    check_vectors,
    has_table,
    known_environment,
    named_method,
)
from sibling_replay.running import store
from sibling_replay.running.display import duration
from sibling_replay.running.runs import Run, spelt
from sibling_replay.studies.own import OWN, OwnJob, refuse_idle
from sibling_replay.studies.rivals.declared import BY_NAME, Contender
from sibling_replay.studies.rivals.shortlist import (
    NAME,
    SHORTLIST,
    as_in_networks,
    bench_rows,
    bench_run,
)
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import TabularConfig
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.methods import draws_by_siblings

_TRIAL = 3_000  # steps by which a run is timed

Optional = Annotated[int | None, by_default("the environment's own", "INT")]


def bench(
    env: str,
    seeds: int = 10,
    first_seed: int = 0,
    steps: Optional = None,
    method: tuple[str, ...] = SHORTLIST,
    key: Annotated[str | None, by_default("auto where there is no table", "KEY")] = None,
    workers: int = 1,
    yes: bool = False,
    runs: Runs = Path("runs"),
) -> int:
    """Which replay should I use? The shortlist of the bench on your environment, side by side.

    Says how many runs there will be and how long they take, from a short run of its own, and asks
    before it begins. Finished runs are kept: the same command goes on, and more seeds add to them.
    A strategy or environment of your own is run anew when the file it is in has changed.
    A difference that is not significant is called "not shown".

    Args:
        env: As for `train`: a name of ours or any id that Gymnasium knows, with parameters.
        seeds: How many of each.
        first_seed: The first of them.
        steps: Length of a run in environment steps.
        method: Contenders, the first of which the others are compared with: those of the study
            `rivals`, or a strategy of your own as `my_package.replay:Mine`. With one of your own
            all are trained by DQN, also where there is a table.
        key: What makes siblings where there is no table: auto, exact, grid:4, simhash:12,
            kmeans:256.
        workers: Runs at a time.
        yes: Begin without asking.
    """
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    if seeds < 2:
        raise ValueError(f"--seeds must be at least 2: one run says nothing, got {seeds}")
    env = known_environment(env)
    contenders = {each.name: each for each in map(_contender, method)}
    names = list(contenders)
    if len(names) < 2 or len(names) < len(method):
        raise ValueError("--method must name at least two contenders, each once")
    own = any(name not in BY_NAME for name in names)
    table = has_table(env) and not own
    # where there is a table, runs without it have ids of their own
    learner = {"learner": "compiled"} if own and has_table(env) else {}
    if table:
        check_table(env)
    else:
        check_vectors(env)
    if key is not None and table:
        raise ValueError(f"--key is for environments without a table: groups of {env} are exact")
    if key is not None and not any(map(_grouped, contenders.values())):
        raise ValueError(f"none of {', '.join(names)} draws by groups: --key would do nothing")
    wanted = [
        bench_run(
            env, contenders[name], seed, table, steps=steps, **learner,
            **({"key": key} if key is not None and _grouped(contenders[name]) else {}),
        )
        for seed in range(first_seed, first_seed + seeds)
        for name in names
    ]  # fmt: skip
    for run in wanted[: len(names)]:
        assert isinstance(run.config, (TabularConfig, GymConfig))
        refuse_idle(run.config)
        if isinstance(run.config, GymConfig) and run.config.steps < 2 * run.config.eval_every_steps:
            raise ValueError(
                f"{run.config.steps:,} steps are too few for a curve: evaluations come every "
                f"{run.config.eval_every_steps:,}"
            )
    job = OWN.job(Choice(out=runs))
    todo = len(wanted) - len(store.finished(runs, wanted))
    if todo:
        took = _timed(wanted[0])
        total = duration(todo * wanted[0].config.steps * took / workers)
        say(f"{todo} runs of {wanted[0].config.steps:,} steps on {env}: some {total}, by "
            f"{took * 1e6:.0f} us a step of {names[0]}")  # fmt: skip
        if not yes and not _agreed():
            return 0
    report = carry_out(wanted, runs, new_backend("local", workers, None, job), NAME, job)
    if not report.failures:
        frame = store.load_runs(runs, [NAME])
        frame = frame.filter(frame["run"].is_in({run.id for run in wanted}))
        if frame["auc_return"].is_nan().any():
            raise ValueError(
                f"some of these runs were evaluated less than twice in {wanted[0].config.steps:,} "
                "steps, so they have no area under a curve to compare: give more --steps"
            )
        shown = [each if table else as_in_networks(each) for each in contenders.values()]
        terminal.new_console().print(_table(bench_rows(frame, shown), env))
    return finish(report, runs / NAME)


def _contender(name: str) -> Contender:
    """One of the study's, or a strategy of one's own."""
    if ":" in name:
        return Contender(name, named_method(name), "your own")
    return BY_NAME[spelt("method", name, BY_NAME)]


def _grouped(contender: Contender) -> bool:
    return bool(draws_by_siblings(contender.method))


def _timed(run: Run) -> float:
    """Seconds a step that learns, after a run that compiles what is to be compiled."""
    steps = min(_TRIAL, run.config.steps)
    assert isinstance(run.config, (TabularConfig, GymConfig))
    first = min(run.config.learning_starts, steps // 10)
    config = replace(run.config, steps=steps, learning_starts=first)
    seconds = 0.0
    for _ in range(2):
        began = time.monotonic()
        OwnJob()(config)  # keeps no checkpoint
        seconds = time.monotonic() - began
    return seconds / config.steps


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ValueError("nobody is there to ask: add --yes to begin")
    return input("begin? [y/N] ").strip().lower() in ("y", "yes")


def _table(rows: list[dict[str, str]], env: str) -> Table:
    heads = list(dict.fromkeys(head for row in rows for head in row))
    table = Table(title=f"{env}: area under the curve of greedy returns, 95 % intervals")
    for head in heads:
        table.add_column(head, no_wrap=head == "contender")
    for row in rows:
        table.add_row(*(row.get(head, "") for head in heads))
    return table

"""Rerun the paper, see how far it is, compare it with the published numbers, train your own run,
diagnose your own buffer.

Exit codes: 0 all well, 1 a run failed or the store is damaged, 2 a wrong argument, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from sibling_replay.envs import GAMES
from sibling_replay.experiments.spec import Run, custom_run, select, study
from sibling_replay.training.config import ENVIRONMENTS, METHODS, paper_config

try:
    import tyro

    from sibling_replay.experiments import display, store
    from sibling_replay.experiments.encoder_commands import vqvae
    from sibling_replay.experiments.jobs import FROM_SCRATCH, Backend, JobFunction, Resumable
    from sibling_replay.experiments.local_backend import LocalBackend
    from sibling_replay.experiments.microscope_command import diagnose
    from sibling_replay.experiments.minatar_job import MinAtarJob
    from sibling_replay.experiments.minatar_plan import MinAtarPlan
    from sibling_replay.experiments.report.command import report
    from sibling_replay.experiments.runner import Report, run_study
    from sibling_replay.experiments.study_commands import AnyStudy, Out, collect, status, table
except ImportError as error:  # pragma: no cover
    raise SystemExit(
        f"{error}: the command line needs an extra, pip install 'sibling-replay[experiments]'"
    ) from None

Env = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        aliases=("--game",),
        help=f"Only these environments, of {', '.join(ENVIRONMENTS)}; or of {', '.join(GAMES)} "
        "in `minatar` (paper: all).",
    ),
]
Method = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help=f"Only these methods, of {', '.join(METHODS)} (paper: all)."),
]
Seeds = Annotated[
    tuple[int, ...],
    tyro.conf.arg(
        help="Only these seeds (paper: 0-9; 1-10 for FrozenLake in `exact`; 0-4 in `minatar`)."
    ),
]


def reproduce(
    name: AnyStudy,
    env: Env = (),
    method: Method = (),
    seeds: Seeds = (),
    condition: tuple[Literal["clean", "mp-tail"], ...] = (),
    steps: int | None = None,
    select_lr: bool = False,
    encoders: Path | None = None,
    device: str = "cpu",
    gpu_share: float = 0.125,
    checkpoint_minutes: float = 5.0,
    workers: int = os.cpu_count() or 1,
    backend: Literal["local", "ray"] = "local",
    address: str | None = None,
    out: Out = Path("runs"),
) -> int:
    """Run what is missing of a study of the paper; rerun it after any interruption.

    exact: the main comparison, 220 runs. grid: the fixed alpha/beta sweep, 960 runs. testing: 12
    shortened runs that show whether everything works. minatar: the games, 150 runs of 5 million
    steps (about 9 core-hours each: see --game, --method, --condition, --seeds and --steps); a run
    that is interrupted goes on from its checkpoint.

    Args:
        name: Which study.
        condition: minatar: only these training rewards (paper: both).
        steps: minatar: length of each run in environment steps (paper: 5 million).
        select_lr: minatar: choose learning rates as the paper did, by AUC over its grid on the
            clean games, instead of taking the paper's.
        encoders: minatar: directory of encoders of your own for SAMPLE's groups; games that it has
            none of take the package's.
        device: minatar: cpu, or cuda, where results are not repeated bit for bit.
        gpu_share: minatar on cuda with --backend ray: part of a GPU that a run takes.
        checkpoint_minutes: minatar: between two checkpoints of a run, kept in <out>/checkpoints;
            on a cluster, <out> and --encoders must be where all nodes see them.
        workers: Runs at a time, in processes of one core each (default: this machine's cores).
            The results do not depend on it.
        backend: local: processes of this machine. ray: tasks of a Ray cluster (extra `ray`).
        address: Of a running Ray cluster, as ip:port or `auto`; without it, `--backend ray` starts
            a private one on this machine.
    """
    if address is not None and backend != "ray":
        raise ValueError("--address is of a Ray cluster: it needs --backend ray")
    if name == "minatar":
        # a node of a cluster works in another directory: the job says where, from the root
        states, own = (out / "checkpoints").resolve(), encoders and encoders.resolve()
        job = MinAtarJob(states, own, 60.0 * checkpoint_minutes, device)
        plan = MinAtarPlan(env, method, condition, seeds, steps, job)
        if backend == "local":  # nodes of a cluster may have what this machine lacks
            job.check()
        if not 0.0 < gpu_share <= 1.0:
            raise ValueError(f"--gpu-share must be in (0, 1], got {gpu_share:g}")
        gpus = gpu_share if device.startswith("cuda") else 0.0
        chosen = _backend(backend, workers, address, job, gpus)
        report = plan.carry_out(
            out, select_lr, lambda runs, title: _run(runs, out, chosen, title, job)
        )
        return _finish(report, out)
    if condition or steps is not None or select_lr:
        raise ValueError("--condition, --steps and --select-lr are for the study minatar")
    runs = select(study(name), env, method, seeds)
    return _finish(_run(runs, out, _backend(backend, workers, address, _trainer()), name), out)


def train(
    env: str,
    method: str,
    seed: int = 0,
    alpha: float | None = None,
    beta_start: float | None = None,
    beta_end: float | None = None,
    beta_updates: int | None = None,
    steps: int | None = None,
    capacity: int | None = None,
    learning_starts: int | None = None,
    learning_rate: float | None = None,
    gamma: float | None = None,
    target_interval: int | None = None,
    epsilon_start: float | None = None,
    epsilon_end: float | None = None,
    epsilon_decay_steps: int | None = None,
    eval_episodes: int | None = None,
    eval_interval: int | None = None,
    batch_size: int | None = None,
    hidden: int | None = None,
    grad_clip: float | None = None,
    update_all_siblings: bool | None = None,
    out: Out = Path("runs"),
) -> int:
    """Train one run of your own and store it; settings not given are the paper's.

    Paper's values are listed for OutlierBandit / TwoChains / FrozenLake; any other environment
    takes FrozenLake's.

    Args:
        env: OutlierBandit, TwoChains, FrozenLake-H100/H300, FrozenLake-H50, or the Gymnasium id of
            any environment with a transition table P and a time limit (e.g. FrozenLake-v1).
        method: DDQN, PER, SAMPLE, MODEL, AVG (whole groups), AVG-g2, AVG-g4 (or any AVG-gK).
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
        eval_interval: Training episodes between evaluations (paper: 500 / 100 / 20).
        batch_size: Transitions per update (paper: 32).
        hidden: Units in each of the two hidden layers (paper: 64).
        grad_clip: Largest gradient norm (paper: 10).
        update_all_siblings: AVG only: refresh every sibling used, not only the anchor
            (paper: false / true / true).
    """
    arguments = dict(locals())
    for name in ("env", "method", "seed", "out"):
        del arguments[name]
    _check_environment(env)
    overrides = {name: value for name, value in arguments.items() if value is not None}
    run = custom_run(paper_config(env, method, seed, **overrides))
    report = _run([run], out, _backend("local", 1, None, _trainer()), "train")
    if not report.failures:
        row = store.load_file(store.run_path(out, run.id)).row(0, named=True)
        for metric in ("return", "success"):
            numbers = (f"{kind} {row[f'{kind}_{metric}']:.4g}" for kind in ("auc", "late", "final"))
            display.new_console().print(f"{metric:<8} {', '.join(numbers)}", highlight=False)
    return _finish(report, store.run_path(out, run.id))


def _check_environment(env: str) -> None:
    if env in ENVIRONMENTS:
        return
    import gymnasium

    if env not in gymnasium.registry:
        raise ValueError(
            f"unknown environment {env!r}: choose from {', '.join(ENVIRONMENTS)}, "
            "or give the Gymnasium id of an environment with a table P"
        )
    if gymnasium.spec(env).max_episode_steps is None:
        raise ValueError(
            f"{env} has no time limit: a greedy policy that never ends an episode would be "
            "evaluated for ever. Register it with max_episode_steps"
        )


def _trainer() -> JobFunction:
    from sibling_replay.training.tabular import train as compiled  # slow to import: not for --help

    return compiled


def _backend(
    name: str, workers: int, address: str | None, job: JobFunction, gpus: float = 0.0
) -> Backend:
    if name == "local":
        return LocalBackend(job, workers)
    from sibling_replay.experiments.ray_backend import RayBackend

    return RayBackend(job, workers, address, gpus=gpus)


def _run(
    runs: Sequence[Run],
    out: Path,
    backend: Backend,
    title: str,
    jobs: Resumable = FROM_SCRATCH,
) -> Report:
    """Do the runs, showing progress."""
    with display.StudyDisplay(display.new_console(), title) as shown:
        return run_study(runs, out, backend, shown.observe, jobs)


def _finish(report: Report, where: Path) -> int:
    console = display.new_console()
    for failure in report.failures:
        console.print(f"\nFAILED {failure.run.id}\n{failure.error}", markup=False, highlight=False)
    counts = f"{report.done} done, {report.already} already there, {len(report.failures)} failed"
    console.print(f"{counts}: {where}", markup=False, highlight=False, soft_wrap=True)
    return 1 if report.failures else 0


def main(arguments: Sequence[str] | None = None) -> None:
    commands = {
        f.__name__: f for f in (reproduce, status, table, collect, report, train, diagnose, vqvae)
    }
    try:
        code = tyro.extras.subcommand_cli_from_dict(
            commands, prog="sibling-replay", description=__doc__, args=arguments
        )
    except KeyboardInterrupt:
        print("\ninterrupted: finished runs are kept, the same command goes on", file=sys.stderr)
        code = 130
    except (ValueError, ImportError, FileNotFoundError) as error:
        print(f"sibling-replay: {error}", file=sys.stderr)
        code = 2
    except store.StoreError as error:
        print(f"sibling-replay: {error}", file=sys.stderr)
        code = 1
    except OSError as error:  # the disk: full, read-only, a file where a folder should be
        print(f"sibling-replay: {_disk_error(error)}", file=sys.stderr)
        code = 1
    sys.exit(_flushed(code))


def _disk_error(error: OSError) -> str:
    # Our writers name their file; what has no name is what is printed.
    where = "standard output" if error.filename is None else error.filename
    return f"{where}: {error.strerror or error}; what was finished before is kept"


def _flushed(code: int) -> int:
    """Write out what was printed while an error can be told; Python's own end would show it raw."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Nothing more goes there, or the interpreter would try it once more and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0:
            print(f"sibling-replay: {_disk_error(error)}", file=sys.stderr)
        return code or 1
    return code

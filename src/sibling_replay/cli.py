"""Rerun the paper, see how far it is, compare it with the published numbers, train your own run,
diagnose your own buffer, compile ahead.

Exit codes: 0 all well, 1 a run failed or the store is damaged, 2 a wrong argument, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from sibling_replay.envs import GAMES
from sibling_replay.experiments.names import method_named, table_environment
from sibling_replay.experiments.spec import Run, custom_run, select, study
from sibling_replay.training.config import ENVIRONMENTS, METHODS, paper_config

try:
    import tyro

    from sibling_replay.experiments import display, store, terminal
    from sibling_replay.experiments.encoder_commands import vqvae
    from sibling_replay.experiments.jobs import FROM_SCRATCH, Backend, JobFunction, Resumable
    from sibling_replay.experiments.local_backend import LocalBackend
    from sibling_replay.experiments.microscope_command import diagnose
    from sibling_replay.experiments.minatar_job import MinAtarJob
    from sibling_replay.experiments.minatar_plan import MinAtarPlan
    from sibling_replay.experiments.minatar_states import STATES
    from sibling_replay.experiments.options import by_default
    from sibling_replay.experiments.report.command import report
    from sibling_replay.experiments.runner import Report, run_study
    from sibling_replay.experiments.study_commands import AnyStudy, Out, collect, status, table
    from sibling_replay.experiments.tabular_job import TabularJob
    from sibling_replay.experiments.warm_up_command import warm_up
except ImportError as error:  # pragma: no cover
    raise SystemExit(
        f"{error}: the command line needs an extra, pip install 'sibling-replay[experiments]'"
    ) from None

Env = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        aliases=("--game",),
        help=f"Only these environments, of {', '.join(ENVIRONMENTS)}; or of {', '.join(GAMES)} "
        "in `minatar`; letters in any case.",
        help_behavior_hint="(default: all)",
    ),
]
Method = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        help=f"Only these methods, of {', '.join(METHODS)}; letters in any case.",
        help_behavior_hint="(default: all)",
    ),
]
Seeds = Annotated[
    tuple[int, ...],
    tyro.conf.arg(
        help="These seeds instead of the paper's. Runs with other seeds than the paper's are kept, "
        "but are no part of the comparison with it.",
        help_behavior_hint="(default: the paper's: 0-9; 1-10 for FrozenLake in `exact`; 0-4 in "
        "`minatar`; 0 and 1 in `testing`)",
    ),
]
Conditions = Annotated[
    tuple[Literal["clean", "mp-tail"], ...], tyro.conf.arg(help_behavior_hint="(default: both)")
]
PaperFloat = Annotated[float | None, by_default("the paper's", "FLOAT")]
PaperInt = Annotated[int | None, by_default("the paper's", "INT")]
PaperBool = Annotated[bool | None, by_default("the paper's", "{True,False}")]

DEVICE, GPU_SHARE, CHECKPOINT_MINUTES = "cpu", 0.125, 5.0  # of `reproduce minatar`


def reproduce(
    name: AnyStudy,
    env: Env = (),
    method: Method = (),
    seeds: Seeds = (),
    condition: Conditions = (),
    steps: Annotated[int | None, by_default("5 million, the paper's", "INT")] = None,
    select_lr: bool = False,
    encoders: Annotated[Path | None, by_default("the package's encoders", "PATH")] = None,
    device: Annotated[str | None, by_default(DEVICE, "STR")] = None,
    gpu_share: Annotated[float | None, by_default(GPU_SHARE, "FLOAT")] = None,
    checkpoint_minutes: Annotated[float | None, by_default(CHECKPOINT_MINUTES, "FLOAT")] = None,
    keep_states: bool = True,
    workers: int = os.cpu_count() or 1,
    backend: Literal["local", "ray"] = "local",
    address: Annotated[str | None, by_default("a private Ray on this machine", "STR")] = None,
    out: Out = Path("runs"),
) -> int:
    """Run what is missing of a study of the paper; rerun it after any interruption.

    exact: the main comparison, 220 runs. grid: the fixed alpha/beta sweep, 960 runs. testing: 12
    shortened runs that show whether everything works. minatar: the games, 150 runs of 5 million
    steps (about 9 core-hours each: see --game, --method, --condition, --seeds and --steps); a run
    that is interrupted goes on from its checkpoint.

    Args:
        name: Which study.
        condition: minatar: only these training rewards.
        steps: minatar: length of each run in environment steps.
        select_lr: minatar: choose learning rates as the paper did, by AUC over its grid on the
            clean games, instead of taking the paper's.
        encoders: minatar: encoder of your own for SAMPLE's groups, or directory with at most one a
            game; games that it has none of take the package's, and the output says so.
        device: minatar: cpu, or cuda, where results are not repeated bit for bit.
        gpu_share: minatar on cuda with --backend ray: part of a GPU that a run takes.
        checkpoint_minutes: minatar: between two checkpoints of a run, kept in <out>/checkpoints;
            on a cluster, <out> and --encoders must be where all nodes see them.
        keep_states: minatar: keep the last state of each finished run in <out>/states (59 MB with a
            full replay buffer), so that a longer --steps goes on from it. Delete them as you like.
        workers: Runs at a time, in processes of one core each; if not given, as many as this
            machine has cores. The results do not depend on it.
        backend: local: processes of this machine. ray: tasks of a Ray cluster (extra `ray`).
        address: Of a running Ray cluster, as ip:port or `auto`.
    """
    of_minatar = {
        "--condition": condition,
        "--steps": steps,
        "--select-lr": select_lr,
        "--encoders": encoders,
        "--device": device,
        "--gpu-share": gpu_share,
        "--checkpoint-minutes": checkpoint_minutes,
        "--no-keep-states": not keep_states,
    }
    if address is not None and backend != "ray":
        raise ValueError("--address is of a Ray cluster: it needs --backend ray")
    if name == "minatar":
        device = DEVICE if device is None else device
        gpu_share = GPU_SHARE if gpu_share is None else gpu_share
        minutes = CHECKPOINT_MINUTES if checkpoint_minutes is None else checkpoint_minutes
        # a node of a cluster works in another directory: the job says where, from the root
        here, own = out.resolve(), encoders and encoders.resolve()
        states = here / STATES if keep_states else None
        job = MinAtarJob(here / "checkpoints", own, 60.0 * minutes, device, states)
        plan = MinAtarPlan(env, method, condition, seeds, steps, job)
        if backend == "local":  # nodes of a cluster may have what this machine lacks
            job.check()
        if not 0.0 < gpu_share <= 1.0:
            raise ValueError(f"--gpu-share must be in (0, 1], got {gpu_share:g}")
        gpus = gpu_share if device.startswith("cuda") else 0.0
        chosen = _backend(backend, workers, address, job, gpus)
        report = plan.carry_out(
            out, select_lr, lambda runs, title: _run(runs, out, chosen, title, job), _say
        )
        return _finish(report, out)
    unset = (None, False, ())  # by identity: 0 is a value
    given = [o for o, value in of_minatar.items() if not any(value is one for one in unset)]
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise ValueError(
            f"{', '.join(given)} {verb} for the study minatar: {name} has no use for it"
        )
    runs = select(study(name, seeds), env, method)
    _mention_other_seeds(name, runs)
    return _finish(_run(runs, out, _backend(backend, workers, address, _trainer()), name), out)


def _mention_other_seeds(name: str, runs: Sequence[Run]) -> None:
    others = len({run.id for run in runs} - {run.id for run in study(name)})
    if others:
        _say(
            f"{others} of these runs have seeds that are not the paper's: they are kept, and "
            "`table` and `report` leave them out of the comparison with it"
        )


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
    eval_interval: PaperInt = None,
    batch_size: PaperInt = None,
    hidden: PaperInt = None,
    grad_clip: PaperFloat = None,
    update_all_siblings: PaperBool = None,
    out: Out = Path("runs"),
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
    env, method = table_environment(env), method_named(method)
    overrides = {name: value for name, value in arguments.items() if value is not None}
    run = custom_run(paper_config(env, method, seed, **overrides))
    report = _run([run], out, _backend("local", 1, None, _trainer()), "train")
    if not report.failures:
        row = store.load_file(store.run_path(out, run.id)).row(0, named=True)
        for metric in ("return", "success"):
            numbers = (f"{kind} {row[f'{kind}_{metric}']:.4g}" for kind in ("auc", "late", "final"))
            _say(f"{metric:<8} {', '.join(numbers)}")
    return _finish(report, store.run_path(out, run.id))


def _trainer() -> JobFunction:
    return TabularJob()


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
    with display.StudyDisplay(terminal.new_console(), title) as shown:
        return run_study(runs, out, backend, shown.observe, jobs)


def _finish(report: Report, where: Path) -> int:
    for failure in report.failures:
        _say(f"\nFAILED {failure.run.id}\n{failure.error}")
    counts = f"{report.done} done, {report.already} already there, {len(report.failures)} failed"
    _say(f"{counts}: {where}")
    return 1 if report.failures else 0


def _say(text: str) -> None:
    shown = terminal.printable_lines(text)
    terminal.new_console().print(shown, markup=False, highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; without arguments it is this process's, and owns its streams and signals."""
    alone = arguments is None
    if alone:
        terminal.take_over()
    try:
        code = _command(arguments)
    except KeyboardInterrupt:
        if alone:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one changes nothing any more
        _complain("interrupted: finished runs are kept, the same command goes on", "\n")
        code = 130
    except (ValueError, ImportError, FileNotFoundError) as error:
        _complain(f"sibling-replay: {error}")
        code = 2
    except store.StoreError as error:
        _complain(f"sibling-replay: {error}")
        code = 1
    except OSError as error:  # the disk: full, read-only, a file where a folder should be
        where = "" if error.filename is None else f"{error.filename}: "
        why = error.strerror or str(error)
        _complain(f"sibling-replay: {where}{why}; what was finished before is kept")
        code = 1
    except SystemExit as stop:  # --help, or arguments that cannot be read
        code = stop.code if isinstance(stop.code, int) else 0
    if why := terminal.unwritten():
        _complain(f"sibling-replay: standard output cannot be written: {why}")
        code = code or 1
    sys.exit(code)


def _command(arguments: Sequence[str] | None) -> int:
    functions = (reproduce, status, table, collect, report, train, diagnose, vqvae, warm_up)
    commands = {f.__name__.replace("_", "-"): f for f in functions}
    return tyro.extras.subcommand_cli_from_dict(
        commands, prog="sibling-replay", description=__doc__, args=arguments
    )


def _complain(text: str, before: str = "") -> None:
    print(before + terminal.printable_lines(text), file=sys.stderr)

"""`sibling-replay reproduce`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sibling_replay.cli.carry_out import carry_out, finish, new_backend, say
from sibling_replay.cli.options import AnyStudy, Runs, by_default
from sibling_replay.cli.settings import settings_for
from sibling_replay.envs import GAMES
from sibling_replay.running.jobs import Checkable
from sibling_replay.running.runner import Tally
from sibling_replay.studies import all_studies, study_named
from sibling_replay.studies.study import Choice, Study
from sibling_replay.training.config import ENVIRONMENTS, METHODS

Env = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        aliases=("--game",),
        help=f"Only these environments of the study: {', '.join(ENVIRONMENTS)} in the paper's "
        f"exact ones, {', '.join(GAMES)} in `minatar`; `status STUDY` lists those of any other. "
        "Letters in any case.",
        help_behavior_hint="(default: all)",
    ),
]
Method = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        help="Only these methods or contenders of the study, which `status STUDY` lists: "
        f"{', '.join(METHODS)} in the paper's. In `exact`, `grid`, `minatar` and `testing` also "
        "RANK, AVG-gK for any K or a registered strategy, which the paper has not tried. Letters "
        "in any case.",
        help_behavior_hint="(default: all)",
    ),
]
Seeds = Annotated[
    tuple[int, ...],
    tyro.conf.arg(
        help="These seeds instead of the study's own. Runs with other seeds are kept, but are no "
        "part of its comparisons.",
        help_behavior_hint="(default: the study's own, as 0-9 in `grid` and `exact`, 1-10 for "
        "FrozenLake there, 0-4 in `minatar`)",
    ),
]
Conditions = Annotated[
    tuple[Literal["clean", "mp-tail"], ...], tyro.conf.arg(help_behavior_hint="(default: both)")
]
Settings = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        name="set",
        metavar="NAME=VALUE [NAME=VALUE ...]",
        help="Settings of your own for every chosen run, such as learning_rate=1e-4, hidden=128 or "
        "(minatar) tail_magnitude=60. Their ids and `table` name them, and no comparison "
        "counts them. A name that there is not is refused with the list of those there are.",
        help_behavior_hint="(default: the study's)",
    ),
]


def reproduce(
    name: AnyStudy,
    env: Env = (),
    method: Method = (),
    seeds: Seeds = (),
    condition: Conditions = (),
    set_: Settings = (),
    steps: Annotated[int | None, by_default("the study's", "INT")] = None,
    select_lr: bool = False,
    encoders: Annotated[Path | None, by_default("the package's encoders", "PATH")] = None,
    device: Annotated[str | None, by_default("cpu", "STR")] = None,
    gpu_share: Annotated[float | None, by_default(0.125, "FLOAT")] = None,
    checkpoint_minutes: Annotated[float | None, by_default(5.0, "FLOAT")] = None,
    keep_states: bool = True,
    workers: int = os.cpu_count() or 1,
    backend: Literal["local", "ray"] = "local",
    address: Annotated[str | None, by_default("a private Ray on this machine", "STR")] = None,
    runs: Runs = Path("runs"),
) -> int:
    """Run what is missing of a study; rerun it after any interruption.

    Args:
        condition: minatar, keys, pendulum, rivals-networks: only these training rewards.
        steps: Length of each run in environment steps; the same as --set steps=...
        select_lr: minatar: choose learning rates as the paper did, by AUC over its grid on the
            clean games, instead of taking the paper's.
        encoders: minatar: encoder of your own for SAMPLE's groups, or directory with at most one a
            game; games that it has none of take the package's, and the output says so.
        device: minatar: cpu, or cuda, where results are not repeated bit for bit.
        gpu_share: minatar on cuda with --backend ray: part of a GPU that a run takes.
        checkpoint_minutes: minatar: between two checkpoints of a run, kept in <runs>/checkpoints;
            on a cluster, <runs> and --encoders must be where all nodes see them.
        keep_states: minatar: keep the last state of each finished run in <runs>/states (59 MB with
            a full replay buffer), so that a longer --steps goes on from it. Delete as you like.
        workers: Runs at a time, in processes of one core each; if not given, as many as this
            machine has cores. The results do not depend on it.
        backend: local: processes of this machine. ray: tasks of a Ray cluster (extra `ray`).
        address: Of a running Ray cluster, as ip:port or `auto`.
    """
    study = study_named(name)
    if address is not None and backend != "ray":
        raise ValueError("--address is of a Ray cluster: it needs --backend ray")
    given = {
        "condition": condition or None,
        "select_lr": select_lr or None,
        "encoders": encoders,
        "device": device,
        "gpu_share": gpu_share,
        "checkpoint_minutes": checkpoint_minutes,
        "keep_states": None if keep_states else False,
    }
    options = {option: value for option, value in given.items() if value is not None}
    _refuse_unused(study, options)
    settings = settings_for(study, set_, steps)
    choice = Choice(runs, env, method, tuple(dict.fromkeys(seeds)), settings, options)
    report: Tally | None = None
    for stage in study.stages(choice):
        if isinstance(stage, str):
            say(stage)
            continue
        # nodes of a cluster may have what this machine lacks
        if backend == "local" and isinstance(stage.job, Checkable):
            stage.job.check()
        chosen = new_backend(backend, workers, address, stage.job, stage.gpus)
        report = carry_out(stage.runs, runs, chosen, stage.title, stage.job)
        if report.failures:
            break
    if report is None:  # what stands in the way has been said
        return 1
    return finish(report, runs)


def _refuse_unused(study: Study, options: Mapping[str, object]) -> None:
    """An option that changes nothing looks as if it had."""
    unused = [option for option in options if option not in study.options]
    if unused:
        users = [other.name for other in all_studies().values() if unused[0] in other.options]
        named = [
            "--no-keep-states" if o == "keep_states" else f"--{o}".replace("_", "-") for o in unused
        ]
        *others, last = users
        either = f"{', '.join(others)} or {last}" if others else last
        verb = "is" if len(unused) == 1 else "are"
        raise ValueError(
            f"{', '.join(named)} {verb} for the study {either}: {study.name} has no use for it"
        )

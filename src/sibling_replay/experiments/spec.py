"""The paper's exact-group studies as plain data: which runs there are, and what each is called.

A study is a tuple of `Run`s; a run is a readable id and a frozen `RunConfig`. Nothing here runs
anything, so a study can be listed, filtered and counted before a single step is taken.

    exact     main comparison (table "Tabular-environment metrics"): annealed beta, 220 runs
    grid      PER against SAMPLE at 16 fixed (alpha, beta) cells in 3 environments, 960 runs
    testing   a few shortened runs of the same kind, for smoke tests
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sibling_replay.experiments.names import spelt
from sibling_replay.training.config import RunConfig, paper_config
from sibling_replay.training.results import Config

STUDIES = ("exact", "grid", "testing")
CUSTOM = "train"  # runs of one's own, by `sibling-replay train`

LAKES = ("FrozenLake-H100/H300", "FrozenLake-H50")
TOY_METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG")
LAKE_METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG-g2", "AVG-g4")

EXACT_METHODS: dict[str, tuple[str, ...]] = {
    "OutlierBandit": TOY_METHODS,
    "TwoChains": TOY_METHODS,
    "FrozenLake-H100/H300": LAKE_METHODS,
    "FrozenLake-H50": LAKE_METHODS,
}
# "seeds 0-9 in Bandit and TwoChains and 1-10 in FrozenLake" (appendix on the sweep's settings)
EXACT_SEEDS: dict[str, range] = {
    env: range(1, 11) if env in LAKES else range(10) for env in EXACT_METHODS
}

GRID_ENVS = ("OutlierBandit", "TwoChains", "FrozenLake-H100/H300")
GRID_METHODS = ("PER", "SAMPLE")
GRID_ALPHAS = (0.1, 0.3, 0.6, 1.0)
GRID_BETAS = (0.0, 0.4, 0.7, 1.0)
GRID_SEEDS = range(10)

# "every 1000 steps in Bandit and TwoChains and every 2000 steps in FrozenLake" (appendix
# "Measurements across the parameter sweep"); the main comparison is measured as often
DIAGNOSTICS_EVERY: dict[str, int] = {env: 2_000 if env in LAKES else 1_000 for env in EXACT_METHODS}

# what a smoke test shortens; everything else stays the paper's
TESTING: dict[str, int] = {
    "steps": 2_000,  # environment steps
    "learning_starts": 200,  # environment steps
    "epsilon_decay_steps": 1_000,  # environment steps
    "beta_updates": 2_000,  # replay updates
    "eval_episodes": 10,
    "eval_interval": 20,  # training episodes
    "diagnostics_every": 500,  # environment steps
}
TESTING_SEEDS = (0, 1)


@dataclass(frozen=True)
class Run:
    """One job of a study. `id` is also its path below the results directory."""

    study: str
    id: str
    config: Config


def path_part(name: str) -> str:
    """An environment's name as one path component: `FrozenLake-H100/H300` holds a slash."""
    return name.replace("/", "-")


def run_id(study: str, config: Config, *settings: str) -> str:
    parts = (study, path_part(config.env), config.method, *settings, f"seed={config.seed}")
    return "/".join(parts)


def own_settings(config: RunConfig) -> list[str]:
    """The settings of a run that are not the paper's, as `name=value`."""
    paper = paper_config(config.env, config.method, config.seed)
    return [
        f"{f.name}={getattr(config, f.name)}"
        for f in fields(RunConfig)
        if getattr(config, f.name) != getattr(paper, f.name)
    ]


def custom_run(config: RunConfig) -> Run:
    """A run of one's own. Its id names every setting that is not the paper's."""
    return Run(CUSTOM, run_id(CUSTOM, config, *own_settings(config)), config)


def _exact(seeds: Sequence[int]) -> Iterable[Run]:
    for env, methods in EXACT_METHODS.items():
        for method in methods:
            for seed in seeds or EXACT_SEEDS[env]:
                config = paper_config(env, method, seed, diagnostics_every=DIAGNOSTICS_EVERY[env])
                yield Run("exact", run_id("exact", config), config)


def _grid(seeds: Sequence[int]) -> Iterable[Run]:
    for env in GRID_ENVS:
        for method in GRID_METHODS:
            for alpha in GRID_ALPHAS:
                for beta in GRID_BETAS:
                    for seed in seeds or GRID_SEEDS:
                        config = paper_config(
                            env,
                            method,
                            seed,
                            alpha=alpha,
                            beta_start=beta,
                            beta_end=beta,
                            diagnostics_every=DIAGNOSTICS_EVERY[env],
                        )
                        cell = (f"alpha={alpha:g}", f"beta={beta:g}")
                        yield Run("grid", run_id("grid", config, *cell), config)


def _testing(seeds: Sequence[int]) -> Iterable[Run]:
    for env in GRID_ENVS:
        for method in GRID_METHODS:
            for seed in seeds or TESTING_SEEDS:
                config = paper_config(env, method, seed, **TESTING)
                yield Run("testing", run_id("testing", config), config)


_BUILDERS: dict[str, Callable[[Sequence[int]], Iterable[Run]]] = {
    "exact": _exact,
    "grid": _grid,
    "testing": _testing,
}


def study(name: str, seeds: Sequence[int] = ()) -> tuple[Run, ...]:
    """Every run of a study, in the paper's order: with the paper's seeds, or with those given."""
    if name not in _BUILDERS:
        raise ValueError(f"unknown study {name!r}: choose from {', '.join(_BUILDERS)}")
    return tuple(_BUILDERS[name](tuple(dict.fromkeys(seeds))))


def select(
    runs: Iterable[Run],
    envs: Iterable[str] = (),
    methods: Iterable[str] = (),
    seeds: Iterable[int] = (),
    conditions: Iterable[str] = (),
) -> tuple[Run, ...]:
    """The runs that match every given filter; an empty filter lets everything pass.

    Names are matched in any case. A value that no run of the study has is refused: a misspelt name
    must not select nothing. A combination that no run has (AVG on FrozenLake) is refused too, for
    the same reason.
    """
    runs = tuple(runs)
    chosen = runs
    filters: tuple[tuple[str, tuple[Any, ...], str], ...] = (
        ("environment", tuple(envs), "env"),
        ("method", tuple(methods), "method"),
        ("seed", tuple(seeds), "seed"),
        ("condition", tuple(conditions), "condition"),
    )
    for what, wanted, field in filters:
        if wanted:
            choices = list(dict.fromkeys(getattr(run.config, field, "none") for run in runs))
            found = [spelt(what, value, choices, " in this study") for value in wanted]
            chosen = tuple(run for run in chosen if getattr(run.config, field) in found)
    if not chosen:
        raise ValueError("the filters together leave no run: no run has that combination")
    return chosen

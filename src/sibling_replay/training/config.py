"""What a run is: every number that decides its result, frozen, and the paper's numbers as data.

A run is a pure function of its config. `paper_config` fills one with the settings of the
paper (table `tab:grid-settings`, appendix "Priority updates"); anything can be overridden.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from sibling_replay.envs import SHORT_NAMES
from sibling_replay.strategies import registered
from sibling_replay.strategies.registry import find_strategy
from sibling_replay.training.interaction import refuse_unknown_signals
from sibling_replay.training.losses import loss_named
from sibling_replay.training.settings import LearningSettings, at_least, require
from sibling_replay.training.tabular.rules import rule_of

C = TypeVar("C", bound="RunConfig")

METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG", "AVG-g2", "AVG-g4")
"""The methods the paper names. Any other `AVG-gK` is understood, and those of `RIVALS`."""

ENVIRONMENTS = {
    "OutlierBandit": "sibling_replay/OutlierBandit-v0",
    "TwoChains": "sibling_replay/TwoChains-v0",
    "FrozenLake-H100/H300": "sibling_replay/FrozenLakeH100-v0",
    "FrozenLake-H50": "sibling_replay/FrozenLakeH50-v0",
}
"""The paper's names of its tabular environments, and the ids Gymnasium knows them by."""

RIVALS = {
    "RANK": "RankBased",
    "LAP": "LAP",
    "RELO": "ReLo",
    "LABER": "LaBER",
    "SER": "Stratified",
    "EPER": "ExpectedTD",
    "GROUP": "GroupPrioritized",
    "CV": "ControlVariate",
    "CER": "Combined",
    "AGE": "AgeDecayed",
}
"""Short names of strategies that the paper does not have."""

_METHOD = re.compile(rf"DDQN|PER|SAMPLE|MODEL|AVG|AVG-g([1-9][0-9]*)|{'|'.join(RIVALS)}")
_AVERAGE = re.compile(r"AVG(-g[1-9][0-9]*)?")
_PLACE = re.compile(r"[\w.]+:\w+")  # module:Class; to read one imports nothing


def averages(method: str) -> bool:
    """Whether it is AVG, over whole groups or subsets."""
    return _AVERAGE.fullmatch(method) is not None


def usual_alpha(method: str) -> float:
    """The paper's exponent for its own methods, and for others what the strategy itself has."""
    known = registered().get(RIVALS.get(method, method))
    kind = find_strategy(method) if ":" in method else known
    return RunConfig.alpha if kind is None else float(kind().alpha)


def gym_id(env: str) -> str:
    """The Gymnasium id of an environment named as in the paper or by a short name of ours, with
    the parameters after it; other names are ids already."""
    name, comma, parameters = env.partition(",")
    return (ENVIRONMENTS.get(name) or SHORT_NAMES.get(name, name)) + comma + parameters


def subset_size(method: str) -> int | None:
    """K of `AVG-gK` (eq. 12); None for every other method, AVG over whole groups included."""
    match = _METHOD.fullmatch(method)
    if match is None and method not in registered() and not _PLACE.fullmatch(method):
        raise ValueError(
            f"unknown method {method!r}: expected one of {', '.join(METHODS)}, the name of a "
            f"registered strategy ({', '.join(sorted(registered()))}), or its place as module:Class"
        )
    return int(match.group(1)) if match and match.group(1) else None


def options_of(text: str) -> dict[str, str]:
    """Options of a strategy by name, from `name=value, name=value`."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value) or name in found:
            raise ValueError(f"options are name=value, ..., each once, not {text!r}")
        found[name] = value
    return found


def refuse_unused_options(text: str, normalize: str | None) -> None:
    """Of the compiled trainer, which has one way to normalise, the strategy's usual one, and one
    for newcomers to start."""
    only = {"normalize": str(normalize).lower(), "initial": "largest"}
    for name, value in options_of(text).items():
        usual = only.get(name, value)
        if value.lower() != usual.lower():
            raise ValueError(f"the compiled trainer has {name}={usual} alone, not {value!r}")


CONFIGS: dict[str, type[RunConfig]] = {}
"""Every trainer's own kind of config, by name."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(LearningSettings):
    """One training run, as far as all trainers agree. Steps are environment steps unless the
    comment says otherwise.

    A trainer's own settings are fields of a subclass, whose `kind` the store writes beside them.
    """

    kind: ClassVar[str] = "run"
    # Names in run ids and checkpoints, in that order: they never change, whatever a field is called
    # today. Fields that are not here are younger, and stand there only if they are set.
    first_names: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[Mapping[str, str]] = {}  # first name -> field

    env: str
    method: str  # one of `METHODS`, or the name of a registered strategy
    seed: int
    steps: int
    eval_episodes: int = 10  # episodes per evaluation
    alpha: float = 0.6
    options: str = ""  # of the strategy beside alpha, as in "every=500, normalize=buffer"
    diagnostics_every: int = 0  # steps; 0 = off

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        CONFIGS[cls.kind] = cls

    def __post_init__(self) -> None:
        require(self, "env", bool(self.env), "the name of an environment")
        subset_size(self.method)  # refuses a method that there is not
        at_least(self, 1, "steps", "eval_episodes")
        at_least(self, 0, "seed", "diagnostics_every")
        require(self, "alpha", 0 <= self.alpha < math.inf, "non-negative and finite")
        options_of(self.options)  # refuses what is none
        super().__post_init__()

    @property
    def label(self) -> str:
        """What to call the run where a name is wanted; other runs may have the same."""
        return f"{self.env.replace('/', '-')}-{self.method}-seed{self.seed}"

    def written(self) -> dict[str, Any]:
        """The settings under their first names, and younger ones that are set."""
        first = {name: getattr(self, self.renamed.get(name, name)) for name in self.first_names}
        known = {self.renamed.get(name, name) for name in self.first_names}
        younger = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in known and getattr(self, field.name) != field.default
        }
        return first | younger

    @classmethod
    def of_written(cls: type[C], settings: Mapping[str, Any]) -> C:
        """The config whose `written` that is."""
        return cls(**{cls.renamed.get(name, name): value for name, value in settings.items()})


@dataclass(frozen=True, kw_only=True)
class TabularConfig(RunConfig):
    """A run of the compiled trainer, on an environment with a transition table."""

    kind = "tabular"
    first_names = (
        "env", "method", "seed", "steps", "capacity", "learning_starts", "learning_rate", "gamma",
        "target_interval", "epsilon_start", "epsilon_end", "epsilon_decay_steps", "eval_episodes",
        "eval_interval", "beta_updates", "alpha", "beta_start", "beta_end", "batch_size", "hidden",
        "grad_clip", "max_siblings", "update_all_siblings", "diagnostics_every",
    )  # fmt: skip
    renamed: ClassVar[Mapping[str, str]] = {"eval_interval": "eval_every_episodes"}

    eval_every_episodes: int = 20  # training episodes between evaluations
    hidden: int = 64  # units in each of the two hidden layers
    max_siblings: int | None = None  # K of AVG-gK; None averages whole groups
    update_all_siblings: bool = False  # AVG: refresh every sibling used, not only the anchor
    loss: str = "mse"  # or huber, huber:K, pal, pal:ALPHA
    updates_a_step: int = 1
    n_steps: int = 1  # that an outcome covers at most
    through_time_limits: bool = False  # targets bootstrap where a time limit cut an episode off
    eval_mean_rewards: bool = False  # evaluations pay mean rewards: as much on average, less noise

    def updates_after(self, step: int) -> int:
        return self.updates_a_step * super().updates_after(step)

    def __post_init__(self) -> None:
        super().__post_init__()
        size = subset_size(self.method)
        if self.max_siblings != size:
            raise ValueError(
                f"max_siblings={self.max_siblings} does not fit method {self.method!r}, "
                f"which means max_siblings={size}"
            )
        if self.update_all_siblings and not averages(self.method):
            raise ValueError(f"update_all_siblings is for AVG; the method is {self.method!r}")
        at_least(self, 1, "hidden", "eval_every_episodes", "updates_a_step", "n_steps")
        require(self, "n_steps", self.n_steps <= self.capacity, "at most the capacity")
        loss_named(self.loss)  # refuses what is none
        kind = registered().get(RIVALS.get(self.method, self.method))
        refuse_unused_options(self.options, "batch" if kind is None else kind().normalize)
        if ":" in self.method or (kind is not None and rule_of(kind()) is None):
            if kind is not None:
                refuse_unknown_signals(kind())  # DQN does not give them, either
            raise ValueError(
                f"{self.method} is written in NumPy, and the trainer of tables takes built-in "
                "strategies: train it by DQN (on the command line --learner compiled), on MinAtar, "
                "or in your own loop or host"
            )


# Table `tab:grid-settings`. The main comparison anneals beta over as many replay updates as there
# are steps; H50 uses the FrozenLake column. Other tabular environments borrow that column too.
_FROZEN_LAKE: dict[str, Any] = {
    "steps": 500_000,
    "capacity": 50_000,
    "learning_starts": 5_000,
    "learning_rate": 3e-3,
    "gamma": 0.99,
    "target_interval": 1_000,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_decay_steps": 500_000,
    "eval_episodes": 50,
    "eval_every_episodes": 20,
    "beta_updates": 500_000,
}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "OutlierBandit": {
        "steps": 50_000,
        "capacity": 5_000,
        "learning_starts": 500,
        "learning_rate": 7.5e-4,
        "gamma": 0.0,
        "target_interval": 500,
        "epsilon_start": 1.0,
        "epsilon_end": 0.02,
        "epsilon_decay_steps": 10_000,
        "eval_episodes": 500,
        "eval_every_episodes": 500,
        "beta_updates": 50_000,
    },
    "TwoChains": {
        "steps": 100_000,
        "capacity": 5_000,
        "learning_starts": 1_000,
        "learning_rate": 7.5e-4,
        "gamma": 0.99,
        "target_interval": 1_000,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_decay_steps": 50_000,
        "eval_episodes": 200,
        "eval_every_episodes": 100,
        "beta_updates": 100_000,
    },
    "FrozenLake-H100/H300": _FROZEN_LAKE,
    "FrozenLake-H50": _FROZEN_LAKE,
}

# Appendix "Priority updates": AVG refreshes the anchor alone in Bandit, every sibling elsewhere.
_ANCHOR_ONLY = ("OutlierBandit",)


def paper_config(env: str, method: str, seed: int, **overrides: Any) -> TabularConfig:
    """The paper's run of `method` on `env`, annealed beta; keyword arguments replace settings.

    An environment the paper does not have gets the FrozenLake column.
    """
    settings: dict[str, Any] = dict(PAPER_SETTINGS.get(env, _FROZEN_LAKE))
    settings["max_siblings"] = subset_size(method)
    settings["update_all_siblings"] = averages(method) and env not in _ANCHOR_ONLY
    settings["alpha"] = usual_alpha(method)
    unknown = sorted(set(overrides) - set(TabularConfig.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    settings.update(overrides)
    return TabularConfig(env=env, method=method, seed=seed, **settings)

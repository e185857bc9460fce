"""Every way to replay, side by side, under noise and without. Declared before the first run.

Contenders (`CONTENDERS`): each with the settings and the loss that its authors give, and controls:
uniform replay with twice the batch and with two updates a step, which cost as much as averages do;
with Huber's loss, which LAP and ReLo have; and with one draw from each of as many stretches of the
ring as the batch has rows, as averages draw their anchors. Environments: those of the bench and the
paper's (`ENVS`), settings per environment the same for every contender, but for the learning rate:
each contender has, in each environment, the one of three (a third of the environment's own, that,
three times that) with the largest mean AUC on seeds 900-904. Then 20 seeds, 1000-1019, used nowhere
before. Evaluations pay mean rewards, so that the noise of an environment is not also in the score.

A score is the area under the curve of greedy returns. The estimand of every hypothesis is the mean,
over its environments, of the paired difference in score, in units of the standard deviation that
DDQN has over seeds there, but at least a hundredth of DDQN's mean (`artefacts.gains`: on
OutlierBandit nearly all seeds are at the ceiling, and that deviation is the luck of a few);
intervals and one-sided p-values by a bootstrap over seeds, stratified by environment, 10,000
resamples, and Holm's correction over the four that are tested. The level is 0.05. One environment
must not carry a result: a hypothesis holds only if its mean is also above zero when any one of its
environments is left out.

    H1  Whole-group averages with uniform anchors are above DDQN over the stochastic environments.
    H2  SAMPLE is above PER over the environments with tails (`TAILS`).
    H3  Rescored group priorities are above averages with uniform anchors where there are more than
        a thousand groups.
    H4  The control variate (lambda 0.5) keeps at least half of what H1's averages gain over DDQN
        over the stochastic environments, at the cost of one target a row. Asked only if H1 holds:
        else there is no gain to keep.
    H5  No contender is above DDQN on every environment: its mean difference is above zero in all.
        This is a count, and not tested.

In how many environments a gain is above zero, and its median over them, stand beside every mean.
ConalBandit's arms are all worth the same: it is there for the error of values, runs with its own
learning rate, and is part of no comparison of returns.

Advice: in each situation the contender of largest gain among those shown to be above DDQN (Holm's
correction over all contenders of that situation, and above zero without any one environment). Its
interval is that of one comparison, so the largest of many is flattered; situations overlap, and are
not corrected for each other; what is shown is shown in these environments.

Neutral ground: the settings of the bench's own environments were chosen by what DDQN does on seeds
50-52, with PER watched beside it, and PER was seen to do badly on PortalBridge and ShortcutMaze. So
these two are no part of H2; two environments are in which no method had been seen when this was
written, Chain and FrozenLake 4x4 with a mean-preserving tail on every reward, and H2 over these two
alone stands beside it. On the paper's three, PER and SAMPLE are known from the paper and our rerun
of it (other seeds; on the lake, other lengths).

What else had been seen. Prototypes on seeds 0-9 (throw-away code; averages with uniform anchors,
PER, SAMPLE and rescored groups on seven of these environments) and seeds 200-211 gave H1 to H4. To
try the machinery, every contender but LABER once, with seed 3, on ConalBandit and FrozenLake 4x4
(where averages came out ahead), the shortlist of `sibling-replay bench` for 5,000 steps on
NoisyGridworld, seeds 0-2, and six contenders once on every environment with seed 77, of which only
the time was looked at. Changed after that, and before any run of the study, on the word of an
independent reader of this file: RANK gives refreshed entries their rank at once; ReLo has Huber's
loss; GROUP-neyman goes by present errors between rescorings, too; the controls for loss and
stratified draws came in; the least unit and leaving out one environment; evaluations by mean
rewards; ConalBandit's part; TwoChains among the tails. Of the runs that choose learning rates, 30
had been started with the older declaration and 171 with this one, to see that they go on; nothing
but their time was looked at, and they were thrown away.

Known limits: DDQN's own learning rate is one choice, by five seeds, that all comparisons share.
EPER's mean is over the errors that its entries had when they were last replayed. Environments that
share a seed and a size also share initial weights, and the bootstrap takes them as independent.

Beside the score: the mean return of the last fifth of a run, the error of values against the exact
Q*, the entropy of what is replayed over groups, and how far replay within groups is tilted from
what came. The cost of a step is in `benchmarks/train.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sibling_replay.running.runs import Run, run_id, select, spelt
from sibling_replay.studies.rivals.settings import SETTINGS, settings_of
from sibling_replay.studies.study import Choice
from sibling_replay.training.config import TabularConfig, paper_config
from sibling_replay.training.methods import check_options

NAME, RATE_NAME = "rivals", "rivals-rates"
SEEDS, RATE_SEEDS = range(1000, 1020), range(900, 905)
FACTORS = (1 / 3, 1.0, 3.0)  # of the environment's learning rate
LOOKS = 4  # at the replay of a run, evenly spaced


@dataclass(frozen=True)
class Contender:
    """A way to replay: a method and its settings."""

    name: str
    method: str
    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)


def _options(**options: Any) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())


CONTENDERS = (
    Contender("DDQN", "DDQN", "uniform replay"),
    Contender("DDQN-batch64", "DDQN", "uniform, batch of 64", {"batch_size": 64}),
    Contender("DDQN-2updates", "DDQN", "uniform, two updates a step", {"updates_a_step": 2}),
    Contender("DDQN-huber", "DDQN", "uniform with Huber's loss", {"loss": "huber"}),
    Contender("DDQN-stratified", "PER", "uniform, one from each stretch of the ring",
              {"alpha": 0.0}),
    Contender("PER", "PER", "proportional PER", {"alpha": 0.6}),
    Contender("RANK", "RANK", "rank-based PER",
              {"alpha": 0.7, "beta_start": 0.5, "options": _options(every=1000)}),
    Contender("LAP", "LAP", "LAP with Huber's loss", {"alpha": 0.4, "loss": "huber"}),
    Contender("PAL", "DDQN", "uniform with PAL's loss", {"loss": "pal:0.4"}),
    Contender("RELO", "RELO", "reducible loss, with Huber's",
              {"alpha": 0.6, "loss": "huber", "options": _options(of="huber")}),
    Contender("LABER", "LABER", "large batch, then by error"),
    Contender("SER", "SER", "uniform over groups"),
    Contender("EPER", "EPER", "PER by the group's mean error", {"alpha": 0.6}),
    Contender("SAMPLE", "SAMPLE", "PER, then a uniform sibling", {"alpha": 0.6}),
    Contender("AVG", "AVG", "PER, mean target of the group", {"alpha": 0.6}),
    Contender("AVG-uniform", "AVG", "uniform, mean target of the group",
              {"alpha": 0.0, "update_all_siblings": False}),
    Contender("GROUP-mean", "GROUP", "groups by |mean error|, rescored, mean target",
              {"alpha": 1.0, "options": _options(score="mean", trains="average",
                                                 rescore_every=10)}),
    Contender("GROUP-neyman", "GROUP", "groups by Neyman's rule for one sibling",
              {"alpha": 1.0, "options": _options(score="neyman", trains="sibling",
                                                 rescore_every=10)}),
    Contender("CV", "CV", "uniform, control variate within the group",
              {"alpha": 0.0, "options": _options(lam=0.5)}),
    Contender("CER", "CER", "uniform and the newest"),
    Contender("AGE", "AGE", "younger ones more often"),
    Contender("DDQN-3step", "DDQN", "uniform, outcomes of three steps", {"n_steps": 3}),
)  # fmt: skip
BY_NAME = {each.name: each for each in CONTENDERS}

# The paper's environments with its settings, but for a shorter lake.
PAPER_ENVS: dict[str, dict[str, Any]] = {
    "OutlierBandit": {},
    "TwoChains": {},
    "FrozenLake-H100/H300": {
        "steps": 150_000,
        "epsilon_decay_steps": 150_000,
        "beta_updates": 150_000,
    },
}
UNSEEN_TAILS = ("Chain,reward_noise=tail-5", "FrozenLake-v1,map_name=4x4,reward_noise=tail-5")
ENVS = (*PAPER_ENVS, *SETTINGS, *UNSEEN_TAILS)
ALL_EQUAL = ("ConalBandit",)  # all arms are worth the same: returns are chance, values are not
COMPARED = tuple(env for env in ENVS if env not in ALL_EQUAL)
DETERMINISTIC = ("BlindCliffWalk", "Chain")
STOCHASTIC = tuple(env for env in COMPARED if env not in DETERMINISTIC)
TAILS = (*PAPER_ENVS, *UNSEEN_TAILS)
RARE = (*TAILS, "PortalBridge", "ShortcutMaze")  # rare, large outcomes
MANY_GROUPS = tuple(env for env in ENVS if "Taxi" in env)

Rates = Mapping[tuple[str, str], float]  # (environment, contender) -> learning rate
NO_RATES: Rates = {}


def contender_config(env: str, contender: Contender, seed: int, **others: Any) -> TabularConfig:
    """A run with the environment's own learning rate, unless another is given."""
    own = PAPER_ENVS[env] if env in PAPER_ENVS else settings_of(env) or {}
    given = {"eval_mean_rewards": True, **own, **contender.settings, **others}
    config = paper_config(env, contender.method, seed, **given)
    # beta is annealed over updates: with several a step, over as many steps as with one
    return replace(config, beta_updates=config.beta_updates * config.updates_a_step)


def rate_runs(choice: Choice) -> tuple[Run, ...]:
    """Every contender with every rate, in every environment in which there is a choice to make."""
    if "learning_rate" in choice.settings:
        raise ValueError(f"learning_rate: {RATE_NAME} is there to choose it")
    runs = _runs(RATE_NAME, choice, choice.seeds or RATE_SEEDS, FACTORS, NO_RATES)
    return tuple(run for run in runs if run.config.env not in ALL_EQUAL)


def main_runs(choice: Choice, rates: Rates = NO_RATES) -> tuple[Run, ...]:
    """With the rates chosen; their ids do not name these."""
    return _runs(NAME, choice, choice.seeds or SEEDS, (1.0,), rates)


def _runs(
    study: str, choice: Choice, seeds: Any, factors: tuple[float, ...], rates: Rates
) -> tuple[Run, ...]:
    envs = [spelt("environment", env, ENVS, " in this study") for env in choice.envs] or ENVS
    wanted = [spelt("method", name, BY_NAME, " in this study") for name in choice.methods]
    found = []
    for seed in seeds:  # so that whatever is done is balanced
        for env in envs:
            for name in wanted or BY_NAME:
                own = contender_config(env, BY_NAME[name], seed).learning_rate
                for factor in factors:
                    rate = rates.get((env, name), factor * own)
                    found.append(contender_run(study, env, BY_NAME[name], seed, rate, choice))
    return select(found)


def contender_run(
    study: str, env: str, contender: Contender, seed: int, rate: float | None, choice: Choice
) -> Run:
    """With the environment's own learning rate if none is given."""
    config = contender_config(env, contender, seed)
    if rate is not None:
        config = replace(config, learning_rate=rate)
    config = replace(config, **choice.settings)
    if "diagnostics_every" not in choice.settings:
        config = replace(config, diagnostics_every=max(config.steps // LOOKS, 1))
    check_options(config)
    cell = [contender.name] + ([f"rate={rate:.3g}"] if study == RATE_NAME else [])
    cell += [f"{name}={value}" for name, value in choice.settings.items()]
    return Run(study, run_id(study, config, *cell), config)

"""Does the correction help where observations never repeat? Declared before it was run.

Environments: CartPole-v1 and Acrobot-v1, clean and with a mean-preserving tail (p = 0.02, M = 30)
on every reward. Replay: uniform, PER, SAMPLE with `Auto`, SAMPLE with `Grid(4)`. Learner: SB3's DQN
as `SiblingDQN`, squared loss, double Q, 25,000 steps, with the settings below, the same for all.
Seeds: 100-109, used nowhere before. Scores: area under the curve of greedy returns in the clean
environment, ten episodes every 1,000 steps.

Hypotheses, of each environment by itself:

    H1  Under the tail, SAMPLE with Auto is above PER: the 95 % paired t interval of the difference
        in AUC, over the ten seeds, lies above zero.
    H2  SAMPLE with Auto replays the rare outcome at most 1.2 times as often as it is stored: R,
        averaged over the evaluations of the second half of a run, then over seeds.
    H3  On clean rewards the mean AUC of SAMPLE with Auto is at least 90 % of PER's; where returns
        are negative, no more than a tenth of PER's below it.

How newcomers start is an ablation, under the tail, with Auto: at the largest priority of late or at
the median, instead of the largest ever (the paper's). Paired 95 % intervals against the largest
ever, not corrected for their number: descriptive.

Pixels: MinAtar's SpaceInvaders under the tail, 200,000 steps, seeds 0 and 1, SAMPLE with
`KMeans(256)` of the pixels beside PER and SAMPLE with the shipped VQ-VAE, which have been run.
Descriptive: no interval is claimed of two seeds. They are runs of the study `minatar`:

    sibling-replay reproduce minatar --game SpaceInvaders --condition mp-tail --method SAMPLE \
        --seeds 0 1 --steps 200000 --set key=kmeans:256
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sibling_replay.running.runs import Run, select, spelt
from sibling_replay.studies.study import Choice, chosen_run
from sibling_replay.training.gym_config import GymConfig

NAME = "keys"
SEEDS = range(100, 110)
_SHARED: dict[str, Any] = {
    "learner": "sb3",
    "steps": 25_000,
    "beta_updates": 25_000,
    "capacity": 50_000,
    "learning_starts": 1_000,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        **_SHARED,
        "learning_rate": 1e-3,
        "target_interval": 500,
        "epsilon_decay_steps": 5_000,
    },
    # as rl-zoo3 has it: smaller networks and batches had not settled by the end of uniform replay
    "Acrobot-v1": {
        **_SHARED,
        "learning_rate": 6.3e-4,
        "target_interval": 250,
        "epsilon_decay_steps": 12_000,
        "epsilon_end": 0.1,
        "batch_size": 128,
        "hidden_layers": "256-256",
        "train_every": 4,
        "updates_a_round": 4,
    },
}
ENVS = tuple(SETTINGS)
REPLAY = ("key", "initial")  # settings of sibling strategies


@dataclass(frozen=True)
class Replay:
    """A way to replay, in words and as settings."""

    words: str
    method: str
    key: str = ""
    initial: str = "largest"


UNIFORM = Replay("uniform", "DDQN")
PER = Replay("PER", "PER")
AUTO = Replay("SAMPLE, auto", "SAMPLE", "auto")
GRID = Replay("SAMPLE, grid:4", "SAMPLE", "grid:4")
STARTS = tuple(
    Replay(f"SAMPLE, auto, {words}", "SAMPLE", "auto", initial)
    for words, initial in (("newcomers as the largest of late", "recent"),
                           ("newcomers at the median", "median"))
)  # fmt: skip

REPLAYS = {"mp-tail": (UNIFORM, PER, AUTO, GRID, *STARTS), "clean": (UNIFORM, PER, AUTO, GRID)}


PIXEL_FRAME = "keys-pixels"
PIXEL_COMMAND = (
    "sibling-replay reproduce minatar --game SpaceInvaders --condition mp-tail --method SAMPLE "
    "--seeds 0 1 --steps 200000 --set key=kmeans:256"
)
PIXELS = (
    ("PER", "PER", ""),
    ("SAMPLE, VQ-VAE", "SAMPLE", ""),
    ("SAMPLE, kmeans:256 of pixels", "SAMPLE", "kmeans:256"),
)


def with_annealing(choice: Choice) -> Choice:
    """With beta annealed over all steps of a run, however many are chosen: SB3 does so."""
    if "steps" not in choice.settings:
        return choice
    settings = {"beta_updates": choice.settings["steps"], **choice.settings}
    return replace(choice, settings=settings)


def declared_runs(choice: Choice) -> tuple[Run, ...]:
    """Those chosen; a map or start of one's own takes the place of the study's."""
    own = {name: choice.settings[name] for name in REPLAY if name in choice.settings}
    rest = {name: value for name, value in choice.settings.items() if name not in REPLAY}
    others = with_annealing(replace(choice, settings=rest))
    found: dict[str, Run] = {}
    conditions = choice.options.get("condition") or REPLAYS
    for env in _named(choice.envs):
        for seed in choice.seeds or SEEDS:
            for condition in conditions:
                for replay in REPLAYS[condition]:
                    run = _run(env, condition, replay, seed, others, own)
                    found[run.id] = run
    return select(found.values(), methods=choice.methods)


def _named(envs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(spelt("environment", env, ENVS, " in this study") for env in envs) or ENVS


def _run(
    env: str, condition: str, replay: Replay, seed: int, choice: Choice, own: dict[str, Any]
) -> Run:
    of_replay = {name: getattr(replay, name) for name in REPLAY}
    grouped = replay.method == "SAMPLE"
    settings = {**SETTINGS[env], **of_replay, **(own if grouped else {})}
    usual = GymConfig(env=env, method=replay.method, seed=seed, condition=condition, **settings)
    cell = [f"{name}={settings[name]}" for name in REPLAY] if grouped else []
    return chosen_run(NAME, usual, choice, condition, *cell)

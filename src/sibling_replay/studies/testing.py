"""A few shortened runs of the paper's kind: whether everything works."""

from __future__ import annotations

from sibling_replay.running.runs import Run, select
from sibling_replay.studies.grid import ENVS, METHODS
from sibling_replay.studies.study import Choice, chosen_run
from sibling_replay.studies.tabular import TabularStudy
from sibling_replay.training.config import paper_config

NAME = "testing"
# what a smoke test shortens; everything else stays the paper's
SHORTENED: dict[str, int] = {
    "steps": 2_000,  # environment steps
    "learning_starts": 200,  # environment steps
    "epsilon_decay_steps": 1_000,  # environment steps
    "beta_updates": 2_000,  # replay updates
    "eval_episodes": 10,
    "eval_every_episodes": 20,  # training episodes
    "diagnostics_every": 500,  # environment steps
}
SEEDS = (0, 1)


class TestingStudy(TabularStudy):
    """12 runs of some seconds."""

    name = NAME
    about = "12 shortened runs that show whether everything works"

    def runs(self, choice: Choice) -> tuple[Run, ...]:
        found = []
        for env in ENVS:
            for method in choice.methods_of(METHODS):
                for seed in choice.seeds or SEEDS:
                    usual = paper_config(env, method, seed, **SHORTENED)
                    found.append(chosen_run(NAME, usual, choice))
        return select(found, choice.envs, choice.methods)


STUDIES = (TestingStudy(),)

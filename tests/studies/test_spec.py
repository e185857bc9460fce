"""The studies are the paper's: counts, settings, names."""

from __future__ import annotations

from collections import Counter

import pytest

from sibling_replay.running.runs import select
from sibling_replay.studies.own import own_run as custom_run
from sibling_replay.studies.testing import SHORTENED as TESTING
from sibling_replay.training.config import paper_config
from support.studies import study


def test_counts_are_the_papers():
    exact, grid = study("exact"), study("grid")
    assert len(grid) == 960 == 2 * 4 * 4 * 3 * 10
    assert len(exact) == 2 * 5 * 10 + 2 * 6 * 10
    assert Counter(run.config.env for run in exact) == {
        "OutlierBandit": 50,
        "TwoChains": 50,
        "FrozenLake-H100/H300": 60,
        "FrozenLake-H50": 60,
    }


STUDIES = ("exact", "grid", "testing")


@pytest.mark.parametrize("name", STUDIES)
def test_ids_are_unique_relative_paths(name):
    runs = study(name)
    ids = [run.id for run in runs]
    assert len(set(ids)) == len(set(run.config for run in runs)) == len(ids)
    # no id may be a prefix directory of another, and none may climb out of the results directory
    for run in ids:
        assert run.startswith(f"{name}/")
        assert all(part and part not in (".", "..") for part in run.split("/"))
        assert not set(run) & set('\\:*?"<>| ')
    depth = {len(run.split("/")) for run in ids}
    assert len(depth) == 1


def test_readable_ids():
    ids = {run.id for name in STUDIES for run in study(name)}
    assert "grid/TwoChains/SAMPLE/alpha=0.6/beta=0.4/seed=7" in ids
    assert "grid/FrozenLake-H100-H300/PER/alpha=1/beta=0/seed=0" in ids
    assert "exact/FrozenLake-H50/AVG-g4/seed=10" in ids


def test_seeds_and_beta():
    for run in study("exact"):
        lake = run.config.env.startswith("FrozenLake")
        assert run.config.seed in (range(1, 11) if lake else range(10))
        assert (run.config.alpha, run.config.beta_start, run.config.beta_end) == (0.6, 0.4, 1.0)
    for run in study("grid"):
        assert run.config.beta_start == run.config.beta_end
        assert run.config.seed in range(10)


def test_testing_study_differs_only_in_length():
    for run in study("testing"):
        config = run.config
        assert config == paper_config(config.env, config.method, config.seed, **TESTING)
        assert config.steps <= 2_000


def test_select():
    runs = study("exact")
    chosen = select(runs, ["TwoChains"], ["PER", "AVG"], [3, 4])
    assert [run.id for run in chosen] == [
        "exact/TwoChains/PER/seed=3",
        "exact/TwoChains/PER/seed=4",
        "exact/TwoChains/AVG/seed=3",
        "exact/TwoChains/AVG/seed=4",
    ]
    assert select(runs) == runs


def test_names_are_matched_in_any_case():
    runs = study("exact")
    assert select(runs, ["twoCHAINS"], ["avg"]) == select(runs, ["TwoChains"], ["AVG"])


def test_a_study_with_seeds_of_ones_own():
    """Every environment gets them, with the paper's settings; a seed given twice is one run."""
    runs = study("exact", [42, 3, 42])
    assert len(runs) == 2 * 22 and {run.config.seed for run in runs} == {3, 42}
    assert set(study("exact", [3])) < set(study("exact"))
    assert runs[0].id == "exact/OutlierBandit/DDQN/seed=42"
    assert len(study("grid", [11])) == 96 and len(study("testing", [5])) == 6
    with pytest.raises(ValueError, match="seed must be an int >= 0, got -1"):
        study("grid", [-1])


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"envs": ["TwoChain"]}, "choose from OutlierBandit, TwoChains"),
        ({"methods": ["SAMPEL"]}, "choose from DDQN, PER, SAMPLE"),
        ({"seeds": [11]}, "unknown seed 11"),
        ({"envs": ["TwoChains"], "methods": ["AVG-g2"]}, "leave no run"),
    ],
)
def test_select_refuses_what_matches_nothing(filters, says):
    with pytest.raises(ValueError, match=says):
        select(study("exact"), **filters)


def test_custom_run_names_what_is_not_the_papers():
    assert custom_run(paper_config("TwoChains", "PER", 3)).id == "train/TwoChains/PER/seed=3"
    run = custom_run(paper_config("TwoChains", "PER", 3, steps=100, alpha=0.25))
    assert run.id == "train/TwoChains/PER/steps=100/alpha=0.25/seed=3"

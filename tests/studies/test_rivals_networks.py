"""The bench with networks: its runs as declared, a short one, and what its table says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sibling_replay.running import store
from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.rivals import tables
from sibling_replay.studies.rivals.networks import CONTENDERS, GRAINS, network_advice, rows
from sibling_replay.studies.study import Choice
from sibling_replay.training.gym_config import GymConfig
from sibling_replay.training.results import RunResult


def test_its_runs_are_those_declared() -> None:
    runs = study_named("rivals-networks").declared
    assert len({run.id for run in runs}) == len(runs) == 560 == len(CONTENDERS) * 2 * 2 * 10
    assert {run.config.seed for run in runs} == set(range(2000, 2010))
    of = {run.id.split("/")[3]: run.config for run in runs}
    for name, config in of.items():
        assert isinstance(config, GymConfig) and config.learner == "compiled", name
    assert of["RELO"].loss == of["LAP"].loss == "huber" and of["PAL"].loss.startswith("pal")
    assert of["SAMPLE"].key == of["AVG-uniform"].key == of["CV"].key == "auto"
    assert {of[f"AVG-{grain.replace(':', '')}"].key for grain in GRAINS} == set(GRAINS)
    assert of["AVG-residuals"].options == "of=residuals" and of["AVG-residuals"].method == "AVG-g8"


@pytest.mark.parametrize("name", ["RANK", "RELO", "AVG-grid8", "CV"])
def test_a_short_run(name: str) -> None:
    choice = Choice(envs=("CartPole-v1",), methods=(name,), seeds=(7,), settings={"steps": 2_100})
    study = study_named("rivals-networks")
    run = next(run for run in study.runs(choice) if "mp-tail" in run.id)
    result = study.job(choice)(run.config)
    pure = result.diagnostics["purity"]
    groups = result.diagnostics["groups_per_entry"]
    assert np.isfinite(result.eval_return).all()
    if name in ("RANK", "RELO"):
        assert np.isnan(pure).all() and np.isnan(groups).all()
    else:  # groups of actions at first, then the map's
        assert pure[0] < pure[-1] <= 1.0 and groups[0] < groups[-1]


def test_its_table() -> None:
    wanted = Choice(envs=("Acrobot-v1",), methods=("DDQN", "AVG-uniform"))
    found = [row(run) for run in study_named("rivals-networks").runs(wanted)]
    cells = {
        (r["env"], r["contender"], r["metric"]): r["ours"]
        for r in rows(pl.concat(found, how="diagonal_relaxed"))
    }
    assert cells["Acrobot-v1, mp-tail", "DDQN", "seeds"] == "10"
    apart = cells["Acrobot-v1, clean", "AVG-uniform", "minus DDQN [simultaneous]"]
    assert apart.startswith("+2.5 [") and apart.endswith(
        "*"
    )  # of half a run: the curve begins there
    assert cells["Acrobot-v1, clean", "AVG-uniform", "purity"] == "0.750"
    assert ("Acrobot-v1, clean", "DDQN", "purity") not in cells


def test_its_part_of_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Per condition, once every contender is there with every seed: PER gains in both environments
    under the tail; SAMPLE in one alone, which is not enough."""
    monkeypatch.setattr("sibling_replay.artefacts.gains.RESAMPLES", 2_000)
    found = []
    for run in study_named("rivals-networks").declared:
        config, contender = run.config, run.id.split("/")[3]
        assert isinstance(config, GymConfig)
        noise = np.random.default_rng([*run.id.encode()]).normal()
        gain = {"PER": 2.0, "SAMPLE": 9.0 if config.env == "CartPole-v1" else -0.5}.get(contender)
        shared = config.seed % 10 + (0.1 * noise if contender != "DDQN" else 0.0)
        score = shared + (gain or 0.0) * (config.condition == "mp-tail")
        found.append({"run": run.id, "env": config.env, "seed": config.seed,
                      "condition": config.condition, "auc_return": score})  # fmt: skip
    frame = pl.DataFrame(found)
    tail, clean = network_advice(frame)
    assert tail.contender == "PER" and tail.better == ("PER",)
    assert clean.better == ()
    told = tables.advice_rows(pl.DataFrame(schema=frame.schema), frame)
    said = {r["situation"]: r["ours"] for r in told if r["metric"] == "use"}
    first, second = said.values()
    assert first == "PER" and second.startswith("DDQN (largest: ")
    assert all("approximate groups" in situation for situation in said)
    assert network_advice(frame[:-1]) == [tail], "one run is missing of the clean condition"


def row(run: Run) -> pl.DataFrame:
    """A flat curve: averages have 5 more."""
    averages = run.config.method != "DDQN"
    score = run.config.seed % 10 + 5.0 * averages + 1e-3 * (run.config.seed % 3) * averages
    step = np.array([run.config.steps // 2, run.config.steps])
    told = {"purity": 0.75, "groups_per_entry": 0.01} if averages else {}
    flat = np.ones(2)
    diagnostics = {"step": step} | {
        name: flat * told.get(name, np.nan) for name in ("purity", "groups_per_entry")
    }
    return store.to_row(
        run, RunResult(run.config, step, step, flat * score, flat * np.nan, 1, 1, diagnostics)
    )

"""The bench with targets that go through time limits: its runs as declared, its tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sibling_replay.studies import study_named
from sibling_replay.studies.rivals.declared import BY_NAME, COMPARED, contender_config, main_runs
from sibling_replay.studies.rivals.limits import (
    CONTENDERS,
    ENVS,
    HYPOTHESES,
    RARE_HERE,
    SEEDS,
    SMOOTH,
    environment_rows,
    limit_runs,
    verdict_rows,
)
from sibling_replay.studies.rivals.sensitivity import SEEDS as OTHER_SEEDS
from sibling_replay.studies.rivals.study import WAY_OUT
from sibling_replay.studies.study import Choice
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import advance
from sibling_replay.training.tabular.trainer import new_run
from support.command import run as command


def test_its_runs_are_the_benchs_but_for_limits_and_seeds() -> None:
    runs = limit_runs(Choice())
    assert len({run.id for run in runs}) == len(runs) == len(ENVS) * len(CONTENDERS) * 20
    assert {run.config.seed for run in runs} == set(SEEDS)
    assert set(SEEDS).isdisjoint([*range(1000, 1020), *OTHER_SEEDS])
    bench = {
        (run.config.env, run.id.split("/")[3]): run.config.written()
        for run in main_runs(Choice(seeds=(1000,)))
    }
    for run in runs:
        written = run.config.written()
        assert written.pop("through_time_limits") is True
        usual = bench[run.config.env, study_named("rivals-limits").contender(run)]
        assert written == {**usual, "seed": run.config.seed}


def test_learning_rates_are_those_of_the_bench(tmp_path: Path) -> None:
    """Without its runs nothing is run; each cell has its own rate."""
    study = study_named("rivals-limits")
    assert [*study.stages(Choice(out=tmp_path))] == [
        f"`rivals` is not whole in {tmp_path}: the learning rates of 81 of its cells are not known "
        f"yet {WAY_OUT}"
    ]
    rates = {("Chain", "CV"): 0.5}
    chosen = Choice(envs=("chain",), methods=("cv", "per"), seeds=(1030,))
    found = {run.config.method: run.config.learning_rate for run in limit_runs(chosen, rates)}
    assert found == {"CV": 0.5, "PER": 1e-3}
    with pytest.raises(ValueError, match="unknown method 'AVG' in this study"):
        limit_runs(Choice(methods=("AVG",)))


def test_a_command_that_can_run_nothing_fails_and_says_the_way_out(tmp_path: Path, capsys) -> None:
    for name in ("rivals-limits", "rivals-sensitivity"):
        assert command("reproduce", name, "--runs", tmp_path) == 1
        assert "`collect rivals --back` lays out those of results/" in capsys.readouterr().out


@pytest.mark.long
def test_its_environments_are_those_whose_episodes_are_cut_off() -> None:
    """As counted when it was declared; the limit of the bandit's one step hides no value. Where
    sums are rounded otherwise, other episodes are cut off: hence the room."""
    for env in COMPARED:
        if env in ("OutlierBandit", "ShiftedConalBandit", "FrozenLake-H100/H300"):
            continue
        config = contender_config(env, BY_NAME["DDQN"], 50, eval_episodes=1)
        state, draws = new_run(config)
        advance(Lent(state), draws, config.steps, False)
        cut = state.outcome_visits[0][1::2].sum() / state.clock["episodes"][0]
        assert cut > 0.008 if env in ENVS else cut < 0.01, env
    assert set(SMOOTH) | set(RARE_HERE) | {"Chain"} == set(ENVS)


def known(seeds: range, above: dict[str, float]) -> pl.DataFrame:
    rows = []
    for seed in seeds:
        for place, env in enumerate(ENVS):
            shared = np.random.default_rng([seed, place]).normal()
            for number, name in enumerate(CONTENDERS):
                own = 0.1 * np.random.default_rng([seed, place, number]).normal()
                rows.append(
                    {
                        "run": f"any/{place}/any/{name}/seed={seed}",
                        "env": env,
                        "seed": seed,
                        "auc_return": shared + own + above.get(name, 0.0),
                    }
                )
    return pl.DataFrame(rows)


def test_its_tables_on_known_rows() -> None:
    here = known(SEEDS, {"AVG-uniform": 1.0, "DDQN-3step": -1.0})
    bench = known(range(1000, 1020), {"GROUP-mean": 1.0})
    cells = {(r["hypothesis"][:2], r["metric"]): r["ours"] for r in verdict_rows(here, bench)}
    assert [cells[name, "holds"] for name, *_ in HYPOTHESES] == ["yes", "not shown", "not shown"]
    assert float(cells["L2", "gain"].split()[0].replace("−", "-")) < -0.5
    assert float(cells["L2", "in the bench"].split()[0]) > 0.5
    assert verdict_rows(here.filter(pl.col("seed") < 1049), bench) == []
    each = {(r["env"], r["metric"]): r["ours"] for r in environment_rows(here, bench)}
    assert len(each) == len(ENVS) * (len(CONTENDERS) - 1)
    first, second = each["FickleTaxi", "AVG-uniform"].rstrip(")").split(" (")
    assert float(first) > 0.5 > abs(float(second.replace("−", "-")))

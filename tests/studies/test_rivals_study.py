"""The bench: its runs as declared, its tables on known rows, and what a run measures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sibling_replay.artefacts.gains import gain
from sibling_replay.envs import optimal_values
from sibling_replay.report import matplotlib_ink, plotly_ink
from sibling_replay.running import store
from sibling_replay.running.runs import Run
from sibling_replay.studies import study_named
from sibling_replay.studies.rivals import sensitivity, tables
from sibling_replay.studies.rivals.declared import (
    ALL_EQUAL,
    BY_NAME,
    COMPARED,
    CONTENDERS,
    DETERMINISTIC,
    ENVS,
    MANY_GROUPS,
    PAPER_ENVS,
    RARE,
    STOCHASTIC,
    TAILS,
    UNSEEN_TAILS,
    contender_config,
    main_runs,
    rate_runs,
)
from sibling_replay.studies.rivals.rates import chosen_rates, rates_in
from sibling_replay.studies.rivals.scores import Scores
from sibling_replay.studies.rivals.study import WAY_OUT, BenchJob, stored_rates
from sibling_replay.studies.rivals.verdicts import above_everywhere, advice, judged
from sibling_replay.studies.study import Choice, Source
from sibling_replay.studies.tabular import RunNeeds
from sibling_replay.training.config import TabularConfig
from sibling_replay.training.results import RunResult
from sibling_replay.training.tabular.bench_measure import outcome_tilt
from sibling_replay.training.tabular.trainer import new_run, tabular_model

STUDY = study_named("rivals")


def row(run: Run, score: float, tilt: float = 0.1) -> pl.DataFrame:
    return store.to_row(run, result(run, score, tilt))


def result(run: Run, score: float, tilt: float = 0.1) -> RunResult:
    """A run whose curve is flat."""
    config = run.config
    step = np.array([config.steps // 2, config.steps])
    flat = np.full(2, score)
    diagnostics = {
        "step": step, "tilt": flat * 0 + tilt, "entropy": flat * 0 + 0.5,
        "value_error": flat * 0 + 2.0,
    }  # fmt: skip
    return RunResult(config, step, step, flat, flat * 0, 1, 1, diagnostics)


def frame(above: Callable[[str, str, np.random.Generator], float]) -> pl.DataFrame:
    """What tables read of all runs: a score of the seed, shared by contenders, and what a contender
    has above it."""
    rows = []
    for seed in range(1000, 1020):
        for place, env in enumerate(ENVS):
            shared = np.random.default_rng([seed, place]).normal()
            for number, name in enumerate(BY_NAME):
                own = np.random.default_rng([seed, place, number])
                rows.append(
                    {
                        "run": f"rivals/{place}/{BY_NAME[name].method}/{name}/seed={seed}",
                        "env": env,
                        "seed": seed,
                        "auc_return": shared + above(name, env, own),
                        "diagnostic/tilt": [0.1],
                        "diagnostic/entropy": [0.5],
                        "diagnostic/value_error": [2.0],
                        "steps": 100,
                        "eval_step": [50, 81, 100],
                        "eval_return": [0.0, 1.0, 2.0 + place],
                    }
                )
    return pl.DataFrame(rows)


def test_its_runs_are_those_declared() -> None:
    assert len(CONTENDERS) >= 14 and len(ENVS) >= 12
    runs = main_runs(Choice())
    assert len({run.id for run in runs}) == len(runs) == len(CONTENDERS) * len(ENVS) * 20
    assert {run.config.seed for run in runs} == set(range(1000, 1020))
    trials = rate_runs(Choice())
    assert len({run.id for run in trials}) == len(trials) == len(CONTENDERS) * len(COMPARED) * 3 * 5
    assert {run.config.seed for run in trials} == set(range(900, 905))


def test_situations_are_what_the_tables_are() -> None:
    """Deterministic environments have one outcome a group; those with many groups above 1,000."""
    for env in ENVS:
        model = tabular_model(env)
        chances = np.diff(model.cumulative, axis=2, prepend=0.0)
        assert (env in DETERMINISTIC) == bool((chances.max(axis=2) == 1.0).all()), env
        assert (env in MANY_GROUPS) == (model.n_states * model.n_actions > 1_000), env
        assert (env in RARE) == has_rare_outcomes(chances, model.reward), env
        values = optimal_values(model, 0.99)[model.initial_cumulative > 0][0]
        assert (env in ALL_EQUAL) == (np.ptp(values) < 1e-9), env
    assert set(STOCHASTIC) | set(DETERMINISTIC) == set(COMPARED) == set(ENVS) - set(ALL_EQUAL)
    assert set(PAPER_ENVS) | set(UNSEEN_TAILS) == set(TAILS) < set(RARE) < set(STOCHASTIC)


def has_rare_outcomes(chances: np.ndarray, reward: np.ndarray) -> bool:
    """Whether some reward of a chance of at most 2 % is five standard deviations from its mean."""
    mean = (chances * reward).sum(axis=2, keepdims=True)
    deviation = np.sqrt((chances * (reward - mean) ** 2).sum(axis=2, keepdims=True))
    rare = (chances > 0) & (chances <= 0.02 + 1e-12)
    return bool((rare & (np.abs(reward - mean) > 5 * deviation) & (deviation > 0)).any())


def test_a_gain_in_one_environment_does_not_hold() -> None:
    """Whatever its size and p: leaving that one out must leave a gain."""
    alone = Scores(
        frame(lambda name, env, rng: 50.0 * (name == "SAMPLE") * (1 if env == TAILS[0] else -0.1)
              + (name != "DDQN") * 0.01 * rng.normal())
    )  # fmt: skip
    second = next(each for each in judged(alone) if each.name == "H2")
    assert second.p < 0.01 and second.gain.value > 0 > second.gain.least and not second.holds
    rare = next(each for each in advice(alone) if each.situation == "rare, large outcomes")
    assert "SAMPLE" not in rare.better


def test_advice_is_one_of_those_shown() -> None:
    """A larger gain that was not shown gives way to a smaller one that was."""

    def above(name: str, env: str, rng: np.random.Generator) -> float:
        if name == "PER":
            return float(40 * rng.normal() + 6)
        return 0.5 * (name == "CV") + (name != "DDQN") * 0.05 * float(rng.normal() - 1)

    scores = Scores(frame(above))
    found = next(each for each in advice(scores) if each.situation == "deterministic")
    base, per = scores.of("DDQN", DETERMINISTIC), scores.of("PER", DETERMINISTIC)
    assert base is not None and per is not None
    larger = gain(per, base, base, np.random.default_rng(0))
    assert larger.value > found.gain.value and "PER" not in found.better
    assert found.contender == "CV" and found.better == ("CV",)


def test_settings_are_the_same_for_all_but_what_a_contender_is() -> None:
    for env in ENVS:
        of_env = [run.config for run in main_runs(Choice(envs=(env,), seeds=(1000,)))]
        for name in ("steps", "capacity", "gamma", "epsilon_decay_steps", "learning_rate"):
            assert len({getattr(config, name) for config in of_env}) == 1, (env, name)


def test_the_rate_of_largest_auc_is_chosen() -> None:
    runs = rate_runs(Choice(envs=("Chain",), methods=("DDQN", "PAL")))
    best = {"DDQN": 1e-3 / 3, "PAL": 3e-3}
    rows = []
    for run in runs:
        contender = run.id.split("/")[3]
        assert isinstance(run.config, TabularConfig)
        close = abs(np.log(run.config.learning_rate / best[contender]))
        rows.append(row(run, -close))
    rates = chosen_rates(pl.concat(rows, how="diagonal_relaxed"))
    assert rates == pytest.approx({("Chain", name): rate for name, rate in best.items()})
    told = {(r["contender"], r["metric"]): r["ours"] for r in tables.rate_rows(pl.concat(
        rows, how="diagonal_relaxed"))}  # fmt: skip
    assert told["DDQN", "a third"] == told["PAL", "three times"] == "1"
    assert told["PAL", "a third"] == told["PAL", "the same"] == "0"
    assert tables.rate_rows(pl.DataFrame()) == []
    some = pl.concat(rows, how="diagonal_relaxed").filter(pl.col("seed") < 904)
    assert tables.rate_rows(some) == [], "choices of unequal trials are none"
    main = main_runs(Choice(envs=("Chain",), methods=("PAL",), seeds=(1000,)), rates)[0]
    assert main.config.learning_rate == pytest.approx(3e-3)
    assert main.id == "rivals/Chain/DDQN/PAL/seed=1000"


def known(contender: str, env: str, rng: np.random.Generator) -> float:
    """Averages gain 1 where it is stochastic and lose 1 elsewhere; SAMPLE gains 0.5 over PER under
    tails; the control variate has 0.8; others differ from DDQN by noise alone."""
    noise = 0.0 if contender == "DDQN" else 0.3 * rng.normal()
    if contender == "AVG-uniform":
        return noise + (1.0 if env in STOCHASTIC else -1.0)
    if contender == "SAMPLE" and env in TAILS:
        return noise + 0.5
    if contender == "CV" and env in STOCHASTIC:
        return noise + 0.8
    return noise


@pytest.fixture(scope="module")
def known_rows() -> pl.DataFrame:
    return frame(known)


def test_verdicts_and_advice_on_known_rows(known_rows: pl.DataFrame) -> None:
    scores = Scores(known_rows)
    found = {each.name: each for each in judged(scores)}
    assert {name: each.holds for name, each in found.items()} == {
        "H1": True, "H2": True, "H3": False, "H4": True,
    }  # fmt: skip
    assert found["H1"].gain.value == pytest.approx(1.0, abs=0.25)
    assert found["H3"].gain.value == pytest.approx(-1.0, abs=0.4)
    assert found["H4"].gain.value == pytest.approx(0.3, abs=0.15)
    assert "AVG-uniform" not in above_everywhere(scores)
    assert found["H1"].gain.above == len(STOCHASTIC) and 0.6 < found["H1"].gain.median < 1.4
    said = {each.situation: each for each in advice(scores)}
    assert said["stochastic, none rare and large"].contender == "AVG-uniform"
    assert set(said["stochastic, none rare and large"].better) == {"AVG-uniform", "CV"}
    assert said["deterministic"].better == ()


def test_half_of_a_loss_is_not_kept() -> None:
    """Where averages lose, to lose less is not to keep half of a gain."""
    loses = {"AVG-uniform": -2.0, "CV": -0.5, "DDQN-2updates": 1.0}
    scores = Scores(frame(lambda name, env, rng: loses.get(name, 0.0) + 0.1 * rng.normal()))
    fourth = judged(scores)[-1]
    assert fourth.name == "H4" and fourth.p < 0.01 and not fourth.asked and not fourth.holds
    assert above_everywhere(scores) == ("DDQN-2updates",)  # a control is a contender, too


def test_rates_are_chosen_from_the_studys_own_runs(tmp_path: Path) -> None:
    chosen = Choice(envs=("Chain",), methods=("DDQN",), out=tmp_path)
    smoke = Choice(envs=("Chain",), methods=("DDQN",), settings={"steps": 1_000})
    for run in (*rate_runs(chosen), *rate_runs(smoke)):
        assert isinstance(run.config, TabularConfig)
        low, short = run.config.learning_rate < 1e-3, run.config.steps == 1_000
        store.save_run(tmp_path, run, result(run, 9.0 if short and not low else float(low)))
    source = Source(tmp_path, collected=False)
    assert stored_rates(source) == pytest.approx({("Chain", "DDQN"): 1e-3 / 3})


def test_tables_and_figures_of_known_rows(
    known_rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sibling_replay.artefacts.statistics.RESAMPLES", 200)
    found = known_rows
    cells = {(r["contender"], r["metric"]): r["ours"] for r in tables.summary_rows(found)}
    assert cells["DDQN", "IQM"].startswith(("0.0", "−0.0", "0.1", "−0.1"))
    assert float(cells["AVG-uniform", "IQM"].split()[0]) > 0.5
    assert cells["PER", "tilt"] == "0.100" and cells["PER", "value error / DDQN's"] == "1.00"
    said = {(r["situation"], r["metric"]): r["ours"] for r in tables.advice_rows(found)}
    assert said["deterministic", "use"].startswith("DDQN (largest: ")
    pairs = {(r["pair"], r["metric"]): r["ours"] for r in tables.pair_rows(found)}
    assert {pair for pair, _ in pairs} == {f"{a} minus {b}" for a, b in tables.PAIRS}
    assert pairs["AVG-uniform minus AVG", "deterministic"].endswith(", 0 of 2")
    assert pairs["AVG-uniform minus AVG", "rare, large outcomes"].startswith("+")
    heat = tables.grid(found)
    assert heat is not None and len(heat.panels[0].cells) == len(CONTENDERS) - 1  # type: ignore[union-attr]
    curves = tables.profiles(found)
    assert curves is not None and len(curves.panels[0].curves) == len(tables.PROFILED)  # type: ignore[union-attr]
    for figure in (heat, curves):
        (specification,) = plotly_ink.specifications(figure)
        assert matplotlib_ink.drawing_of(figure).axes
    told = specification["data"][0]
    assert set(told["customdata"]) == {""}, "a share of runs has no standard error"
    (shaded,) = plotly_ink.specifications(heat)
    assert "minus DDQN: %{customdata}" in shaded["data"][0]["hovertemplate"]
    assert shaded["layout"]["height"] > 18 * len(CONTENDERS)
    by_env = tables.environment_rows(found)
    late = {r["env"]: r["ours"] for r in by_env if r["metric"] == "last fifth"}
    assert late[ENVS[0]] == "1.500 ± 0.000" and late[ENVS[2]] == "2.500 ± 0.000"
    assert set(late) == set(COMPARED), "returns where all arms are equal are chance"
    assert {r["env"] for r in by_env if r["metric"] == "value error"} == set(ENVS)
    assert len({(r["env"], r["contender"]) for r in by_env}) == len(ENVS) * len(CONTENDERS)


def test_what_is_not_whole_is_not_judged(known_rows: pl.DataFrame) -> None:
    some = known_rows.filter(pl.col("seed") < 1019)
    assert judged(Scores(some)) == [] and advice(Scores(some)) == []
    assert tables.summary_rows(some) == [] and tables.grid(some) is None
    assert tables.profiles(some) is None
    contender = pl.col("run").str.split("/").list.get(3)
    two = Scores(known_rows.filter(contender.is_in(["DDQN", "AVG-uniform"])))
    assert advice(two) == [], "Holm's correction is over all contenders"
    one = known_rows.filter(env=COMPARED[0])
    assert tables.pair_rows(one) == []
    assert tables.summary_rows(one) == [] and tables.profiles(one) is None
    assert advice(Scores(one)) == []


def test_a_learning_rate_of_ones_own() -> None:
    """Nothing is left to choose, and what cannot be is said before the trials."""
    own = Choice(envs=("Chain",), methods=("PER",), seeds=(5,), settings={"learning_rate": 1e-4})
    (stage,) = (each for each in STUDY.stages(own) if not isinstance(each, str))
    assert stage.title == "rivals" and stage.runs[0].config.learning_rate == 1e-4
    with pytest.raises(ValueError, match="rivals-rates is there to choose it"):
        rate_runs(own)
    looked = Choice(envs=("Chain",), methods=("PER",), settings={"diagnostics_every": 100})
    assert main_runs(looked)[0].config.diagnostics_every == 100
    assert main_runs(Choice(envs=("Chain",)))[0].config.diagnostics_every == 10_000


def test_runs_of_one_cell_with_two_rates_are_refused() -> None:
    """Their ids do not name the rate."""
    chosen = Choice(envs=("Chain",), methods=("PER",))
    first, second = main_runs(chosen)[:2]
    other = main_runs(chosen, {("Chain", "PER"): 3e-3})[1]
    assert other.id == second.id
    assert STUDY.compared(pl.concat([row(first, 1.0), row(second, 1.0)])).height == 2
    with pytest.raises(ValueError, match=r"rivals/Chain/PER/PER differ in learning_rate"):
        STUDY.compared(pl.concat([row(first, 1.0), row(other, 1.0)]))


def test_what_is_said_of_its_runs_names_contenders(tmp_path: Path) -> None:
    lines = STUDY.status_lines(tmp_path)
    assert "rivals: 0 of 7480 runs done" in lines[0]
    assert any(line.split()[:2] == ["OutlierBandit", "DDQN-huber"] for line in lines)
    assert any(line.endswith("GROUP-neyman      0 / 20") for line in lines)
    run = main_runs(Choice(envs=("Chain",), methods=("PER",)))[0]
    gap = RunNeeds("rivals").gap({"rivals": row(run, 1.0)})
    assert gap is not None and not gap.everything and gap.lines == ("1 of 7,480 runs",)
    seeds = main_runs(Choice(envs=("Chain",), methods=("PER",), seeds=(5,)))[0]
    said = list(STUDY.tables(pl.concat([row(run, 1.0), row(seeds, 1.0)])))
    assert said[-1] == "left out: 1 runs with seeds that are not the study's own"


def test_a_run_is_measured() -> None:
    run = main_runs(Choice(envs=("BlindCliffWalk",), methods=("PER",), settings={"steps": 4_000}))[
        0
    ]
    assert isinstance(run.config, TabularConfig)
    result = BenchJob()(run.config)
    assert result.diagnostics["step"].tolist()[-1] == 4_000 - 4_000 % run.config.diagnostics_every
    assert (result.diagnostics["tilt"] == 0).all(), "a deterministic world cannot be tilted"
    assert ((result.diagnostics["entropy"] > 0) & (result.diagnostics["entropy"] <= 1)).all()


def test_tilt_of_known_counts() -> None:
    """Group 0 has outcomes 9 : 1 and is replayed 5 : 5, 10 times; group 1 as it came, 30 times."""
    came = np.array([9.0, 1.0, 2.0, 2.0])
    replayed = np.array([5.0, 5.0, 15.0, 15.0])
    assert outcome_tilt(np.stack([came, replayed]), 2) == pytest.approx(0.4 * 10 / 40)
    assert np.isnan(outcome_tilt(np.stack([came, came * 0]), 2))


def test_the_five_best_are_varied_once_the_bench_is_whole(
    known_rows: pl.DataFrame, tmp_path: Path
) -> None:
    """On known rows, AVG-uniform, CV and SAMPLE among them; before that, a sentence and no run."""
    study = study_named("rivals-sensitivity")
    assert [*study.stages(Choice(out=tmp_path))] == [
        f"`rivals` is not whole in {tmp_path}: which are the five best is not known yet {WAY_OUT}"
    ]
    assert sensitivity.best(known_rows.filter(pl.col("seed") < 1019)) == ()
    names = sensitivity.best(known_rows)
    assert len(names) == 5 and {"AVG-uniform", "CV", "SAMPLE"} <= set(names)
    runs = sensitivity.sensitivity_runs(Choice(), names, {("Chain", "CV"): 0.5})
    assert len({run.id for run in runs}) == len(runs)
    assert {run.config.seed for run in runs} == set(range(1020, 1025))
    rates = {run.config.learning_rate for run in runs if "Chain/CV/CV" in run.id}
    assert rates == {0.5}
    chosen = sensitivity.sensitivity_runs(Choice(envs=("chain",), methods=("cv",)), names)
    assert {(run.config.env, run.config.method) for run in chosen} == {("Chain", "CV")}
    with pytest.raises(ValueError, match="unknown method 'PER' in this study"):
        sensitivity.sensitivity_runs(Choice(methods=("PER",)), ("CV",))
    assert study.status_lines(tmp_path) == [
        f"rivals-sensitivity: `rivals` is not whole in {tmp_path}: which are the five best is not "
        f"known yet {WAY_OUT}"
    ]
    rated = known_rows.with_columns(learning_rate=pl.col("seed") * 0 + 0.25)
    assert set(rates_in(rated).values()) == {0.25} and len(rates_in(rated)) == len(BY_NAME) * 17
    exponents = {run.config.alpha for run in runs if run.config.method == "AVG"}
    assert exponents == set(sensitivity.ALPHAS)
    for run in runs:  # beta rises over as many steps, however many updates these have
        assert isinstance(run.config, TabularConfig)
        assert run.config.updates_a_step in (1, 2, 4)
        usual = contender_config(run.config.env, BY_NAME["DDQN"], 0).beta_updates
        assert run.config.beta_updates == usual * run.config.updates_a_step
    for contender in CONTENDERS:  # every variant can be run
        for each in sensitivity.variants(contender):
            new_run(contender_config("Chain", each, 0))


def test_the_sensitivity_table_on_known_rows(known_rows: pl.DataFrame) -> None:
    names = ("CV", "SAMPLE")
    found = pl.concat(
        [
            row(run, run.config.seed + run.config.alpha * (run.config.method == "SAMPLE"))
            for run in sensitivity.sensitivity_runs(Choice(), names)
        ],
        how="diagonal_relaxed",
    )
    cells = {
        (r["contender"], r["metric"]): float(r["ours"].split()[0])
        for r in sensitivity.rows(found, known_rows)
    }
    assert cells["CV", "as it is"] == cells["DDQN", "updates=4"] == 0.0
    assert cells["SAMPLE", "alpha=1.0"] > cells["SAMPLE", "as it is"] > cells["SAMPLE", "alpha=0.3"]
    assert ("CV", "alpha=0.3") not in cells and ("PER", "as it is") not in cells
    assert sensitivity.rows(found.filter(pl.col("seed") < 1024), known_rows) == []
    needs = sensitivity.BestNeeds()
    gap = needs.gap({"rivals": known_rows, "rivals-sensitivity": found})
    assert gap is not None and gap.command == "sibling-replay reproduce rivals-sensitivity"

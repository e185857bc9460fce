"""Rivals in the compiled trainer: their laws, refreshes, losses and second stages, against plain
NumPy that knows no tree.

Chi-square tests reject at 1e-6, with fixed seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import huber
from scipy.stats import chisquare

from sibling_replay import LAP, SlotSampler
from sibling_replay.strategies.recipe import (
    BY_MASS,
    GROUP_MEAN,
    NO_WEIGHTS,
    NOTHING,
    UNIFORM,
    Recipe,
)
from sibling_replay.training.config import TabularConfig, paper_config
from sibling_replay.training.gym_config import gym_config
from sibling_replay.training.losses import loss_named
from sibling_replay.training.methods import check_options
from sibling_replay.training.tabular.batch import new_batch, new_memory
from sibling_replay.training.tabular.lent import Lent
from sibling_replay.training.tabular.loop import Draws, TabularRun, advance
from sibling_replay.training.tabular.measure import cell_targets
from sibling_replay.training.tabular.network import all_values
from sibling_replay.training.tabular.rules import (
    BY_AGE,
    BY_GROUP,
    HUBER_DROP,
    LEAF,
    MEAN,
    NEWEST,
    NEYMAN,
    REMEMBERED,
    SCORED,
    SQUARED_DROP,
    TableRule,
)
from sibling_replay.training.tabular.trainer import new_run

LEVEL = 1e-6
STARTS = 50

UNWEIGHTED = Recipe(anchors=UNIFORM, weights=NO_WEIGHTS, refreshed=NOTHING)
RULES = {
    "LAP": TableRule(Recipe(weights=NO_WEIGHTS, floor=1.0)),
    "ReLo": TableRule(Recipe(), priority=SQUARED_DROP),
    "ReLo, Huber": TableRule(Recipe(), priority=HUBER_DROP),
    "LaBER": TableRule(UNWEIGHTED, candidates=4, least=1e-6),
    "stratified": TableRule(UNWEIGHTED._replace(anchors=BY_MASS), anchors=BY_GROUP),
    "expected": TableRule(
        Recipe(weights=LEAF, refreshed=SCORED), anchors=BY_GROUP, score=MEAN, kappa=1.0
    ),
    "group mean": TableRule(
        Recipe(trained=GROUP_MEAN, weights=LEAF, refreshed=SCORED),
        anchors=BY_GROUP, score=MEAN, kappa=1.0, rescored_every=10,
    ),
    "Neyman": TableRule(
        Recipe(weights=LEAF, refreshed=SCORED),
        anchors=BY_GROUP, score=NEYMAN, kappa=1.0, rescored_every=10,
    ),
    "control variate": TableRule(UNWEIGHTED._replace(refreshed=REMEMBERED), pull=0.5),
    "combined": TableRule(UNWEIGHTED, anchors=NEWEST),
    "age": TableRule(UNWEIGHTED, anchors=BY_AGE, decay=0.01),
}  # fmt: skip


def begun(
    rule: TableRule, steps: int, *, env: str = "TwoChains", capacity: int = 300, **changes: Any
) -> tuple[TabularRun, Draws, TabularConfig]:
    """A run of a rule after so many steps."""
    loss = loss_named(changes.pop("loss", "mse"))
    config = paper_config(
        env, "PER", 3, steps=4_000, capacity=capacity, learning_starts=STARTS, target_interval=100,
        **{"alpha": 1.0, **changes},
    )  # fmt: skip
    run, draws = new_run(config, np.float64)
    width = run.memory.counts.size // run.visits.shape[1]
    batch = new_batch(config.batch_size, rule, width, np.float64)
    run = run._replace(
        settings=run.settings._replace(rule=rule, loss=loss),
        batch=batch,
        memory=new_memory(capacity, run.visits.shape[1], width, True, rule),
        network=_roomy(config, batch),
    )
    advance(Lent(run), draws, steps, False)
    return run, draws, config


def _roomy(config: TabularConfig, batch: Any) -> Any:
    """The network of a run, with room for the states of a larger batch."""
    from sibling_replay.rng import streams
    from sibling_replay.training.initial import initial_layers
    from sibling_replay.training.tabular.network import new_network
    from sibling_replay.training.tabular.trainer import tabular_model

    model = tabular_model(config.env)
    sizes = (model.n_states, config.hidden, config.hidden, model.n_actions)
    layers = initial_layers(streams(config.seed).init, sizes)
    return new_network(layers, batch.slots.size + batch.outcomes.size, np.float64)


def stored(run: TabularRun) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Groups and outcomes of the live slots, and the slot that was filled last."""
    live, step = int(run.clock["live"][0]), int(run.clock["step"][0])
    slots = slice(0, live)
    newest = (step - 1) % run.memory.group.size
    return run.memory.group[slots].copy(), run.memory.outcome[slots].copy(), newest


def drawn(run: TabularRun, batches: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """How often each live slot was trained in so many batches, and the weights seen last."""
    from drawn_often import draw_often  # compiled once, beside this file

    counts = np.zeros(run.memory.group.size, np.int64)
    newest = (int(run.clock["step"][0]) - 1) % run.memory.group.size
    draw_often(
        run.memory, run.batch, run.settings.rule, int(run.clock["live"][0]), newest, 1.0,
        np.random.default_rng(0), batches, counts,
    )  # fmt: skip
    return counts, run.batch.weights.copy()


def law_of(run: TabularRun, name: str) -> NDArray[Any]:
    """The chance of each live slot, from the definitions."""
    groups, _, newest = stored(run)
    live = groups.size
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if name in ("LaBER", "control variate"):
        return np.full(live, 1.0 / live)
    if name == "combined":
        law = np.full(live, (1 - 1 / run.batch.slots.size) / live)
        law[newest] += 1 / run.batch.slots.size
        return law
    if name == "age":
        age = (newest - np.arange(live)) % run.memory.group.size
        chance = 0.99**age
        return np.asarray(chance / chance.sum())
    if name in ("LAP", "ReLo", "ReLo, Huber"):
        masses = run.memory.entries.tree[:live]
        return np.asarray(masses / masses.sum())
    scores = run.memory.kept.scores[groups]
    leaf_over_size = 1.0 / sizes[place] if name == "stratified" else scores
    return np.asarray(leaf_over_size / leaf_over_size.sum())


@pytest.mark.parametrize("steps", [60, 250, 1_500])
@pytest.mark.parametrize("name", RULES)
def test_draws_follow_the_law(name: str, steps: int) -> None:
    run, _, _ = begun(RULES[name], steps)
    law = law_of(run, name)
    counts, weights = drawn(run, 2_000)
    whole = RULES[name].recipe.trained == GROUP_MEAN
    assert chisquare(counts[: law.size], law * counts.sum()).pvalue > LEVEL
    if RULES[name].recipe.weights == LEAF:  # (1 / (N P))^beta over the largest, beta = 1
        slots = run.batch.slots
        ratio = 1.0 / (law.size * law[slots])
        np.testing.assert_allclose(weights, ratio / ratio.max(), rtol=1e-5)
    assert not whole or run.batch.starts[-1] >= run.batch.slots.size


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *((name, "LaBER") for name in ("combined", "age", "stratified", "Neyman", "LAP", "ReLo")),
        ("expected", "stratified"),
        ("group mean", "stratified"),
    ],
)
def test_draws_do_not_follow_another_law(name: str, other: str) -> None:
    """The test above can fail: the same draws reject uniform ones (LaBER's), or even groups."""
    env = "OutlierBandit" if name == "LAP" else "TwoChains"  # whose errors LAP all lifts to 1
    run, _, _ = begun(RULES[name], 1_500, env=env)
    law = law_of(run, other)
    counts, _ = drawn(run, 2_000)
    assert chisquare(counts[: law.size], law * counts.sum()).pvalue < LEVEL


@pytest.mark.parametrize("name", ["expected", "group mean", "Neyman"])
def test_scores_are_those_of_the_errors(name: str) -> None:
    """After one more update by hand: noted errors, or the exact mean over the group."""
    rule = RULES[name]._replace(rescored_every=0)
    run, draws, _ = begun(rule, 700)
    advance(Lent(run), draws, 701, True)  # sampled, not yet updated
    values = np.empty_like(run.network.target)
    all_values(run.network, values)
    targets = cell_targets(run, values)
    groups, outcomes, _ = stored(run)
    errors = targets[outcomes] - values.ravel()[groups]
    trained = run.batch.groups.copy()
    slots = run.batch.slots.copy()
    noted = run.memory.noted.copy()
    before = run.memory.kept.scores.copy()
    advance(Lent(run), draws, 701, False)
    epsilon = run.settings.epsilon
    for group in np.unique(trained):
        members = np.flatnonzero(groups == group)
        known = errors[members]
        if rule.recipe.trained != GROUP_MEAN:
            for b in np.flatnonzero(trained == group):
                noted[slots[b]] = errors[slots[b]]
            known = noted[members]
            known = known[np.isfinite(known)]
        score = {
            "expected": abs(known.mean()),
            "group mean": abs(known.mean()),
            "Neyman": np.sqrt((known**2).mean()),
        }[name] + epsilon
        assert run.memory.kept.scores[group] == pytest.approx(score, rel=1e-6, abs=2e-6)
    others = np.setdiff1d(np.arange(before.size), trained)
    np.testing.assert_array_equal(run.memory.kept.scores[others], before[others])


@pytest.mark.parametrize("name", ["group mean", "Neyman"])
def test_rescoring_gives_every_group_the_score_of_present_values(name: str) -> None:
    run, draws, _ = begun(RULES[name], STARTS + 10 * 20 - 1)
    assert run.clock["updates"][0] % 10 == 0
    values = np.empty_like(run.network.target)
    all_values(run.network, values)
    groups, outcomes, _ = stored(run)
    errors = cell_targets(run, values)[outcomes] - values.ravel()[groups]
    for group in np.unique(groups):
        found = errors[groups == group]
        score = abs(found.mean()) if name == "group mean" else np.sqrt((found**2).mean())
        score += run.settings.epsilon
        assert run.memory.kept.scores[group] == pytest.approx(score, rel=1e-9)
        leaf = (groups == group).sum() * score
        assert run.memory.kept.tree[group] == pytest.approx(leaf, rel=1e-9)
    assert run.memory.kept.tree[-1] == pytest.approx(
        run.memory.kept.tree[: run.visits.shape[1]].sum()
    )
    if name == "Neyman":  # and the next refresh goes by these errors, not by older ones
        np.testing.assert_allclose(run.memory.noted[: groups.size], errors, rtol=1e-9)
        noted = run.memory.noted.copy()
        advance(Lent(run), draws, run.clock["step"][0] + 1, False)
        for slot, error in zip(run.batch.slots, run.batch.td, strict=True):
            noted[slot] = error
        newest = (run.clock["step"][0] - 1) % run.memory.group.size
        noted[newest] = np.inf if newest not in run.batch.slots else noted[newest]
        groups, _, _ = stored(run)
        for group in np.unique(run.batch.groups):
            known = noted[: groups.size][groups == group]
            known = known[np.isfinite(known)]
            score = np.sqrt((known**2).mean()) + run.settings.epsilon
            assert run.memory.kept.scores[group] == pytest.approx(score, rel=1e-6)


def test_priorities_of_lap_and_relo() -> None:
    for name in ("LAP", "ReLo", "ReLo, Huber"):
        run, draws, _ = begun(RULES[name], 400)
        advance(Lent(run), draws, 401, False)
        td, aside = run.batch.td, run.batch.aside
        if name == "LAP":
            expected = np.maximum(np.abs(td) + run.settings.epsilon, 1.0)  # of PER's, here
        else:
            loss = np.square if name == "ReLo" else lambda d: huber(1.0, d)
            drop = loss(td.astype(float)) - loss(aside.astype(float))
            expected = np.maximum(drop, 0.0) + run.settings.epsilon
        np.testing.assert_allclose(run.batch.priorities, expected, rtol=1e-12)
        last = {slot: mass for slot, mass in zip(run.batch.slots, expected, strict=True)}
        for slot, mass in last.items():
            assert run.memory.entries.tree[slot] == pytest.approx(mass)


def test_relo_is_nothing_right_after_a_target_copy() -> None:
    run, draws, _ = begun(RULES["ReLo"], 500)  # the target was copied after step 500
    advance(Lent(run), draws, 501, False)
    np.testing.assert_allclose(run.batch.priorities, run.settings.epsilon, atol=1e-9)


def test_the_control_variate_shifts_by_the_mean_of_last_targets() -> None:
    run, draws, _ = begun(RULES["control variate"], 800)
    advance(Lent(run), draws, 801, True)
    groups, _, _ = stored(run)
    noted, slots = run.memory.noted[: groups.size], run.batch.slots
    for b, slot in enumerate(slots):
        kept = noted[groups == groups[slot]]
        mean = kept[np.isfinite(kept)].mean() if np.isfinite(kept).any() else 0.0
        shift = 0.5 * (mean - noted[slot]) if np.isfinite(noted[slot]) else 0.0
        assert run.batch.shift[b] == pytest.approx(shift, abs=1e-9)
    assert np.abs(run.batch.shift).max() > 0
    advance(Lent(run), draws, 801, False)
    last = {slot: target for slot, target in zip(slots, run.batch.targets, strict=True)}
    for slot, target in last.items():
        assert run.memory.noted[slot] == target


def test_laber_is_unbiased_and_its_chosen_rows_follow_the_errors() -> None:
    """The mean of w d over what the second stage chooses is the mean of d over the candidates."""
    from drawn_often import choose_often

    run, draws, _ = begun(RULES["LaBER"], 300)
    advance(Lent(run), draws, 301, False)
    size, wanted = run.batch.td.size, run.batch.td.size // 4
    assert run.batch.chosen.sum() == wanted
    repeats = 20_000
    chosen, mean = choose_often(run.batch, wanted, np.random.default_rng(1), repeats)
    share = np.abs(run.batch.td) / np.abs(run.batch.td).sum()
    likely = share > 1e-3
    np.testing.assert_allclose(
        chosen[likely] / (repeats * wanted), share[likely], rtol=0.1, atol=2e-3
    )
    np.testing.assert_allclose(mean, run.batch.td.mean(), rtol=2e-3)
    assert size == 4 * wanted


@pytest.mark.parametrize(
    ("loss", "slope"),
    [
        ("mse", lambda d: 2 * d),
        ("huber", lambda d: np.clip(d, -1, 1)),
        ("huber:0.25", lambda d: np.clip(d, -0.25, 0.25)),
        ("pal:0.4", lambda d: np.clip(d, -1, 1) * np.maximum(np.abs(d), 1) ** 0.4
            / (np.maximum(np.abs(d), 1) ** 0.4).mean()),
    ],
)  # fmt: skip
def test_losses_have_their_gradient(loss: str, slope: Any) -> None:
    """Of the values, read off where `learn` leaves it."""
    rule = TableRule(UNWEIGHTED)
    run, draws, _ = begun(rule, 200, env="OutlierBandit", loss=loss, learning_rate=1e-12)
    advance(Lent(run), draws, 201, False)
    expected = np.zeros(run.visits.shape[1])
    np.subtract.at(expected, run.batch.groups, slope(run.batch.td) / run.batch.td.size)
    found = run.network.d_values[:1].ravel()  # a bandit has one state
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_pal_descends_what_lap_expects() -> None:
    """Fujimoto et al. (2020): the mean of PAL's slope over all entries is the expected slope of
    Huber's under LAP's law."""
    errors = np.random.default_rng(0).normal(size=500) * 3
    law = np.maximum(np.abs(errors), 1.0) ** 0.4
    lap = (law / law.sum() * np.clip(errors, -1, 1)).sum()
    pal = (np.clip(errors, -1, 1) * law / law.mean()).mean()
    assert lap == pytest.approx(pal, rel=1e-12)


def test_two_updates_a_step_are_two_updates() -> None:
    config = paper_config("TwoChains", "DDQN", 3, steps=300, learning_starts=100, updates_a_step=2)
    run, draws = new_run(config)
    advance(Lent(run), draws, 300, False)
    assert run.clock["updates"][0] == 2 * 201
    paused, again = new_run(config)
    lent = Lent(paused)
    for step in range(1, 301):
        advance(lent, again, step, True)
    advance(lent, again, 300, False)
    np.testing.assert_array_equal(run.network.theta, paused.network.theta)


@pytest.mark.parametrize("text", ["l1", "huber:0", "huber:x", "mse:1", "pal:-1", "huber:inf"])
def test_losses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="loss must be one of mse, huber, huber:K, pal, pal:ALPHA"):
        paper_config("TwoChains", "DDQN", 0, loss=text)


def test_means_of_residuals_are_those_of_targets_where_groups_are_exact() -> None:
    runs = []
    for of in ("targets", "residuals"):
        config = paper_config("TwoChains", "AVG", 3, steps=400, options=f"of={of}")
        run, draws = new_run(config)
        advance(Lent(run), draws, 400, False)
        runs.append(run.network.theta)
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    "options", ["score=shrunk", "score=relo", "trains=average,k=4", "score=neyman,trains=average"]
)
def test_what_tables_would_do_otherwise_is_refused(options: str) -> None:
    """By name, and not carried out in another way than a buffer does."""
    config = paper_config("TwoChains", "GROUP", 3, options=options)
    for refuses in (new_run, check_options):
        with pytest.raises(ValueError, match="compiled trainer cannot carry out GroupPrioritized"):
            refuses(config)


def test_exponents_are_the_strategys_own_unless_given() -> None:
    for method, alpha in (("LAP", 0.4), ("RANK", 0.7), ("GROUP", 1.0), ("CV", 0.0), ("AVG", 0.6)):
        assert paper_config("TwoChains", method, 0).alpha == alpha
        assert gym_config("CartPole-v1", method, 0).alpha == alpha
    new_run(paper_config("TwoChains", "CV", 0))
    with pytest.raises(ValueError, match="ControlVariate with alpha=0 alone"):
        check_options(paper_config("TwoChains", "CV", 0, alpha=0.6))


def test_the_way_to_normalise_is_the_strategys_usual_one() -> None:
    paper_config("TwoChains", "LABER", 0, options="normalize=none")
    paper_config("TwoChains", "RANK", 0, options="normalize=batch")
    for method, other in (("LABER", "batch"), ("RANK", "none")):
        with pytest.raises(ValueError, match="the compiled trainer has normalize="):
            paper_config("TwoChains", method, 0, options=f"normalize={other}")


def test_pal_divides_by_what_is_trained() -> None:
    """Shifted errors of the control variate; of LaBER's candidates the chosen rows."""
    pal = {"loss": "pal:0.4", "learning_rate": 1e-12, "env": "OutlierBandit"}
    for name in ("control variate", "LaBER"):
        run, draws, _ = begun(RULES[name], 400, **pal)
        advance(Lent(run), draws, 401, False)
        batch = run.batch
        pull = (batch.td + batch.shift).astype(np.float64)
        times = batch.chosen if name == "LaBER" else np.ones(pull.size)
        size = np.maximum(np.abs(pull), 1.0) ** 0.4
        slope = np.clip(pull, -1, 1) * size / ((times * size).sum() / times.sum())
        expected = np.zeros(run.visits.shape[1])
        np.subtract.at(expected, batch.groups, batch.weights * slope / pull.size)
        np.testing.assert_allclose(run.network.d_values[:1].ravel(), expected, rtol=1e-9)


def test_first_entries_of_lap_start_at_its_floor() -> None:
    rule = LAP(floor=10.0, alpha=1.0)
    sampler = SlotSampler(4, rule, seed=0)
    sampler.put([0, 1, 2, 3])
    sampler.update_slots([0], [0.0], sampler.clock)
    assert sampler.masses.tolist() == pytest.approx([10.0] * 4)
    config = paper_config("TwoChains", "LAP", 0, alpha=1.0, options="floor=10")
    assert new_run(config)[0].clock["largest_mass"][0] == 10.0

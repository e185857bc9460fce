"""What the docstrings of the bench's environments say, read off their tables."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.taxi import TaxiEnv

from sibling_replay.envs import FickleTaxiEnv, TabularModel, make_env, reachable_states
from sibling_replay.training.config import gym_id


def table(env: str) -> TabularModel:
    return TabularModel.from_env(make_env(gym_id(env)))


def moments(model: TabularModel) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the reward of each state and action."""
    mean = (model.probability * model.reward).sum(axis=2)
    apart = model.reward - mean[:, :, None]
    return mean, (model.probability * apart**2).sum(axis=2)


@pytest.mark.parametrize(
    ("env", "means"),
    [("ConalBandit", [2.0] * 5), ("ShiftedConalBandit", [3.0, 2.75, 2.5, 2.25, 2.0])],
)
def test_a_cone_of_arms(env: str, means: list[float]) -> None:
    model = table(env)
    mean, variance = moments(model)
    np.testing.assert_allclose(mean[0], means, rtol=0, atol=1e-14)
    np.testing.assert_allclose(variance[0], np.array([0.1, 0.6, 1.1, 1.6, 2.1]) ** 2, rtol=1e-13)
    best = [mean == max(means) for mean in means]
    assert model.success[0, :, 0].tolist() == best
    quiet = table(f"{env},noise=0")
    np.testing.assert_allclose(moments(quiet)[0], mean, rtol=0, atol=1e-14)
    assert (quiet.n_outcomes == 1).all()


def test_the_field_is_noisy_and_pays_nothing_for_it() -> None:
    model = table("NoisyGridworld")
    mean, variance = moments(model)
    rows, columns = model.next_state[:, :, 0] // 8, model.next_state[:, :, 0] % 8
    acting = np.arange(56) != 31
    field = (rows >= 1) & (rows <= 5) & (columns >= 1) & (columns <= 6)
    goal = model.next_state[:, :, 0] == 31
    assert field[acting].sum() == 4 * 30 - 1 and goal[acting].sum() == 3
    np.testing.assert_allclose(variance[acting], np.where(field, 2.0, 0.0)[acting], atol=1e-12)
    np.testing.assert_allclose(mean[acting], np.where(goal, 10.0, -0.1)[acting], atol=1e-13)
    assert (model.success.any(axis=2) == (goal & acting[:, None])).all()
    assert (model.next_state == model.next_state[:, :, :1]).all()  # moves are sure


def test_the_portal() -> None:
    model = table("PortalBridge")
    into = [(47, 2), (39, 1)]  # from the left, and from above
    for s, a in into:
        assert [tuple(each)[:4] for each in model.outcomes(s, a)] == [
            (0.005, 50, -100.1, False), (0.995, 50, -0.1, False),
        ]  # fmt: skip
    mean, variance = moments(model)
    met = reachable_states(model)
    assert set(map(tuple, np.argwhere((variance > 0) & met[:, None]).tolist())) == set(into)
    assert mean[47, 2] == pytest.approx(-0.6)
    assert variance[47, 2] == pytest.approx(0.005 * 0.995 * 100.0**2)


def test_the_shortcut() -> None:
    model = table("ShortcutMaze")
    for s, a in ((60, 1), (80, 3), (71, 0)):
        assert [tuple(each) for each in model.outcomes(s, a)] == [
            (0.02, 70, 200.0, True, False), (0.98, 70, 0.0, True, False),
        ]  # fmt: skip
    assert (moments(model)[1] > 0).sum() == 3
    assert model.outcomes(98, 2) == [(1.0, 99, 10.0, True, True)]
    assert model.outcomes(2, 2) == [(1.0, 2, -0.1, False, False)]  # a wall: it stays


def test_rows_of_states() -> None:
    model = table("BlindCliffWalk,length=3")
    right = [0, 1, 0]
    for state, action in enumerate(right):
        last = state == 2
        assert model.outcomes(state, action) == [(1.0, state + 1, float(last), last, last)]
        assert model.outcomes(state, 1 - action) == [(1.0, 3, 0.0, True, False)]
    model = table("Chain,length=2")
    assert model.outcomes(0, 0) == [(1.0, 0, -0.01, False, False)]
    assert model.outcomes(1, 0) == [(1.0, 0, -0.01, False, False)]
    assert model.outcomes(0, 1) == [(1.0, 1, -0.01, False, False)]
    assert model.outcomes(1, 1) == [(1.0, 2, 1.0, True, True)]


# --------------------------------------------------------------------------------- taxi


def test_a_sure_passenger_makes_it_gymnasiums_taxi() -> None:
    ours, theirs = FickleTaxiEnv(fickle_probability=0.0), TaxiEnv()
    for state, actions in theirs.P.items():
        for action, outcomes in actions.items():
            inside = [each for each in ours.P[state][action] if each[0] > 0]
            assert [(p, s % 500, r, t) for p, s, r, t in inside] == outcomes
            decided = ours.P[500 + state][action]
            assert [(p, s - 500, r, t) for p, s, r, t in decided] == outcomes


def exact_episode_law(steps: list[int], p: float) -> dict[tuple[int, ...], float]:
    """States of Gymnasium's taxi after fixed actions, from the start state 0 R -> G, by its rules:
    whether the passenger is fickle is drawn first."""
    taxi = TaxiEnv()
    found: dict[tuple[int, ...], float] = {}

    def go(trail: tuple[int, ...], chance: float, fickle: bool, left: list[int]) -> None:
        if not left:
            found[trail[1:]] = found.get(trail[1:], 0.0) + chance
            return
        state = trail[-1]
        ((_, after, _, _),) = taxi.P[state][left[0]]
        row, column, place, _ = taxi.decode(state)
        next_row, next_column, next_place, goal = taxi.decode(after)
        if fickle and place == 4 and (row, column) != (next_row, next_column):
            for other in set(range(4)) - {goal}:
                changed = taxi.encode(next_row, next_column, next_place, other)
                go((*trail, changed), chance / 3, False, left[1:])
        else:
            go((*trail, after), chance, fickle, left[1:])

    start = taxi.encode(0, 0, 0, 1)
    for fickle, chance in ((True, p), (False, 1 - p)):
        go((start,), chance, fickle, steps)
    return found


def test_the_fickle_law_is_gymnasiums() -> None:
    """Picked up, a wall, two moves, put down elsewhere and picked up again: the same trails of
    Taxi's states with the same chances, by the table and by Gymnasium's rules."""
    steps = [4, 1, 0, 0, 2, 3, 0, 0, 5, 4, 1, 1]
    model = table("FickleTaxi,fickle_probability=0.4")
    trails = {(int(TaxiEnv().encode(0, 0, 0, 1)),): 1.0}
    for action in steps:
        after: dict[tuple[int, ...], float] = {}
        for trail, chance in trails.items():
            for each in model.outcomes(trail[-1], action):
                longer = (*trail, each.next_state)
                after[longer] = after.get(longer, 0.0) + chance * each.probability
        trails = {trail: chance for trail, chance in after.items() if chance > 0}
    ours = {tuple(s % 500 for s in trail[1:]): chance for trail, chance in trails.items()}
    theirs = exact_episode_law(steps, 0.4)
    assert len(theirs) == 4
    assert ours == pytest.approx(theirs)


def test_gymnasiums_fickle_taxi_goes_by_these_rules() -> None:
    """The rules above, against the environment itself: how often the destination has changed."""
    env = gym.make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3", fickle_passenger=True)
    taxi, changes, tries = env.unwrapped, 0, 4_000
    env.reset(seed=0)
    for _ in range(tries):
        env.reset()
        taxi.s = taxi.encode(0, 0, 0, 1)  # type: ignore[attr-defined]
        for action in (4, 0):
            state, *_ = env.step(action)
        changes += taxi.decode(state)[3] != 1  # type: ignore[attr-defined]
    assert changes / tries == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / tries))

"""The whole of a run: SB3 goes on beyond `total_timesteps` until a rollout of all environments is
over, and so its remaining progress ends below zero."""

from __future__ import annotations

import numpy as np
import pytest
from sb3_kit import parameters, small_model
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sibling_replay import SiblingSample

LAKE = "FrozenLake-v1"


def betas_of(model, *calls):
    """Time steps and beta of every update of several calls of `learn`."""
    seen = []
    whole = model.train

    def watched(*args, **options):
        whole(*args, **options)
        seen.append((model.num_timesteps, model.replay_buffer.beta))

    model.train = watched
    for total, options in calls:
        model.learn(total, **options)
    return seen


def vectors(n_envs, env=LAKE):
    return make_vec_env(env, n_envs=n_envs, seed=1)


OVERSHOOTS = {
    "one more than a multiple": (lambda: vectors(1), dict(train_freq=4), 101),
    "four environments": (lambda: vectors(4), dict(train_freq=4), 100),
    "episodes": (lambda: vectors(1), dict(train_freq=(1, "episode"), learning_starts=0), 101),
    "normalised": (
        lambda: VecNormalize(vectors(2, "CartPole-v1")), dict(train_freq=3), 101,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERSHOOTS)
def test_a_run_that_goes_beyond_its_total_ends_at_the_final_beta(name):
    make, options, total = OVERSHOOTS[name]
    model = small_model(SiblingSample(), make(), beta_initial=0.3, beta_final=1.0, **options)
    seen = betas_of(model, (total, {}))
    assert model.num_timesteps > total
    assert seen[-1] == (model.num_timesteps, 1.0)
    for steps, beta in seen:
        assert beta == pytest.approx(0.3 + 0.7 * min(steps / total, 1.0), abs=1e-12)
    assert np.isfinite(parameters(model)).all()


def test_beta_may_fall_and_stays_in_range():
    model = small_model(SiblingSample(), vectors(4), train_freq=4, beta_initial=1.0, beta_final=0.0)
    betas = [beta for _, beta in betas_of(model, (100, {}))]
    assert betas[-1] == 0.0 and all(0.0 <= beta <= 1.0 for beta in betas)


@pytest.mark.parametrize("reset", [True, False])
def test_beta_over_several_calls_of_learn(reset):
    """With `reset_num_timesteps` every call has a schedule of its own, else one goes on."""
    model = small_model(SiblingSample(), train_freq=4, learning_starts=0)
    calls = [(50, {}), (51, dict(reset_num_timesteps=reset))]
    first, second = 52, 52 if reset else 104  # whole rollouts of four steps
    seen = betas_of(model, *calls)
    assert [steps for steps, _ in seen] == [
        *range(4, 53, 4),
        *range(4 if reset else 56, second + 1, 4),
    ]
    assert seen[first // 4 - 1] == (52, 1.0) and seen[-1] == (second, 1.0)
    total = 51 if reset else 52 + 51
    for steps, beta in seen[first // 4 :]:
        assert beta == pytest.approx(0.4 + 0.6 * min(steps / total, 1.0), abs=1e-12)

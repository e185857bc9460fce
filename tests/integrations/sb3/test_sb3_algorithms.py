"""Every algorithm of SB3 over our replay: the stock run under Uniform, weighted critics and
unweighted actors, priorities, files, logs, several environments, errors."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch as th
from algorithms_kit import (
    ALGORITHMS,
    BY_STOCK_TRAIN,
    SMALL,
    STOCK,
    WITH_ACTOR,
    critic_of,
    env_of,
    learnt,
    model_of,
    stock_of,
)
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.vec_env import VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform
from sibling_replay.grouping import Auto, Grid
from sibling_replay.integrations import sb3_losses
from support.scenes import heavy_tailed, set_priorities

UPDATES = 1_000
SERVES_AVERAGES = ("SiblingDQN", "SiblingSAC")


def run(model, n_envs=1, updates=UPDATES):
    """A learning run of so many updates; what it has learnt, and its returns."""
    model.learn(SMALL["learning_starts"] + updates * n_envs)
    assert model._n_updates >= updates
    return learnt(model), [episode["r"] for episode in model.ep_info_buffer]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uniform_is_the_stock_class_bit_for_bit_over_1000_updates(name):
    stock, stock_returns = run(stock_of(name))
    ours, returns = run(model_of(name, Uniform()))
    assert np.array_equal(stock, ours) and stock_returns == returns and len(returns) > 3


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uniform_is_the_stock_class_in_several_environments_normalised(name):
    def env():
        return VecNormalize(env_of(name, 3)) if name in WITH_ACTOR else env_of(name, 3)

    stock, _ = run(stock_of(name, env()), 3, 100)
    ours, _ = run(model_of(name, Uniform(), env()), 3, 100)
    assert np.array_equal(stock, ours)
    other, _ = run(model_of(name, Prioritized(), env()), 3, 100)
    assert not np.array_equal(stock, other)


@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_weights_of_one_change_no_bit(name):
    """The way that other strategies learn by, taken by Uniform: only weights make a difference."""
    model = model_of(name, Uniform())
    model.train = model._train_weighted
    assert np.array_equal(run(model, updates=300)[0], run(stock_of(name), updates=300)[0])


# ------------------------------------------------------------------- one update


def watched(model):
    """Batches that a model draws, and the targets that its losses are given."""
    drawn, targets = [], []
    draw, stock_loss = model.replay_buffer.sample, model.stock_loss()

    def sample(*args, **options):
        drawn.append(draw(*args, **options))
        return drawn[-1]

    def loss(values, target, **options):
        targets.append(target.detach().clone())
        return stock_loss(values, target, **options)

    model.replay_buffer.sample = sample
    model.stock_loss = lambda: loss
    return drawn, targets


def values_by_hand(model, critic, samples):
    """[B, critics, quantiles]: a value has one quantile."""
    if hasattr(model, "quantile_net"):
        quantiles = critic(samples.observations)  # [B, quantiles, actions]
        rows = th.arange(len(quantiles))
        return quantiles[rows, :, samples.actions[:, 0]].unsqueeze(1)
    found = critic(samples.observations, samples.actions)
    return found if isinstance(found, th.Tensor) else th.stack(found, dim=1)


def loss_by_hand(name, values, targets, weights):
    """The weighted loss of all critics, a row, a critic and a quantile at a time."""
    total = th.zeros(())
    rows, critics, quantiles = values.shape
    if name in ("SiblingSAC", "SiblingTD3", "SiblingDDPG"):
        factor = 0.5 if name == "SiblingSAC" else 1.0
        for row in range(rows):
            errors = values[row, :, 0] - targets[row, 0]
            total = total + weights[row] * factor * (errors**2).sum() / rows
        return total
    middle = (th.arange(quantiles) + 0.5) / quantiles
    for row in range(rows):
        for critic in range(critics):
            delta = targets[row].reshape(1, -1) - values[row, critic].reshape(-1, 1)
            size = delta.abs()
            huber = th.where(size > 1, size - 0.5, 0.5 * delta**2)
            each = (middle.reshape(-1, 1) - (delta < 0).float()).abs() * huber
            pair = each.sum(dim=0).mean() if name == "SiblingQRDQN" else each.mean() / critics
            total = total + weights[row] * pair / rows
    return total


@pytest.mark.parametrize("strategy", [Prioritized, SiblingSample, SiblingModel])
@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_one_update_by_hand(name, strategy):
    """Plain gradient descent, so that parameters move by the gradient: of the weighted loss for
    critics, of the unweighted one for the actor. Priorities are of the errors before the step."""
    options = {} if name in ("SiblingQRDQN", "SiblingTQC") else {"n_critics": 3}
    if name == "SiblingQRDQN":
        options = {"n_quantiles": 7}
    own = dict(policy_delay=1) if name == "SiblingTD3" else {}
    own |= dict(max_grad_norm=None) if name == "SiblingQRDQN" else {}
    model = model_of(
        name, strategy(alpha=1.0), learning_rate=0.05, learning_starts=200, gamma=0.9, **own,
        policy_kwargs={"net_arch": [16], "optimizer_class": th.optim.SGD, **options},
    )  # fmt: skip
    model.learn(200)
    buffer = model.replay_buffer
    set_priorities(buffer.storage, heavy_tailed(np.random.default_rng(1), 200))
    twin = copy.deepcopy(model.policy)
    drawn, targets = watched(model)
    th.manual_seed(3)
    model.train(1, batch_size=16)
    (samples,), target = drawn, targets[0]
    assert all(th.equal(target, other) for other in targets)
    assert samples.weights.max() - samples.weights.min() > 0.1

    # The critics.
    twin_critic = twin.quantile_net if name == "SiblingQRDQN" else twin.critic
    values = values_by_hand(model, twin_critic, samples)
    loss = loss_by_hand(name, values, target.reshape(16, -1), samples.weights[:, 0])
    loss.backward()
    moved = parameters_of(critic_of(model)) - parameters_of(twin_critic)
    gradient = th.cat([p.grad.ravel() for p in twin_critic.parameters()])
    scale = float(gradient.abs().max())
    assert scale > 1e-3
    np.testing.assert_allclose(moved / scale, -0.05 * gradient / scale, atol=1e-5)

    # The actor, after the critics' step.
    if name in WITH_ACTOR:
        actor_by_hand(model, twin, samples, name).backward()
        moved = parameters_of(model.actor) - parameters_of(twin.actor)
        gradient = th.cat([p.grad.ravel() for p in twin.actor.parameters()])
        scale = float(gradient.abs().max())
        assert scale > 1e-5
        np.testing.assert_allclose(moved / scale, -0.05 * gradient / scale, atol=1e-4)

    # The priorities: the last of a slot's errors is its own.
    each = target.reshape(16, 1, -1).mean(dim=2) - values.detach().mean(dim=2)
    expected = dict(zip(samples.batch.slots, each.abs().mean(dim=1).numpy() + 1e-6, strict=True))
    found = buffer.storage.masses[list(expected)]
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-4)


def parameters_of(network):
    return th.nn.utils.parameters_to_vector(network.parameters()).detach().clone()


def actor_by_hand(model, twin, samples, name):
    """The unweighted loss of the actor as it was, against the critics as they are now."""
    obs = samples.observations
    if name in ("SiblingTD3", "SiblingDDPG"):
        return -model.critic.q1_forward(obs, twin.actor(obs)).mean()
    th.manual_seed(3)
    action, log_prob = twin.actor.action_log_prob(obs)
    weight = 1.0  # of the entropy, before its first step
    if name == "SiblingTQC":
        value = model.critic(obs, action).mean(dim=(1, 2))
    else:
        value = th.cat(model.critic(obs, action), dim=1).min(dim=1).values
    return (weight * log_prob.reshape(-1) - value).mean()


def test_sac_learns_toward_the_mean_target_of_siblings():
    """Several outcomes an entry: each gets its own next action, and the mean is the target."""
    model = model_of(
        "SiblingSAC", SiblingAverage(), key=Grid(2), buffer_size=60, learning_starts=60
    )
    model.learn(60)
    drawn, targets = watched(model)
    given = []
    average = sb3_losses.WeightedLoss.__call__

    def call(self, values, target, **options):
        given.append(target.detach().clone())
        return average(self, values, target, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sb3_losses.WeightedLoss, "__call__", call)
        model.train(1, batch_size=8)
    (samples,) = drawn
    found = samples.batch.outcomes
    assert len(given[0]) == found.size > 8
    for row in range(8):
        places = slice(found.starts[row], found.starts[row + 1])
        mean = float((given[0][places, 0].numpy() * found.shares[places]).sum())
        assert float(targets[0][row]) == pytest.approx(mean, rel=1e-5)
    model.learn(60, reset_num_timesteps=False)
    assert np.isfinite(learnt(model)).all()


def test_the_sign_of_an_error_is_that_of_its_mean():
    """For strategies that tell better from worse than expected."""
    refreshed = []

    class Buffer:
        def update_priorities(self, samples, errors):
            refreshed.append(errors)

    class Samples:
        weights = th.ones(3, 1)

        class batch:
            pass

    Samples.batch.outcomes = Samples.batch
    loss = sb3_losses.WeightedLoss(th.nn.functional.mse_loss, Buffer(), 2)
    loss.draw(Samples)
    target = th.tensor([[0.0], [0.0], [0.0]])
    loss(th.tensor([[1.0], [-1.0], [3.0]], requires_grad=True), target)
    assert not refreshed
    loss(th.tensor([[2.0], [-4.0], [-1.0]], requires_grad=True), target)
    assert refreshed[0].tolist() == [-1.5, 2.5, -2.0]


# ------------------------------------------------------------- every strategy


@pytest.mark.parametrize("strategy", [Uniform, Prioritized, SiblingSample, SiblingModel])
@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_every_strategy_trains_several_environments(name, strategy):
    model = model_of(name, strategy(), env_of(name, 3))
    before = learnt(model)
    run(model, 3, 60)
    after = learnt(model)
    assert np.isfinite(after).all() and not np.array_equal(before, after)
    ok, why = model.replay_buffer.storage.check_valid()
    assert ok, why
    if strategy is not Uniform:
        assert np.unique(model.replay_buffer.storage.masses).size > 20  # refreshed


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in SERVES_AVERAGES])
def test_averages_are_refused_where_there_is_no_mean_target(name):
    with pytest.raises(ValueError, match=rf"SB3's {STOCK[ALGORITHMS[name]].__name__} .*mean over"):
        model_of(name, SiblingAverage())


@pytest.mark.parametrize("name", WITH_ACTOR)
def test_auto_makes_groups_of_continuous_actions(name):
    model = model_of(name, SiblingSample(), key=Auto(), buffer_size=3_000, learning_starts=2_400)
    model.learn(2_450)
    found = model.replay_buffer.storage.support()
    assert found.entries == 2_450 and found.groups < 500
    # The members of a group had different actions, close to each other.
    storage = model.replay_buffer.storage
    action, groups = storage.transitions()["action"][:, 0], storage.groups
    largest = action[groups == np.bincount(groups).argmax()]
    assert np.unique(largest).size > 1 and np.ptp(largest) < 1.5 < np.ptp(action)


# ------------------------------------------------------------------------ files


@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_a_saved_model_and_buffer_continue_bit_for_bit(name, tmp_path):
    model = model_of(name, SiblingSample(alpha=0.7), key=Auto(), beta_final=0.9).learn(100)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = type(model).load(tmp_path / "model", env=env_of(name), device="cpu")
    assert (twin.strategy, twin.beta) == (model.strategy, model.beta)
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    for each in (model, twin):
        th.manual_seed(1)
        each.train(10, batch_size=16)
    assert np.array_equal(learnt(model), learnt(twin))
    assert np.array_equal(model.replay_buffer.storage.masses, twin.replay_buffer.storage.masses)
    twin.learn(50, reset_num_timesteps=False)


def test_checkpoints_and_a_key_function_that_is_given_again(tmp_path):
    def sign(obs, action):
        return action > 0

    model = model_of("SiblingSAC", SiblingSample(), key=sign)
    model.learn(60, callback=CheckpointCallback(60, str(tmp_path), save_replay_buffer=True))
    path = tmp_path / "rl_model_60_steps"
    twin = type(model).load(path, env=env_of("SiblingSAC"), key=sign)
    twin.load_replay_buffer(tmp_path / "rl_model_replay_buffer_60_steps")
    assert np.unique(twin.replay_buffer.storage.groups).size > 2
    with pytest.raises(ValueError, match="give it again"):
        type(model).load(path, env=env_of("SiblingSAC")).learn(10)


@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_a_model_of_the_stock_class_is_loaded(name, tmp_path):
    stock, kind = stock_of(name), ALGORITHMS[name]
    stock.learn(40).save(tmp_path / "stock")
    said = rf"saved by {type(stock).__name__}: {name}\.load.*replay_buffer_class=None"
    with pytest.raises(TypeError, match=said):
        kind.load(tmp_path / "stock", env_of(name), device="cpu")
    model = kind.load(tmp_path / "stock", env_of(name), device="cpu", replay_buffer_class=None)
    assert np.array_equal(learnt(model), learnt(stock))
    assert np.unique(model.learn(100).replay_buffer.storage.masses).size > 5


# ------------------------------------------------------------------------- logs


@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_scalars_reach_tensorboard(name, tmp_path):
    model = model_of(name, SiblingSample(), key=Auto(), tensorboard_log=str(tmp_path))
    model.learn(250, log_interval=1)
    run_name = f"{name}_SiblingSample_1"
    events = EventAccumulator(str(tmp_path / run_name)).Reload()
    ours = ("beta", "ess", "draws_with_siblings", "group_size", "groups_per_entry", "noise_kept")
    assert {f"replay/{each}" for each in ours} <= set(events.Tags()["scalars"])
    for point in events.Scalars("replay/beta"):
        assert point.value == pytest.approx(0.4 + 0.6 * point.step / 250, abs=0.01)


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bad_options_are_named(name):
    for options, error, match in (
        (dict(loss="l1"), (ValueError, TypeError), "loss"),
        (dict(beta_final=-0.1), ValueError, "beta_final"),
        (dict(replay_buffer_kwargs={"key": "exact"}), TypeError, f"give key to {name}"),
        (dict(optimize_memory_usage=True), ValueError, "optimize_memory_usage"),
        (dict(replay_buffer_class=HerReplayBuffer), TypeError, "HER gives an entry another goal"),
    ):
        with pytest.raises(error, match=match):
            model_of(name, SiblingSample(), **options)


@pytest.mark.parametrize("name", BY_STOCK_TRAIN)
def test_errors_that_are_no_numbers_leave_the_networks_whole(name):
    model = model_of(name, Prioritized()).learn(50)
    target = model.quantile_net_target if name == "SiblingQRDQN" else model.critic_target
    with th.no_grad():
        for parameter in target.parameters():
            parameter.fill_(th.nan)
    before = parameters_of(model.policy)
    with pytest.raises(ValueError, match="TD error"):
        model.train(1, batch_size=8)
    assert np.array_equal(before, parameters_of(model.policy), equal_nan=True)
    assert model.replay_buffer.on_draw is None


def test_a_stock_class_that_computes_its_loss_elsewhere_is_named():
    class Other:
        def train(self, gradient_steps):
            return gradient_steps

    with pytest.raises(RuntimeError, match=r"Other\.train .*does not compute its loss by F\.mse"):
        sb3_losses.with_loss(Other().train, "F.mse_loss", lambda: None)


def test_batches_that_no_loss_was_weighted_for_are_noticed():
    model = model_of("SiblingSAC", Prioritized()).learn(40)
    model.losses_a_batch = lambda: 3  # of two critics
    with pytest.raises(RuntimeError, match=r"0 of 2 batches were weighted: SAC"):
        model.train(2, batch_size=8)

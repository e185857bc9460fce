"""SiblingDQN inside SB3: the stock run under Uniform, weighted targets, files, logs, errors."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from sb3_kit import BANDIT, SMALL, parameters, small_model
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.logger import KVWriter, Logger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform
from sibling_replay.diagnostics import (
    by_mass,
    effective_sample_size,
    entry_concentration,
    outcome_numbers,
    outcome_tv,
    take_census,
)
from sibling_replay.integrations.sb3 import SiblingDQN, SiblingReplayBuffer
from support.scenes import STRATEGIES, heavy_tailed, set_priorities

STEPS = 150


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("env", ["CartPole-v1", "FrozenLake-v1"])
def test_uniform_is_the_stock_dqn_number_for_number(env, n_envs):
    """Same seed: the same parameters to the last bit, the same returns, the same actions."""

    def run(make):
        model = make(make_vec_env(env, n_envs=n_envs, seed=1))
        model.learn(STEPS * n_envs)
        return parameters(model), [episode["r"] for episode in model.ep_info_buffer]

    stock, stock_returns = run(lambda env: DQN("MlpPolicy", env, **SMALL))
    ours, returns = run(lambda env: small_model(Uniform(), env))
    other, _ = run(lambda env: small_model(Prioritized(), env))
    assert np.array_equal(stock, ours) and stock_returns == returns
    assert not np.array_equal(stock, other)


@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_trains_several_environments(name, double_q):
    env = make_vec_env("FrozenLake-v1", n_envs=3, seed=1)
    model = small_model(STRATEGIES[name](), env, double_q=double_q, loss="mse")
    before = parameters(model)
    model.learn(STEPS)
    assert model._n_updates > 0 and np.isfinite(parameters(model)).all()
    assert not np.array_equal(parameters(model), before)
    ok, why = model.replay_buffer.storage.check_valid()
    assert ok, why
    if name != "uniform":
        assert np.unique(model.replay_buffer.storage.masses).size > 5  # refreshed


def by_hand(model, samples):
    """Targets of SB3's samples, an outcome at a time, in the words of the paper."""
    online = model.q_net(samples.next_observations).detach().numpy()
    target = model.q_net_target(samples.next_observations).detach().numpy()
    each = []
    for row in range(len(samples.rewards)):
        best = (online if model.double_q else target)[row].argmax()
        alive = 1.0 - samples.dones[row].item()
        each.append(samples.rewards[row].item() + alive * model.gamma * target[row, best])
    if samples.batch.outcomes is samples.batch:
        return np.array(each)
    found = samples.batch.outcomes
    ends = found.starts
    return np.array(
        [
            sum(found.shares[row] * each[row] for row in range(ends[b], ends[b + 1]))
            for b in range(samples.batch.size)
        ]
    )


@pytest.mark.parametrize("loss", ["huber", "mse", "pal:0.5"])
@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("name", ["prioritized", "sample", "model", "average", "average-2"])
def test_one_update_by_hand(name, double_q, loss):
    """One gradient step and its refresh, against the same step written out.

    Plain gradient descent, so that parameters move by the gradient itself; TD errors are those from
    before the step, weights multiply the losses, priorities are of the unweighted errors.
    """
    model = small_model(
        STRATEGIES[name](alpha=1.0), "sibling_replay/FrozenLakeH100-v0", double_q=double_q,
        loss=loss, gamma=0.9, max_grad_norm=1e9, learning_rate=0.5, learning_starts=STEPS,
        policy_kwargs={"net_arch": [16], "optimizer_class": th.optim.SGD},
    )  # fmt: skip
    model.learn(STEPS)
    buffer = model.replay_buffer
    set_priorities(buffer.storage, heavy_tailed(np.random.default_rng(1), STEPS))
    for parameter in model.q_net_target.parameters():  # or both networks choose the same action
        parameter.data += 0.3 * th.randn(parameter.shape, generator=th.Generator().manual_seed(1))
    twin = small_model(Uniform(), "sibling_replay/FrozenLakeH100-v0", double_q=double_q, gamma=0.9)
    twin.policy.load_state_dict(model.policy.state_dict())  # only its networks are used
    drawn = []
    whole = buffer.sample
    buffer.sample = lambda *args, **options: drawn.append(whole(*args, **options)) or drawn[-1]
    before = th.nn.utils.parameters_to_vector(model.q_net.parameters()).detach().clone()
    model.train(1, batch_size=24)
    (samples,) = drawn
    targets = th.tensor(by_hand(twin, samples), dtype=th.float32).reshape(-1, 1)
    values = twin.q_net(samples.observations).gather(1, samples.actions)
    error = values - targets
    huber = th.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5)
    above = error.detach().abs().clamp(min=1.0) ** 0.5
    pal = (
        error.detach().clamp(-1.0, 1.0) * above / above.mean() * error
    )  # its slope times the error
    by_name = {"mse": error**2, "huber": huber, "pal:0.5": pal}
    (by_name[loss] * samples.weights).mean().backward()
    gradient = th.cat([p.grad.ravel() for p in twin.q_net.parameters()])
    after = th.nn.utils.parameters_to_vector(model.q_net.parameters()).detach()
    scale = float(gradient.abs().max())
    np.testing.assert_allclose((after - before) / scale, -0.5 * gradient / scale, atol=1e-5)
    assert scale > 0.01 and samples.weights.min() < 0.9
    # The last of a slot's errors is its priority; AVG keeps the largest.
    expected = {}
    for slot, size in zip(samples.batch.slots, error.detach().abs().numpy()[:, 0], strict=True):
        kept = expected.get(slot, 0.0) if name.startswith("average") else 0.0
        expected[slot] = max(kept, float(size) + 1e-6)
    found = buffer.storage.masses[list(expected)]
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-4, atol=1e-6)


def test_beta_is_annealed_over_the_run():
    seen = []
    model = small_model(SiblingSample(), beta_initial=0.2, beta_final=0.8)
    whole = model.train

    def watched(*args, **options):
        whole(*args, **options)
        seen.append((model.num_timesteps, model.replay_buffer.beta))

    model.train = watched
    model.learn(100)
    assert len(seen) == 80
    for step, beta in seen:
        assert beta == pytest.approx(0.2 + 0.6 * step / 100)


def test_td_errors_that_are_no_numbers_leave_the_network_whole():
    model = small_model(Prioritized()).learn(50)
    with th.no_grad():
        model.q_net_target.q_net[-1].bias.fill_(th.nan)
    before = parameters(model)
    with pytest.raises(ValueError, match="TD error"):
        model.train(1, batch_size=8)
    assert np.array_equal(parameters(model), before, equal_nan=True)


# ------------------------------------------------------------------------ files


def assert_same_future(model, twin):
    """Both take the same updates from here, bit for bit: parameters, optimizer, draws, masses."""
    for each in (model, twin):
        each.train(10, batch_size=16)
    assert np.array_equal(parameters(model), parameters(twin))
    ours, theirs = model.replay_buffer.storage, twin.replay_buffer.storage
    assert np.array_equal(ours.masses, theirs.masses)


@pytest.mark.parametrize("name", ["prioritized", "sample", "model", "average"])
def test_a_saved_model_and_buffer_continue_bit_for_bit(name, tmp_path):
    model = small_model(STRATEGIES[name](alpha=0.7), double_q=True, beta_final=0.9).learn(STEPS)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = type(model).load(tmp_path / "model", env=gym.make("FrozenLake-v1"), device="cpu")
    assert (twin.strategy, twin.double_q, twin.beta) == (model.strategy, True, model.beta)
    assert len(twin.replay_buffer.storage) == 0  # SB3 saves it apart
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    assert_same_future(model, twin)
    twin.learn(50, reset_num_timesteps=False)


def test_checkpoints_carry_the_buffer(tmp_path):
    model = small_model(SiblingSample())
    model.learn(100, callback=CheckpointCallback(100, str(tmp_path), save_replay_buffer=True))
    twin = type(model).load(tmp_path / "rl_model_100_steps", env=gym.make("FrozenLake-v1"))
    twin.load_replay_buffer(tmp_path / "rl_model_replay_buffer_100_steps")
    # The checkpoint is taken on step 100, before its entry is stored.
    assert len(twin.replay_buffer.storage) == 99
    twin.set_logger(model.logger)
    twin.train(1, batch_size=16)


def test_a_model_is_loaded_with_another_strategy(tmp_path):
    small_model(SiblingSample()).learn(50).save(tmp_path / "model")
    twin = small_model(SiblingSample()).load(tmp_path / "model", strategy=SiblingModel())
    assert twin.replay_buffer.storage.strategy == SiblingModel()


def test_a_model_of_the_stock_class_is_loaded(tmp_path):
    """Its networks go on with priorities, once the user has said so."""
    DQN("MlpPolicy", "FrozenLake-v1", **SMALL).learn(50).save(tmp_path / "stock")
    lake = gym.make("FrozenLake-v1")
    with pytest.raises(TypeError, match=r"saved by DQN.*replay_buffer_class=None"):
        SiblingDQN.load(tmp_path / "stock", lake, device="cpu")
    model = SiblingDQN.load(tmp_path / "stock", lake, device="cpu", replay_buffer_class=None)
    assert np.unique(model.learn(100).replay_buffer.storage.masses).size > 5


def test_a_buffer_of_another_strategy_is_refused(tmp_path):
    small_model(SiblingSample()).learn(50).save_replay_buffer(tmp_path / "sample")
    DQN("MlpPolicy", "FrozenLake-v1", **SMALL).save_replay_buffer(tmp_path / "stock")
    model = small_model(Prioritized()).learn(50)
    own = model.replay_buffer
    for name in ("sample", "stock"):
        with pytest.raises(ValueError, match="strategy"):
            model.load_replay_buffer(tmp_path / name)
        assert model.replay_buffer is own


# ------------------------------------------------------------------------- logs


def test_scalars_reach_tensorboard(tmp_path):
    """Written for real, and equal to the diagnostics of the buffer when they were written."""
    model = small_model(
        Prioritized(), gym.make(BANDIT, p=0.2), key="exact", exploration_final_eps=0.5,
        tensorboard_log=str(tmp_path),
    )  # fmt: skip
    expected, dumped = [], []
    record = type(model).dump_logs

    def dump(self):
        storage = self.replay_buffer.storage
        census = take_census(
            storage.groups, outcome_numbers(storage.transitions()), storage.masses, 0.0
        )
        expected.append(
            (by_mass(census, entry_concentration(census)), by_mass(census, outcome_tv(census)))
        )
        dumped.append(self.num_timesteps)
        record(self)

    model.dump_logs = dump.__get__(model)
    model.learn(1500, log_interval=300)
    # Runs of different strategies are told apart by their names.
    events = EventAccumulator(str(tmp_path / "SiblingDQN_Prioritized_1")).Reload()
    assert {"replay/beta", "replay/ess", "train/loss"} <= set(events.Tags()["scalars"])
    # The bandit has one state and two arms.
    assert all(point.value == 1.0 for point in events.Scalars("replay/draws_with_siblings"))
    assert events.Scalars("replay/group_size")[-1].value > 20
    for place, name in enumerate(("within_group_concentration", "outcome_tv")):
        points = events.Scalars(f"replay/{name}")
        # Every 300 episodes of one step there is a dump; the buffer is measured every 1000 steps.
        assert [point.step for point in points] == [300, 1500]
        for point in points:
            value = expected[dumped.index(point.step)][place]
            assert point.value == pytest.approx(value, rel=1e-6) and value > 0
    for point in events.Scalars("replay/beta"):
        assert point.value == pytest.approx(0.4 + 0.6 * point.step / 1500, abs=1e-3)
    sizes = [point.value for point in events.Scalars("replay/ess")]
    assert all(1.0 <= size < 32.0 for size in sizes)


def test_a_name_for_tensorboard_is_kept(tmp_path):
    model = small_model(SiblingSample(), tensorboard_log=str(tmp_path))
    model.learn(8, tb_log_name="DQN")
    model.learn(8)
    small_model(Uniform(), tensorboard_log=str(tmp_path)).learn(8)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["DQN_1", "SiblingDQN_SiblingSample_1", "SiblingDQN_Uniform_1"]


def recorded_names(model, steps):
    """Names of all that a run logs."""
    names = set()

    class Names(KVWriter):
        def write(self, key_values, key_excluded, step=0):
            names.update(key_values)

        def close(self):
            pass

    model.set_logger(Logger(None, [Names()]))
    model.learn(steps, log_interval=1)
    return names


def test_draws_with_siblings_are_logged_where_there_are_groups():
    ours = {"replay/draws_with_siblings", "replay/group_size"}
    assert ours <= recorded_names(small_model(SiblingSample()), 100)
    assert ours <= recorded_names(small_model(Prioritized(), key="exact"), 100)
    assert not ours & recorded_names(small_model(Prioritized()), 100)
    model = small_model(SiblingSample()).learn(100)
    model.train(1, batch_size=32)
    expected = model.replay_buffer.storage.draw_statistics()
    assert expected["draws_with_siblings"] > 0.5
    for name, value in expected.items():
        assert model.logger.name_to_value[f"replay/{name}"] == value


def test_a_run_whose_draws_have_no_siblings_is_warned():
    model = small_model(SiblingSample(), "CartPole-v1", buffer_size=2_000)
    with pytest.warns(UserWarning, match="of the last .* draws.*have siblings") as found:
        model.learn(1_500)
    assert len(found) == 1
    assert model.logger.name_to_value["replay/draws_with_siblings"] < 0.1


def test_the_buffer_is_measured_again_in_a_run_that_starts_again():
    model = small_model(SiblingSample())
    assert "replay/within_group_concentration" in recorded_names(model, 1_200)
    assert "replay/within_group_concentration" in recorded_names(model, 200)


def test_groups_per_entry_and_noise_kept_are_logged_where_there_are_groups():
    names = {"replay/groups_per_entry", "replay/noise_kept"}
    assert names <= recorded_names(small_model(SiblingSample()), 100)
    assert not names & recorded_names(small_model(Prioritized()), 100)


def test_ess_is_of_the_weights_trained_on(monkeypatch):
    model = small_model(SiblingSample()).learn(100)
    drawn = []
    whole = model.replay_buffer.sample
    monkeypatch.setattr(
        model.replay_buffer, "sample", lambda *a, **o: drawn.append(whole(*a, **o)) or drawn[-1]
    )
    model.logger.name_to_value.clear()
    model.logger.name_to_count.clear()
    model.train(1, batch_size=32)
    recorded = model.logger.name_to_value["replay/ess"]
    assert recorded == effective_sample_size(drawn[0].weights.numpy().ravel())


def test_outcomes_are_not_compared_where_they_cannot_be_equal():
    model = small_model(SiblingSample(), "CartPole-v1")
    names = recorded_names(model, 60)
    assert "replay/within_group_concentration" in names and "replay/outcome_tv" not in names


# -------------------------------------------------------------------- bad input


def test_bad_options_are_named():
    for options, error, match in (
        (dict(n_steps=0), ValueError, "n_steps"),
        (dict(loss="l1"), ValueError, "loss"),
        (dict(beta_initial=1.2), ValueError, "beta_initial"),
        (dict(replay_buffer_kwargs={"strategy": Uniform()}), TypeError, "strategy"),
        (dict(optimize_memory_usage=True), ValueError, "optimize_memory_usage"),
    ):
        with pytest.raises(error, match=match):
            small_model(SiblingSample(), **options)
    from stable_baselines3.common.buffers import ReplayBuffer

    with pytest.raises(TypeError, match="SiblingReplayBuffer"):
        small_model(SiblingSample(), replay_buffer_class=ReplayBuffer)
    with pytest.raises(TypeError, match="strategy"):
        small_model("PER")


def test_the_buffer_serves_the_stock_class():
    """`replay_buffer_class=`: with Uniform, again the stock run."""

    def run(**options):
        return parameters(DQN("MlpPolicy", gym.make("CartPole-v1"), **SMALL, **options).learn(80))

    ours = run(
        replay_buffer_class=SiblingReplayBuffer, replay_buffer_kwargs={"strategy": Uniform()}
    )
    assert np.array_equal(ours, run())


def test_a_key_function_groups_continuous_observations():
    model = small_model(
        SiblingAverage(max_siblings=2), "CartPole-v1", key=lambda obs, action: obs[2] > 0
    )
    model.learn(80)
    assert np.unique(model.replay_buffer.storage.groups).size == 4  # two halves, two actions


def test_images_train_a_convolutional_policy():
    env = FakeImageEnv(screen_height=40, screen_width=40, n_channels=1, discrete=True)
    model = SiblingDQN(
        "CnnPolicy", env, strategy=SiblingSample(), buffer_size=60, learning_starts=10,
        train_freq=5, device="cpu",
    )  # fmt: skip
    model.learn(40)
    stored = model.replay_buffer.storage.transitions()["obs"]
    assert stored.dtype == np.uint8 and stored.shape == (40, 1, 40, 40)
    assert model._n_updates > 0

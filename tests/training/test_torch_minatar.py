"""MinAtar runs: the paper's network, one code an observation, and survival of everything."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minatar_kit import SMALL, bytes_of, encoder_of, random_encoder, small

from sibling_replay import ReplayBuffer
from sibling_replay.checkpoint import RollingCheckpoint, StateError
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder
from sibling_replay.rng import streams
from sibling_replay.studies.minatar.runs import minatar_config
from sibling_replay.training.minatar import diagnostics as minatar_diagnostics
from sibling_replay.training.minatar.config import MINATAR_METHODS, MinAtarConfig
from support.killing import run_killed
from support.marks import long_but_for

torch = pytest.importorskip("torch")
from sibling_replay.training.minatar.network import MinAtarNetwork  # noqa: E402
from sibling_replay.training.minatar.session import Session, check_device, evaluate_game, train_game  # noqa: E402
from sibling_replay.training.torch.dqn import DoubleDQN  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def session(config: MinAtarConfig, device: str = "cpu") -> Session:
    return Session(config, encoder_of(config), device)


def test_the_network_is_the_papers() -> None:
    network = MinAtarNetwork(7, 6, np.random.default_rng(0))
    count = sum(p.numel() for p in network.parameters())
    assert count == (7 * 9 * 16 + 16) + (16 * 9 * 32 + 32) + (3200 * 128 + 128) + (128 * 6 + 6)
    obs = torch.rand(5, 10, 10, 7)
    x = torch.relu(torch.conv2d(obs.permute(0, 3, 1, 2).contiguous(), network.first.weight,
                                network.first.bias, padding=1))  # fmt: skip
    x = torch.relu(torch.conv2d(x, network.second.weight, network.second.bias, padding=1))
    expected = network.values(torch.relu(network.hidden(x.permute(0, 2, 3, 1).reshape(5, 3200))))
    torch.testing.assert_close(network(obs), expected, rtol=1e-5, atol=1e-6)


def test_initial_weights_have_torchs_law() -> None:
    """Uniform within 1 / sqrt(fan in), which torch's default is."""
    network = MinAtarNetwork(4, 6, np.random.default_rng(0))
    for layer, fan_in in ((network.first, 36), (network.second, 144), (network.hidden, 3200)):
        weight = layer.weight.detach().numpy()
        assert np.abs(weight).max() <= fan_in**-0.5
        assert weight.std() == pytest.approx((3 * fan_in) ** -0.5, rel=0.1)


METHODS = (*MINATAR_METHODS, "MODEL", "AVG", "AVG-g2", "RANK")
CUTS = [(cut, method) for cut in (31, 150, 233) for method in METHODS]
IN_SHORT = [
    (31, "SAMPLE"), (233, "PER"), (150, "DDQN"), (150, "MODEL"), (150, "AVG-g2"), (150, "RANK")
]  # fmt: skip


@pytest.mark.parametrize(("cut", "method"), [
    pytest.param(*case, marks=[] if case in IN_SHORT else pytest.mark.long) for case in CUTS
])  # fmt: skip
def test_a_restored_session_goes_on_bit_for_bit(method: str, cut: int) -> None:
    whole = session(small(method))
    whole.advance(cut)
    header, arrays = whole.state()
    header = json.loads(json.dumps(header))
    arrays = {name: np.array(array) for name, array in arrays.items()}
    whole.advance(SMALL["steps"])

    resumed = session(small(method))
    resumed.advance(11)  # whatever it did before
    resumed.load_state(header, arrays)
    resumed.advance(SMALL["steps"])
    assert bytes_of(resumed) == bytes_of(whole)
    ours, theirs = resumed.result(), whole.result()
    for name in ("eval_step", "eval_return", "eval_episode"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name, column in ours.diagnostics.items():
        np.testing.assert_array_equal(column, theirs.diagnostics[name])
    assert ours.eval_step.tolist() == [90, 180, 270, 320]
    assert ours.diagnostics["step"].tolist() == [120, 240, 320]


def test_other_maps_make_siblings_and_go_on_bit_for_bit() -> None:
    """A map fits itself to the first entries of the buffer; a state from before and after that."""
    config = replace(small("SAMPLE", capacity=250), encoder="", key="simhash:4")
    whole = session(config)
    for cut in (90, 290):
        part = session(config)
        part.advance(cut)
        header, arrays = part.state()
        resumed = session(config)
        resumed.load_state(json.loads(json.dumps(header)), arrays)
        resumed.advance(SMALL["steps"])
        whole.advance(SMALL["steps"])
        assert bytes_of(resumed) == bytes_of(whole)
    assert len(set(whole.buffer.groups)) > 10
    with pytest.raises(ValueError, match="key must be empty beside an encoder"):
        replace(small("SAMPLE"), key="simhash:4")
    with pytest.raises(ValueError, match="simhash"):
        replace(small("SAMPLE"), encoder="", key="simhush:4")


@pytest.mark.parametrize("method", ["PER", "AVG"])  # one in each learner
def test_networks_of_another_width(method: str) -> None:
    config = replace(small(method), hidden=24)
    if method == "AVG":
        config = replace(config, encoder="", key="simhash:4")
    wide, narrow = session(replace(config, hidden=128)), session(config)
    shapes = [tuple(each.learner.network.hidden.weight.shape) for each in (wide, narrow)]
    assert shapes == [(128, 3200), (24, 3200)]
    narrow.advance(150)
    resumed = session(config)
    resumed.load_state(*narrow.state())
    narrow.advance(200)
    resumed.advance(200)
    assert bytes_of(resumed) == bytes_of(narrow)
    with pytest.raises(StateError, match="another config"):
        wide.load_state(*narrow.state())


@pytest.mark.parametrize("method", long_but_for(("PER", "SAMPLE"), {"SAMPLE"}))
def test_killed_at_random_it_ends_with_the_same_bytes(tmp_path: Path, method: str) -> None:
    whole = session(small(method))
    whole.advance(SMALL["steps"])
    output = tmp_path / "output"
    script = Path(__file__).with_name("killed_minatar_run.py")
    command = [sys.executable, str(script), method, str(tmp_path / "states"), str(output)]
    run_killed(command, output, kills=2, seed=5)
    assert output.read_bytes() == bytes_of(whole)


def test_a_damaged_checkpoint_falls_back_and_changes_nothing(tmp_path: Path) -> None:
    config = small("SAMPLE", steps=200)
    whole = session(config)
    whole.advance(200)
    checkpoint = RollingCheckpoint(tmp_path)
    part = session(config)
    for step in (60, 120):
        part.advance(step)
        checkpoint.save(*part.state())
    data = bytearray(checkpoint.newest.read_bytes())
    data[len(data) // 3] ^= 4
    checkpoint.newest.write_bytes(data)
    with pytest.warns(UserWarning, match="going on from"):
        result = train_game(config, encoder_of(config), checkpoint=checkpoint)
    np.testing.assert_array_equal(result.eval_return, whole.result().eval_return)
    state = checkpoint.load()
    assert state is not None
    resumed = session(config)
    resumed.load_state(*state)
    assert bytes_of(resumed) == bytes_of(whole)


def test_a_checkpoint_of_another_config_is_refused(tmp_path: Path) -> None:
    checkpoint = RollingCheckpoint(tmp_path)
    part = session(small("PER"))
    part.advance(80)
    checkpoint.save(*part.state())
    with pytest.raises(StateError, match="another config"):
        train_game(small("PER", gamma=0.9), checkpoint=checkpoint)


OTHER = "cpu:0"  # goes the way of every device but "cpu", a GPU's, on this machine


def test_a_checkpoint_of_another_device_is_refused_and_changes_nothing() -> None:
    part, other = session(small("PER")), session(small("PER"), OTHER)
    part.advance(80)
    for to, of in ((other, part), (part, other)):
        entries = len(to.buffer)
        with pytest.raises(StateError, match="--device it began on"):
            to.load_state(*of.state())
        assert len(to.buffer) == entries


@pytest.mark.parametrize("method", long_but_for(MINATAR_METHODS, {"SAMPLE"}))
def test_another_device_trains_alike_and_goes_on_after_a_stop(tmp_path: Path, method: str) -> None:
    """The learner of other devices adds up in another order: beginnings agree, and a run that
    stopped ends as if it had not."""
    config = small(method, steps=200)
    whole, ours = session(config, OTHER), session(config)
    assert type(whole.learner) is DoubleDQN is not type(ours.learner)
    for one in (whole, ours):
        one.advance(config.learning_starts + 5)
    obs = np.random.default_rng(0).random((20, 10, 10, 4)) < 0.2
    theirs, mine = (one.learner.network(one.learner.features(obs)) for one in (whole, ours))
    torch.testing.assert_close(theirs, mine, rtol=1e-3, atol=1e-4)
    whole.advance(config.steps)

    class Stop(Exception):
        pass

    def stop(running: Session) -> None:
        if running.position.number >= 100:
            raise Stop

    checkpoint = RollingCheckpoint(tmp_path)
    common = {"checkpoint": checkpoint, "checkpoint_seconds": 0.0, "device": OTHER}
    with pytest.raises(Stop):
        train_game(config, encoder_of(config), observe=stop, **common)  # type: ignore[arg-type]
    resumed = train_game(config, encoder_of(config), **common)  # type: ignore[arg-type]
    expected = whole.result()
    np.testing.assert_array_equal(resumed.eval_return, expected.eval_return)
    for name, column in expected.diagnostics.items():
        np.testing.assert_array_equal(resumed.diagnostics[name], column, err_msg=name)


@pytest.mark.parametrize("device", ["banana", "cuda:99", ""])
def test_a_device_that_is_not_there_is_refused_by_name(device: str) -> None:
    check_device("cpu")
    with pytest.raises(ValueError, match=f"device '{device}': "):
        check_device(device)


def test_the_checkpoint_of_a_full_buffer_is_small(tmp_path: Path) -> None:
    """100,000 entries of the game with most channels, groups kept: under 60 MB."""
    encoder = random_encoder(channels=10)
    config = minatar_config("Seaquest", "SAMPLE", "clean", 0, encoder=encoder.digest)
    full = Session(config, encoder)
    full.advance(50)
    obs = full.position.obs
    n = 100_000
    rng = np.random.default_rng(0)
    full.buffer.extend(
        np.broadcast_to(obs, (n, *obs.shape)), rng.integers(6, size=n), np.zeros(n),
        np.broadcast_to(obs, (n, *obs.shape)), np.zeros(n, bool), np.zeros(n, bool),
    )  # fmt: skip
    checkpoint = RollingCheckpoint(tmp_path)
    checkpoint.save(*full.state())
    assert len(full.buffer) == n
    assert checkpoint.newest.stat().st_size < 60e6


class Counting(FrozenEncoder):
    """Notes what it codes, one at a time."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        super().__init__(encoder.weights, encoder.grid)
        self.seen: list[bytes] = []

    def __call__(self, obs: Any, action: Any = None) -> int:
        self.seen.append(obs.tobytes())
        return super().__call__(obs)


def test_every_observation_is_coded_once() -> None:
    """When it is stored: s' is the next step's s."""
    config = small("SAMPLE", steps=200, diagnostics_every=0)
    encoder = Counting(random_encoder())
    run = Session(config, encoder)
    run.advance(200)
    assert len(encoder.seen) == 200 and run.episodes > 2
    stored = run.buffer.transitions()
    code = encoder.keys(stored["obs"])
    _, ours = np.unique(run.buffer.groups, return_inverse=True)
    _, theirs = np.unique(code * 6 + stored["action"], return_inverse=True)
    pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
    assert len(pairs) == ours.max() + 1 == theirs.max() + 1  # the same partition


@pytest.mark.parametrize("cut", [31, 150])
def test_a_checkpoint_with_groups_given_by_number_goes_on_bit_for_bit(cut: int) -> None:
    """As runs had them before the encoder was the buffer's key: group = code * actions + action."""
    config = small("SAMPLE")
    whole = session(config)
    older = ReplayBuffer.for_env(
        whole.game, config.capacity, whole.buffer.strategy, key="given", seed=streams(3).replay
    )
    draw, refresh = whole.buffer.sample, whole.buffer.update_priorities

    def sample(size: int, beta: float) -> Any:
        older.twin = older.sample(size, beta)  # type: ignore[attr-defined]
        batch = draw(size, beta)
        assert np.array_equal(batch.slots, older.twin.slots)  # type: ignore[attr-defined]
        return batch

    def update(batch: Any, errors: Any) -> None:
        older.update_priorities(older.twin, errors)  # type: ignore[attr-defined]
        refresh(batch, errors)

    add = whole.buffer.add

    def add_both(obs: Any, action: int, *rest: Any, **place: Any) -> None:
        older.add(obs, action, *rest, group=random_encoder()(obs) * 6 + action, **place)
        add(obs, action, *rest, **place)

    whole.buffer.sample, whole.buffer.update_priorities = sample, update  # type: ignore[method-assign]
    whole.buffer.add = add_both  # type: ignore[assignment,method-assign]
    whole.advance(cut)
    header, arrays = whole.state()
    state = older.state_dict()
    header["buffer"] = state.pop("header")
    assert header["buffer"]["key"] == "given"
    arrays = {name: x for name, x in arrays.items() if not name.startswith("buffer/")}
    arrays |= {f"buffer/{name}": x for name, x in state.items()}

    resumed = session(config)
    resumed.load_state(json.loads(json.dumps(header)), arrays)
    for run in (resumed, whole):
        run.advance(SMALL["steps"])
    assert bytes_of(resumed) == bytes_of(whole)


def test_evaluation_is_on_the_unperturbed_game_and_changes_no_training() -> None:
    """Rewards of Breakout are whole numbers; with mp-tail none of the positive ones is."""
    often = session(small("DDQN", eval_every_steps=50, eval_episodes=2))
    seldom = session(small("DDQN", eval_every_steps=320, eval_episodes=2))
    for run in (often, seldom):
        run.advance(320)
    returns = 2 * often.result().eval_return
    np.testing.assert_array_equal(returns, np.round(returns))
    rewards = often.buffer.transitions()["reward"]
    assert (rewards != np.round(rewards)).any()
    one, other = often.learner.arrays(), seldom.learner.arrays()
    assert all((one[name] == other[name]).all() for name in one)


def test_clean_and_tail_share_the_game_until_learning_starts() -> None:
    clean, tail = (
        session(small("DDQN", condition, learning_starts=200)) for condition in ("clean", "mp-tail")
    )
    for run in (clean, tail):
        run.advance(120)
    ours, theirs = clean.buffer.transitions(), tail.buffer.transitions()
    np.testing.assert_array_equal(ours["obs"], theirs["obs"])
    positive = ours["reward"] > 0
    np.testing.assert_array_equal(positive, ours["reward"] != theirs["reward"])
    low, high = 1.0 - 30.0, 1.0 + 0.6 / 0.98
    assert np.isin(theirs["reward"][positive], np.float32([low, high])).all() and positive.any()


def test_evaluation_is_a_function_of_its_seeds() -> None:
    run = session(small("DDQN"))
    run.advance(100)
    seeds = np.array([3, 4, 5])
    alone = [evaluate_game(run.config, run.learner, seeds[[i]]) for i in range(3)]
    assert evaluate_game(run.config, run.learner, seeds) == pytest.approx(np.mean(alone))
    assert evaluate_game(run.config, run.learner, seeds) == evaluate_game(
        run.config, run.learner, seeds
    )


def test_diagnostics_are_in_range_and_absent_before_learning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minatar_diagnostics, "MEASURE_EVERY", 10)
    run = session(small("SAMPLE", learning_starts=130))
    run.advance(320)
    columns = run.result().diagnostics
    early = columns["step"] <= 120
    assert np.isnan(columns["ess"][early]).all() and np.isnan(columns["action_l1"][early]).all()
    late = columns["step"] >= 240
    assert ((columns["ess"][late] > 1) & (columns["ess"][late] <= 32)).all()
    assert ((columns["action_l1"][late] >= 0) & (columns["action_l1"][late] <= 2)).all()
    gaps = np.stack([columns[f"action_gap_{action}"] for action in range(6)])
    assert np.isnan(gaps[:, early]).all()
    np.testing.assert_allclose(np.abs(gaps).sum(axis=0)[late], columns["action_l1"][late])
    np.testing.assert_allclose(gaps.sum(axis=0)[late], 0.0, atol=1e-12)
    assert (columns["td_std"][late] > 0).all()
    assert (columns["ratio_mean"][late] > 0).all()


def test_the_ratio_is_the_papers() -> None:
    """R_i = n_g u_i / s_g of the drawn slots, from the buffer's own masses and groups."""
    run = session(small("SAMPLE"))
    run.advance(150)
    batch = run.buffer.sample(32, 0.4)
    masses, groups = run.buffer.masses, run.buffer.groups
    expected = [
        (groups == groups[slot]).sum() * masses[slot] / masses[groups == groups[slot]].sum()
        for slot in batch.slots
    ]
    np.testing.assert_allclose(run.windows._ratio(batch), expected, rtol=1e-9)


def test_another_encoder_than_the_configs_is_refused() -> None:
    with pytest.raises(ValueError, match="encoder"):
        Session(small("SAMPLE"), random_encoder(codes=5))
    with pytest.raises(ValueError, match="encoder"):
        Session(small("SAMPLE"), None)


def test_an_encoder_of_another_game_is_refused_by_its_channels() -> None:
    """Breakout's encoder has 4 channels, Seaquest 10."""
    encoder = random_encoder(channels=4)
    config = minatar_config("Seaquest", "SAMPLE", "clean", 0, encoder=encoder.digest)
    with pytest.raises(ValueError, match=r"Seaquest has 10 channels, and encoder .* of 4: take"):
        Session(config, encoder)

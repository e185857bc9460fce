"""Encoders are trained in pieces as in one, saved without code, and found again by digest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sibling_replay.checkpoint import StateError
from sibling_replay.grouping.vqvae.files import (
    EncoderConfig,
    encoder_files,
    find_encoder,
    load_encoder,
    save_encoder,
)
from sibling_replay.grouping.vqvae.observations import collect_observations
from support.killing import run_killed

torch = pytest.importorskip("torch")
from sibling_replay.grouping.vqvae import training  # noqa: E402
from sibling_replay.grouping.vqvae.training import train_encoder  # noqa: E402

CONFIG = EncoderConfig("Breakout", codes=8, observations=3_000, updates=60, batch_size=16, seed=2)

KILLED = """
import sys, torch
torch.set_num_threads(1)
from pathlib import Path
from sibling_replay.grouping.vqvae import training
from sibling_replay.grouping.vqvae.files import EncoderConfig, save_encoder
training.LOG_EVERY = 10
config = EncoderConfig("Breakout", codes=8, observations=3_000, updates=60, batch_size=16, seed=2)
out = Path(sys.argv[1])
file = training.train_encoder(
    config, out, lambda progress: print(progress.update, flush=True), checkpoint_seconds=0
)
save_encoder(out / "done.npz", file)
"""


@pytest.fixture(autouse=True)
def frequent_logs(monkeypatch):
    monkeypatch.setattr(training, "LOG_EVERY", 10)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_observations_are_those_of_random_play() -> None:
    data = collect_observations("Seaquest", 700, seed=1)
    again = collect_observations("Seaquest", 700, seed=1)
    other = collect_observations("Seaquest", 700, seed=2)
    assert data.digest == again.digest != other.digest
    assert data.shape == (10, 10, 10) and data.bits.shape == (700, 125)  # 1000 bits
    obs = data.at(slice(None))
    assert obs.dtype == np.bool_ and obs.shape == (700, 10, 10, 10)
    np.testing.assert_array_equal(data.at(np.array([5, 5, 600])), obs[[5, 5, 600]])
    assert obs.any(axis=(1, 2, 3)).all()
    assert set(data.action.tolist()) == set(range(6))


@pytest.mark.long
def test_killed_at_random_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    save_encoder(whole / "done.npz", train_encoder(CONFIG, whole))
    broken = tmp_path / "broken"
    broken.mkdir()
    command = [sys.executable, "-c", KILLED, str(broken)]
    run_killed(command, broken / "done.npz", kills=2, seed=1)
    assert (whole / "done.npz").read_bytes() == (broken / "done.npz").read_bytes()


def test_an_encoder_file_round_trips_and_is_checked(tmp_path: Path) -> None:
    file = train_encoder(CONFIG, tmp_path)
    path = tmp_path / "encoder.npz"
    save_encoder(path, file)
    back = load_encoder(path)
    assert back.config == CONFIG and back.data_digest == file.data_digest
    assert back.reconstruction == file.reconstruction > 0
    obs = collect_observations("Breakout", 300, seed=5).at(slice(None))
    np.testing.assert_array_equal(back.encoder.keys(obs), file.encoder.keys(obs))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateError):
        load_encoder(path)


def test_encoders_are_found_by_digest_and_by_their_game(tmp_path: Path) -> None:
    small = train_encoder(CONFIG, tmp_path)
    paper = EncoderConfig(
        "Breakout", codes=16, observations=3_000, updates=20, batch_size=16, seed=2
    )
    of_paper_form = train_encoder(paper, tmp_path)
    for file in (small, of_paper_form):
        save_encoder(tmp_path / f"{file.config.name}.npz", file)
    assert find_encoder(tmp_path, small.encoder.digest).digest == small.encoder.digest
    names = f"{of_paper_form.config.name}.npz, {small.config.name}.npz"
    with pytest.raises(ValueError, match=rf"several encoders of Breakout \({names}\)"):
        encoder_files(tmp_path)  # which of them is meant is not guessed
    one = tmp_path / f"{of_paper_form.config.name}.npz"
    found = encoder_files(one)
    assert found["Breakout"].encoder.digest == of_paper_form.encoder.digest
    assert find_encoder(one, of_paper_form.encoder.digest).digest == of_paper_form.encoder.digest
    package = encoder_files()
    assert found.keys() == package.keys()  # other games have the package's
    assert found["SpaceInvaders"].encoder.digest == package["SpaceInvaders"].encoder.digest
    shipped = package["Breakout"].encoder.digest
    assert find_encoder(tmp_path, shipped).digest == shipped == find_encoder(None, shipped).digest

    (tmp_path / f"{of_paper_form.config.name}.npz").unlink()
    assert encoder_files(tmp_path)["Breakout"].encoder.digest == small.encoder.digest
    save_encoder(tmp_path / "copy.npz", small)  # the same one under two names is one
    assert encoder_files(tmp_path)["Breakout"].encoder.digest == small.encoder.digest
    with pytest.raises(FileNotFoundError, match="nowhere"):
        encoder_files(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="vqvae train"):
        find_encoder(tmp_path, "0" * 32)


def test_a_checkpoint_of_another_config_is_refused(tmp_path: Path) -> None:
    train_encoder(CONFIG, tmp_path)
    other = EncoderConfig(
        "Breakout", codes=8, observations=3_000, updates=61, batch_size=16, seed=2
    )
    with pytest.raises(StateError, match="another config"):
        train_encoder(other, tmp_path)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"game": "Pong"}, "Pong"),
        ({"updates": 0}, "updates"),
        ({"observations": 0}, "observations"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"codes": 0}, "codes must be from 2"),
        ({"codes": 1}, "codes must be from 2"),
        ({"grid": (4, 1)}, "grid must have 1 to 3"),
        ({"grid": (3, 3), "codes": 256}, "64 bits: choose a smaller grid or fewer codes"),
        ({"loss": "mae"}, "loss must be"),
    ],
)
def test_a_bad_config_is_refused(changed: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        EncoderConfig(**{"game": "Breakout", **changed})  # type: ignore[arg-type]

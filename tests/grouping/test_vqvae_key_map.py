"""The frozen encoder as a key map: from a file into a buffer of MinAtar transitions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from sibling_replay import KeyMap, ReplayBuffer, SiblingSample, StateError
from sibling_replay.envs import MinAtarEnv
from sibling_replay.grouping.vqvae import VQVAE
from sibling_replay.grouping.vqvae.files import load_encoder, shipped_encoder

pytest.importorskip("minatar")


def play(buffer: ReplayBuffer, env: MinAtarEnv, steps: int) -> None:
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    for _ in range(steps):
        action = int(rng.integers(6))
        following, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, reward, following, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else following


@pytest.mark.parametrize("game", ["Breakout", "Freeway"])
def test_a_buffer_of_minatar_groups_by_the_codes_of_a_file(game, tmp_path) -> None:
    env, key = MinAtarEnv(game), VQVAE(shipped_encoder(game))
    buffer = ReplayBuffer.for_env(env, 500, SiblingSample(), key=key, seed=0)
    play(buffer, env, 700)
    stored = buffer.transitions()
    codes = load_encoder(shipped_encoder(game)).encoder.keys(stored["obs"])
    assert np.array_equal(stored["group_key"], codes)
    pairs = {*zip(buffer.groups.tolist(), (6 * codes + stored["action"]).tolist(), strict=True)}
    groups = len(np.unique(buffer.groups))
    assert len(pairs) == groups == len(np.unique(6 * codes + stored["action"]))
    assert 20 < groups < 250  # of exact ones there are more
    whole = ReplayBuffer.for_env(env, 500, SiblingSample(), key=VQVAE(game), seed=0)
    columns = [stored[name] for name in ("obs", "action", "reward", "next_obs")]
    whole.extend(*columns, stored["terminated"], stored["truncated"])
    assert np.array_equal(whole.transitions()["group_key"], codes)

    buffer.save(tmp_path / "buffer.npz")
    again = ReplayBuffer.load(tmp_path / "buffer.npz", key=pickle.loads(pickle.dumps(key)))
    assert np.array_equal(again.sample(64).slots, buffer.sample(64).slots)
    other = VQVAE("Asterix" if game == "Breakout" else "SpaceInvaders")
    with pytest.raises((StateError, ValueError), match=r"digest|trained on"):
        ReplayBuffer.load(tmp_path / "buffer.npz", key=other)


def test_it_names_itself() -> None:
    key, file = VQVAE("SpaceInvaders"), load_encoder(shipped_encoder("SpaceInvaders"))
    assert isinstance(key, KeyMap) and key.digest == file.encoder.digest
    assert repr(key) == f"<VQVAE: 2x1 codes of 32, digest {key.digest[:8]}>"


def test_observations_of_another_game_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"10x10x4 cells, got bool .*the game it was trained on"):
        ReplayBuffer.for_env(MinAtarEnv("Seaquest"), 10, SiblingSample(), key=VQVAE("Breakout"))
    with pytest.raises(FileNotFoundError):
        VQVAE("breakout.npz")


def test_codes_need_no_torch() -> None:
    code = (
        "import sys; from sibling_replay.grouping.vqvae import VQVAE; VQVAE('Breakout')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Train a VQ-VAE on a random policy's observations, in pieces if need be.

A run is a pure function of its config. It checkpoints by the clock; killed at any moment it goes on
from the last checkpoint and ends with the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sibling_replay.checkpoint import RollingCheckpoint, StateError, read_state, write_state
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder, weights_of
from sibling_replay.grouping.vqvae.files import EncoderConfig, EncoderFile
from sibling_replay.grouping.vqvae.model import Form, VQVAEModel
from sibling_replay.grouping.vqvae.observations import Observations, collect_observations
from sibling_replay.rng import streams

LOG_EVERY = 500  # updates; a logged loss is the mean over as many minibatches
REVIVE_EVERY = 100  # updates between looks for dead codes
SETTLE = 0.75  # of training: no code is moved away after it
CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True)
class TrainingProgress:
    update: int
    of: int
    reconstruction: float  # mean over the last LOG_EVERY minibatches
    used_codes: int  # that are not dead


def train_encoder(
    config: EncoderConfig,
    directory: Path,
    observe: Callable[[TrainingProgress], None] = lambda progress: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> EncoderFile:
    """The trained encoder. `directory`, which must exist, keeps observations and checkpoints."""
    checkpoint = RollingCheckpoint(directory / config.name)
    with checkpoint.owned():
        return _train(config, directory, checkpoint, observe, checkpoint_seconds)


def _train(
    config: EncoderConfig,
    directory: Path,
    checkpoint: RollingCheckpoint,
    observe: Callable[[TrainingProgress], None],
    checkpoint_seconds: float,
) -> EncoderFile:
    data = stored_observations(config, directory)
    digest = data.digest
    rng = streams(config.seed)
    form = Form(data.shape[-1], config.grid, config.codes, config.loss)
    model = VQVAEModel(form, rng.init, config.learning_rate)
    log = np.zeros((-(-config.updates // LOG_EVERY), 2))  # loss, live codes
    running = 0.0  # sum of losses since the last logged one
    first = 0

    saved = checkpoint.load()
    if saved is not None:
        header, arrays = saved
        if header["config"] != _plain_config(config) or header["data_digest"] != digest:
            raise StateError(f"{checkpoint.directory} holds a checkpoint of another config")
        first, running = header["update"], header["running"]
        rng.init.bit_generator.state = header["init"]
        rng.replay.bit_generator.state = header["replay"]
        log = np.array(arrays.pop("log"))
        model.load_arrays(arrays)

    def save(update: int) -> None:
        header = {
            "config": _plain_config(config),
            "data_digest": digest,
            "update": update,
            "running": running,
            "init": rng.init.bit_generator.state,
            "replay": rng.replay.bit_generator.state,
        }
        checkpoint.save(header, {**model.arrays(), "log": log})

    last_saved = time.monotonic()
    for update in range(first + 1, config.updates + 1):
        places = rng.replay.integers(len(data), size=config.batch_size)
        obs = torch.from_numpy(data.at(places)).to(torch.float32)
        revive = update % REVIVE_EVERY == 0 and update < SETTLE * config.updates
        loss, _ = model.update(obs, revive=revive)
        running += loss
        if update % LOG_EVERY == 0 or update == config.updates:
            row, past = divmod(update - 1, LOG_EVERY)
            alive = int((model.uses > 1e-3 * config.batch_size).sum())
            log[row] = running / (past + 1), alive
            running = 0.0
            observe(TrainingProgress(update, config.updates, float(log[row, 0]), alive))
        if time.monotonic() - last_saved >= checkpoint_seconds or update == config.updates:
            save(update)
            last_saved = time.monotonic()
    encoder = FrozenEncoder(weights_of(model.arrays()), config.grid)
    return EncoderFile(encoder, config, digest, float(log[-1, 0]))


def stored_observations(config: EncoderConfig, directory: Path) -> Observations:
    """The config's observations: from the directory, or collected and put there.

    All configs of a game that ask for the same observations share one file.
    """
    wanted: dict[str, Any] = {
        "game": config.game,
        "count": config.observations,
        "seed": config.seed,
    }
    path = directory / f"{config.game}-{config.observations}-seed{config.seed}.observations"
    if path.exists():
        header, arrays = read_state(path)
        return Observations(tuple(header["shape"]), arrays["bits"], arrays["action"])
    data = collect_observations(**wanted)
    header = {"of": wanted, "shape": list(data.shape)}
    write_state(path, header, {"bits": data.bits, "action": data.action})
    return data


def _plain_config(config: EncoderConfig) -> dict[str, Any]:
    return {**asdict(config), "grid": list(config.grid)}

"""Encoder files: a frozen encoder with the config and data it came from, as plain arrays."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sibling_replay.checkpoint import StateError, read_state, write_state
from sibling_replay.envs import GAMES
from sibling_replay.grouping.frozen import FrozenEncoder, Weights

KIND = "sibling-replay VQ-VAE encoder"
SHIPPED = Path(__file__).parent.parent / "grouping" / "encoders"
"""Encoders of the paper's forms, trained by `sibling-replay vqvae train`."""


@dataclass(frozen=True)
class EncoderConfig:
    """One VQ-VAE. The defaults are the paper's."""

    game: str
    grid: tuple[int, int] = (2, 1)  # rows and columns of codes
    codes: int = 16  # K; the paper takes 32 for SpaceInvaders
    loss: Literal["bce", "mse"] = "bce"
    seed: int = 0
    observations: int = 1_500_000  # of a random policy
    updates: int = 100_000
    batch_size: int = 256
    learning_rate: float = 3e-4  # Adam's

    def __post_init__(self) -> None:
        if self.game not in GAMES:
            raise ValueError(f"unknown game {self.game!r}: choose from {', '.join(GAMES)}")
        for name in ("observations", "updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")

    @property
    def name(self) -> str:
        """Readable, and different for different configs of different form, loss and seed."""
        rows, columns = self.grid
        return f"{self.game}-{rows}x{columns}-{self.codes}-{self.loss}-seed{self.seed}"


def paper_codes(game: str) -> int:
    """K of the paper's selected encoder (table `tab:vqvae`)."""
    return 32 if game == "SpaceInvaders" else 16


@dataclass(frozen=True)
class EncoderFile:
    """What an encoder file holds."""

    encoder: FrozenEncoder
    config: EncoderConfig
    data_digest: str  # of the observations it was trained on
    reconstruction: float  # loss an element, mean over the last training minibatches


def save_encoder(path: str | os.PathLike[str], file: EncoderFile) -> None:
    header = {
        "kind": KIND,
        "config": asdict(file.config),
        "data_digest": file.data_digest,
        "reconstruction": file.reconstruction,
        "digest": file.encoder.digest,
    }
    write_state(path, header, file.encoder.weights._asdict())


def load_encoder(path: str | os.PathLike[str]) -> EncoderFile:
    """The encoder in a file, checked against the digest it was saved with."""
    header, arrays = read_state(path)
    if header.get("kind") != KIND:
        raise StateError(f"{path} is not an encoder file")
    try:
        config = encoder_config(header["config"])
        encoder = FrozenEncoder(Weights(**arrays), config.grid)
        found = EncoderFile(encoder, config, header["data_digest"], header["reconstruction"])
    except Exception as error:  # a header can be wrong in any way
        raise StateError(f"{path} does not describe an encoder: {error!r}") from error
    if encoder.digest != header["digest"]:
        raise StateError(f"{path}: the weights are not those it was saved with")
    return found


def encoder_config(saved: dict[str, Any]) -> EncoderConfig:
    """A config from plain data, where the grid is a list."""
    return EncoderConfig(**{**saved, "grid": tuple(saved["grid"])})


def encoder_files(own: Path | None = None) -> dict[str, EncoderFile]:
    """Game -> its encoder: one of the directory `own`, or else the package's.

    Of several in `own`, that of the paper's form (2x1, its K, bce) and the least seed.
    """
    found = _chosen(SHIPPED)
    if own is None:
        return found
    if not own.is_dir():
        raise FileNotFoundError(f"there is no directory of encoders {own}")
    return found | _chosen(own)


def _chosen(directory: Path) -> dict[str, EncoderFile]:
    by_game: dict[str, list[EncoderFile]] = {}
    for path in sorted(directory.glob("*.npz")):
        file = load_encoder(path)
        by_game.setdefault(file.config.game, []).append(file)
    found = {}
    for game, files in by_game.items():
        of_paper = [file for file in files if _is_papers(file.config)]
        if not of_paper and len(files) > 1:
            names = ", ".join(file.config.name for file in files)
            raise ValueError(f"{directory} has several encoders of {game} ({names}): leave one")
        found[game] = min(of_paper or files, key=lambda file: file.config.seed)
    return found


def _is_papers(config: EncoderConfig) -> bool:
    form = (config.grid, config.codes, config.loss)
    return form == ((2, 1), paper_codes(config.game), "bce")


def shipped_encoder(game: str) -> Path:
    """The file of the package's encoder for a game."""
    return SHIPPED / f"{game}.npz"


def find_encoder(own: Path | None, digest: str) -> FrozenEncoder:
    """The encoder with this digest, among the files of a directory and of the package."""
    places = [SHIPPED] if own is None else [own, SHIPPED]
    for path in (path for place in places for path in sorted(place.glob("*.npz"))):
        encoder = load_encoder(path).encoder
        if encoder.digest == digest:
            return encoder
    raise FileNotFoundError(
        f"no encoder {digest} in {' or '.join(map(str, places))}: "
        "make one with `sibling-replay vqvae train`"
    )

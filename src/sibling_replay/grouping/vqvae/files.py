"""Encoder files: a frozen encoder with the config and data it came from, as plain arrays."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sibling_replay.checkpoint import StateError, read_state, write_state
from sibling_replay.envs import GAMES
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder, Weights, check_form

KIND = "sibling-replay VQ-VAE encoder"
SHIPPED = Path(__file__).parent / "encoders"
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
        check_form(self.grid, self.codes)
        if self.loss not in ("bce", "mse"):
            raise ValueError(f'loss must be "bce" or "mse", got {self.loss!r}')
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

    @property
    def description(self) -> str:
        """In a line: name, form, digest."""
        (rows, columns), codes = self.config.grid, self.config.codes
        form = f"{rows}x{columns} codes of {codes}, {self.config.loss}"
        return f"{self.config.name}: {form}, digest {self.encoder.digest}"


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
    try:
        header, arrays = read_state(path)
    except StateError as error:
        raise StateError(
            f"{path} is not a complete encoder file ({error.__cause__ or error}): "
            "copy it anew, or train it with `sibling-replay vqvae train`"
        ) from error
    if header.get("kind") != KIND:
        raise StateError(f"{path} is not an encoder file")
    try:
        config = encoder_config(header["config"])
        encoder = FrozenEncoder(Weights(**arrays), config.grid)
        found = EncoderFile(encoder, config, header["data_digest"], header["reconstruction"])
    except Exception as error:  # a header can be wrong in any way
        raise StateError(f"{path} does not describe an encoder: {error!r}") from error
    if encoder.codes != config.codes or encoder.digest != header["digest"]:
        raise StateError(f"{path}: the weights are not those it was saved with")
    return found


class VQVAE(FrozenEncoder):
    """The key map in an encoder file, or the one that comes along for a game: VQVAE("Breakout").

    Examples:
        >>> key = VQVAE("Breakout")
        >>> key.keys(np.zeros((2, 10, 10, 4), dtype=bool), np.zeros(2, dtype=int)).shape[0]
        2
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        path = shipped_encoder(str(file)) if file in GAMES else file
        encoder = load_encoder(path).encoder
        super().__init__(encoder.weights, encoder.grid)


def encoder_config(saved: dict[str, Any]) -> EncoderConfig:
    """A config from plain data, where the grid is a list."""
    return EncoderConfig(**{**saved, "grid": tuple(saved["grid"])})


def encoder_files(own: Path | None = None) -> dict[str, EncoderFile]:
    """Game -> its encoder: that of the file or directory `own`, else the package's."""
    found = _by_game(SHIPPED)
    return found if own is None else found | own_encoders(own)


def own_encoders(place: Path) -> dict[str, EncoderFile]:
    """Game -> its encoder, of a file or of a directory. Two of one game are refused: which of them
    makes the groups is not ours to guess."""
    if not place.exists():
        raise FileNotFoundError(f"there is no encoder file or directory of encoders {place}")
    return _by_game(place)


def _by_game(place: Path) -> dict[str, EncoderFile]:
    found: dict[str, EncoderFile] = {}
    names: dict[str, Path] = {}
    for path in _paths(place):
        file = load_encoder(path)
        game = file.config.game
        if game in found and found[game].encoder.digest != file.encoder.digest:
            raise ValueError(
                f"{place} has several encoders of {game} ({names[game].name}, {path.name}): "
                "leave one there, or name one file"
            )
        found[game], names[game] = file, path
    return found


def _paths(place: Path) -> list[Path]:
    return sorted(place.glob("*.npz")) if place.is_dir() else [place]


def shipped_encoder(game: str) -> Path:
    """The file of the package's encoder for a game."""
    return SHIPPED / f"{game}.npz"


def find_encoder(own: Path | None, digest: str) -> FrozenEncoder:
    """The encoder with this digest, among the files of a directory and of the package."""
    places = [SHIPPED] if own is None else [own, SHIPPED]
    for path in (path for place in places for path in _paths(place)):
        encoder = load_encoder(path).encoder
        if encoder.digest == digest:
            return encoder
    raise FileNotFoundError(
        f"no encoder {digest} in {' or '.join(map(str, places))}: "
        "make one with `sibling-replay vqvae train`"
    )

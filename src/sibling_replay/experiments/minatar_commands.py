"""The MinAtar half of the command line: encoders for latent siblings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from sibling_replay.envs import GAMES
from sibling_replay.experiments.display import new_console
from sibling_replay.training.encoders import EncoderConfig, paper_codes, save_encoder

if TYPE_CHECKING:
    from sibling_replay.training.torch_vqvae import Progress

Game = Annotated[str, tyro.conf.arg(help=f"One of {', '.join(GAMES)}.")]

REPORT_EVERY = 5_000  # updates


@dataclass(frozen=True)
class Train:
    """Train a VQ-VAE on random play and freeze its encoder; rerun it after any interruption."""

    game: Game
    grid: str = "2x1"
    """Rows x columns of codes (paper: 2x1)."""
    codes: int | None = None
    """Codebook size K (paper, and default: 16, and 32 for SpaceInvaders)."""
    loss: Literal["bce", "mse"] = "bce"
    """Of reconstruction (paper: bce)."""
    seed: int = 0
    """Of collection, initial weights and minibatches."""
    observations: int = 1_500_000
    """Of a uniformly random policy (paper: 1.5 million)."""
    updates: int = 100_000
    """Minibatches of 256 (paper: 100,000)."""
    out: Path = Path("encoders")
    """Directory; gets <name>/ with observations and checkpoints, and <name>.npz."""

    def run(self, console: Console) -> int:
        from sibling_replay.training.torch_vqvae import train_encoder  # torch is slow to import

        config = EncoderConfig(
            game=self.game,
            grid=grid_of(self.grid),
            codes=paper_codes(self.game) if self.codes is None else self.codes,
            loss=self.loss,
            seed=self.seed,
            observations=self.observations,
            updates=self.updates,
        )

        def observe(progress: Progress) -> None:
            if progress.update % REPORT_EVERY == 0 or progress.update == progress.of:
                console.print(
                    f"{config.name}: update {progress.update:,} of {progress.of:,}, "
                    f"{self.loss} {progress.reconstruction:.4f}, {progress.used_codes} codes live",
                    highlight=False,
                )

        work = self.out / config.name
        work.mkdir(parents=True, exist_ok=True)
        file = train_encoder(config, work, observe)
        path = self.out / f"{config.name}.npz"
        save_encoder(path, file)
        console.print(f"{path}: encoder {file.encoder.digest}", highlight=False, soft_wrap=True)
        return 0


def grid_of(text: str) -> tuple[int, int]:
    """`2x1` as (2, 1)."""
    rows, cross, columns = text.partition("x")
    if not (cross and rows.isdecimal() and columns.isdecimal()):
        raise ValueError(f"a grid is rows x columns, as in 2x1, not {text!r}")
    return int(rows), int(columns)


def vqvae(
    command: Annotated[Train, tyro.conf.arg(name=""), tyro.conf.subcommand("train")],
) -> int:
    """Codes of observations as approximate sibling keys: train, inspect or compare encoders."""
    return command.run(new_console())

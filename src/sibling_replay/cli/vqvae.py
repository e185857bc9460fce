"""`sibling-replay vqvae`: encoders for latent siblings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.cli.options import by_default
from sibling_replay.envs import GAMES
from sibling_replay.files import make_writable, write_whole
from sibling_replay.grouping.vqvae.files import (
    EncoderConfig,
    EncoderFile,
    encoder_files,
    load_encoder,
    paper_codes,
    save_encoder,
)
from sibling_replay.grouping.vqvae.support import SUPPORTED
from sibling_replay.running.display import duration
from sibling_replay.running.runs import spelt
from sibling_replay.studies.minatar.encoders import (
    LEAST_MEDIAN,
    LEAST_SUPPORTED,
    SAMPLE,
    check_transitions,
    inspect,
    merged,
    packed_codes,
    read_support,
    recommend,
    sample,
    support_frame,
    support_table,
)
from sibling_replay.terminal import new_console

if TYPE_CHECKING:
    from sibling_replay.grouping.vqvae.training import TrainingProgress

Game = Annotated[str, tyro.conf.arg(help=f"One of {', '.join(GAMES)}; letters in any case.")]

REPORT_EVERY = 5_000  # updates


@dataclass(frozen=True)
class Train:
    """Train a VQ-VAE on random play and freeze its encoder; rerun it after any interruption."""

    game: Game
    grid: str = "2x1"
    """Rows x columns of codes (paper: 2x1)."""
    codes: Annotated[int | None, by_default("the paper's: 16, for SpaceInvaders 32", "INT")] = None
    """Codebook size K."""
    loss: Literal["bce", "mse"] = "bce"
    """Of reconstruction (paper: bce)."""
    seed: int = 0
    """Of collection, initial weights and minibatches."""
    observations: int = 1_500_000
    """Of a uniformly random policy (paper: 1.5 million)."""
    updates: int = 100_000
    """Minibatches of 256 (paper: 100,000)."""
    out: Path = Path("encoders")
    """Directory; gets the observations, <name>.npz, and <name>/ with checkpoints until then."""

    def run(self, console: Console) -> int:
        game = spelt("game", self.game, GAMES)
        config = EncoderConfig(
            game=game,
            grid=grid_of(self.grid),
            codes=paper_codes(game) if self.codes is None else self.codes,
            loss=self.loss,
            seed=self.seed,
            observations=self.observations,
            updates=self.updates,
        )
        trained_encoder(config, self.out, console)
        return 0


@dataclass(frozen=True)
class Inspect:
    """Print the support of encoders' groups beside the paper's, and draw what shares a code."""

    files: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], by_default("those of the package")
    ] = ()
    """Encoder files."""
    transitions: int = SAMPLE
    """Of random play, none of which an encoder was trained on."""
    pictures: Annotated[Path | None, by_default("not drawn", "PATH")] = None
    """Directory for two pictures an encoder: what shares a code; how often codes are used and how
    large the groups are."""
    csv: Annotated[Path | None, by_default("not written", "PATH")] = None
    """File for the table, where rows of other encoders stay; `report` reads results/vqvae.csv."""

    def run(self, console: Console) -> int:
        check_transitions(self.transitions)
        files = [load_encoder(path) for path in self.files] or [*encoder_files().values()]
        if not files:
            raise ValueError("the package has no encoder: name some files")
        if self.pictures is not None:
            make_writable(self.pictures)
        if self.csv is not None:
            make_writable(self.csv.parent)
        found = []
        for file in files:
            data = sample(file.config.game, self.transitions)
            found.append(inspect(file, data))
            if self.pictures is not None:
                from sibling_replay.report.matplotlib_ink_codes import (
                    draw_codes,
                    draw_support,
                )

                codes, name = packed_codes(file, data), file.config.name
                draw_codes(file.encoder, data, codes, self.pictures / f"{name}.png")
                draw_support(file.encoder, data, codes, self.pictures / f"{name}-support.png")
        frame = support_frame(found)
        console.print(support_table(frame))
        if self.csv is not None:
            whole = merged(read_support(self.csv), frame) if self.csv.exists() else frame
            write_whole(self.csv, whole.write_csv(float_precision=4).encode())
        return 0


@dataclass(frozen=True)
class Sweep:
    """Train a game's encoders over grids and codebooks, compare their support, recommend one."""

    game: Game
    grids: tuple[str, ...] = ("1x1", "2x1")
    """Rows x columns of codes (paper: 1x1, 2x1)."""
    codes: tuple[int, ...] = (8, 16, 32, 256)
    """Codebook sizes (paper: 8, 16, 32, 256)."""
    loss: tuple[Literal["bce", "mse"], ...] = ("bce",)
    """Of reconstruction (paper: both tried)."""
    seed: int = 0
    """Of collection, initial weights and minibatches."""
    observations: int = 1_500_000
    """Of a uniformly random policy (paper: 1.5 million)."""
    updates: int = 100_000
    """Minibatches of 256 (paper: 100,000)."""
    transitions: int = SAMPLE
    """Of random play to compare them on, none of which an encoder was trained on."""
    out: Path = Path("encoders")
    """Directory; finished encoders in it are not trained again."""

    def run(self, console: Console) -> int:
        game = spelt("game", self.game, GAMES)
        configs = [
            EncoderConfig(
                game=game,
                grid=grid_of(grid),
                codes=codes,
                loss=loss,
                seed=self.seed,
                observations=self.observations,
                updates=self.updates,
            )
            for loss, grid, codes in product(self.loss, self.grids, self.codes)
        ]  # all of them before the first is trained: a wrong one is refused at once
        data = sample(game, self.transitions)
        found = [inspect(trained_encoder(config, self.out, console), data) for config in configs]
        console.print(support_table(support_frame(found)))
        for one in found:
            if one.collapsed:
                console.print(f"collapsed to one code: {one.file.config.name}", highlight=False)
        for loss in self.loss:
            best = recommend([one for one in found if one.file.config.loss == loss])
            if best is None:
                words = f"none of loss {loss}: all have collapsed to one code."
            else:
                closest = "" if best.supported else " (none has the support: the closest)"
                words = f"{best.file.config.name}{closest}."
            console.print(f"recommended: {words}", highlight=False)
        console.print(
            f"Rule: at least {LEAST_SUPPORTED:.0%} of transitions in buckets of {SUPPORTED} and a "
            f"median bucket of {LEAST_MEDIAN}; among those the least loss.",
            highlight=False,
        )
        return 0


def trained_encoder(config: EncoderConfig, out: Path, console: Console) -> EncoderFile:
    """The encoder of a config: from its file, or trained, from a checkpoint if there is one."""
    path = out / f"{config.name}.npz"
    if path.exists():
        file = load_encoder(path)
        if file.config != config:
            raise ValueError(f"{path} is of another config ({file.config}): choose another --out")
        return file
    from sibling_replay.grouping.vqvae.training import train_encoder  # torch is slow to import

    before: tuple[float, int] | None = None  # when it last reported, and the update

    def observe(progress: TrainingProgress) -> None:
        nonlocal before
        now = time.monotonic()
        if progress.update % REPORT_EVERY and progress.update != progress.of:
            before = before or (now, progress.update)
            return
        left = ""
        if before is not None and progress.update < progress.of:
            pace = (now - before[0]) / (progress.update - before[1])
            left = f", {duration(pace * (progress.of - progress.update))} left"
        before = now, progress.update
        console.print(
            f"{config.name}: update {progress.update:,} of {progress.of:,}, {config.loss} "
            f"{progress.reconstruction:.4f}, {progress.used_codes} codes live{left}",
            highlight=False,
        )

    make_writable(out)
    console.print(
        f"{config.name}: {config.observations:,} observations of random play, then "
        f"{config.updates:,} updates",
        highlight=False,
    )
    file = train_encoder(config, out, observe)
    save_encoder(path, file)
    RollingCheckpoint(out / config.name).remove()
    console.print(f"{path}: encoder {file.encoder.digest}", highlight=False, soft_wrap=True)
    return file


def grid_of(text: str) -> tuple[int, int]:
    """`2x1` as (2, 1)."""
    rows, cross, columns = text.partition("x")
    if not (cross and rows.isdecimal() and columns.isdecimal()):
        raise ValueError(f"a grid is rows x columns, as in 2x1, not {text!r}")
    return int(rows), int(columns)


def vqvae(
    command: tyro.conf.OmitArgPrefixes[tyro.conf.OmitSubcommandPrefixes[Train | Inspect | Sweep]],
) -> int:
    """Codes of observations as approximate sibling keys: train, inspect or compare encoders."""
    return command.run(new_console())

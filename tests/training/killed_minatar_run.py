"""A small run in a process of its own, to be killed: method, checkpoint directory, output file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from minatar_kit import bytes_of, encoder_of, small

from sibling_replay.checkpoint import RollingCheckpoint
from sibling_replay.training.minatar.session import Session, train_game


def main(method: str, directory: str, output: str) -> None:
    config = small(method)
    last: list[Session] = []

    def observe(session: Session) -> None:
        last[:] = [session]
        print(session.position.number, flush=True)

    checkpoint = RollingCheckpoint(directory)
    # no time between checkpoints: one after every hundred steps
    train_game(
        config, encoder_of(config), checkpoint=checkpoint, checkpoint_seconds=0, observe=observe
    )
    Path(output).write_bytes(bytes_of(last[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])

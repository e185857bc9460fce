"""Options that several commands have, and how --help shows one that does something unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from sibling_replay.studies import all_studies


def by_default(effect: object, metavar: str | None = None) -> object:
    """For an option whose default is None: the help says what takes effect instead of "None"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {effect})")


Runs = Annotated[Path, tyro.conf.arg(help="Directory of finished runs, one Parquet file each.")]
"""One word for it in every command."""
AnyStudy = tyro.conf.Positional[
    Annotated[
        str,
        tyro.conf.arg(
            metavar="{" + ",".join(all_studies()) + "}",
            help="Which study. "
            + " ".join(f"{study.name}: {study.about}." for study in all_studies().values()),
        ),
    ]
]

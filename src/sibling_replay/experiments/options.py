"""How --help shows an option that does something when it is not given."""

from __future__ import annotations

import tyro


def by_default(effect: object, metavar: str | None = None) -> object:
    """For an option whose default is None: the help says what takes effect instead of "None"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {effect})")

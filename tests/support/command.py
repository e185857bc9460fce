"""The command, run in this process."""

from __future__ import annotations

import pytest

from sibling_replay import cli


def run(*arguments: object) -> int:
    """The exit code of `sibling-replay` with these arguments."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)

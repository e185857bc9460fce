"""The `sibling-replay` command, before anything slow is imported.

It lies outside the package because importing any part of the package takes a second (NumPy, Numba),
and Ctrl-C in that second must end the command without a traceback. Worker processes import the
command's main script, too: this one costs them nothing.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

_NO_CACHE = (
    "sibling-replay: there is no folder for compiled kernels: the package's own and the user's "
    "cache folder cannot be written; name one in the environment variable NUMBA_CACHE_DIR"
)
INTERRUPTED = 130  # exit code, as shells count: 128 + SIGINT


def main() -> None:
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not under nohup or &
    if heard:
        signal.signal(signal.SIGINT, _stop_at_once)
    try:
        from sibling_replay.cli import main as command
    except RuntimeError as error:
        if "cannot cache" not in str(error):  # Numba's words, as it looks for a folder
            raise
        raise SystemExit(_NO_CACHE) from None
    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        _stop_at_once(signal.SIGINT, None)


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    """Nothing has begun that must be ended in order. An exception could be swallowed or turned into
    an ImportError by what is being imported."""
    os.write(2, b"\ninterrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

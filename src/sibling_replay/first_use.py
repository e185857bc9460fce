"""One line on stderr when somebody waits for the kernels to be compiled.

That happens once on a machine; later processes load them from disk. Without a word it looks as if
the first batch hung. The environment variable SIBLING_REPLAY_QUIET, set to anything, silences it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core import event

PATIENCE = 2.0  # seconds of compiling before a word
QUIET = "SIBLING_REPLAY_QUIET"
LINE = (
    "sibling-replay: compiling kernels not used here before (some 10 s for a buffer, half "
    'a minute for a trainer; "sibling-replay warm-up" does it ahead)\n'
)


class Notice(event.Listener):
    """Adds up the time that compiling our kernels takes, and says so once.

    Numba tells of every function it compiles, those that a kernel calls within the kernel's own:
    some ten a second. Kernels that are loaded from disk are not compiled.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._within = 0  # kernels being compiled, each for the one before it
        self._began = 0.0
        self._spent = 0.0
        self.silent = False
        self.kernels = 0  # that Python calls, compiled so far

    def on_start(self, event: Any) -> None:
        if not self._within and not _is_ours(event):
            return
        if not self._within:
            self._began = self._clock()
        self._within += 1
        if not self.silent and self._spent + self._clock() - self._began > PATIENCE:
            self.silent = True
            _say(LINE)

    def on_end(self, event: Any) -> None:
        if self._within:
            self._within -= 1
            if not self._within:
                self._spent += self._clock() - self._began
                self.kernels += 1


def _is_ours(event: Any) -> bool:
    module = str(event.data["dispatcher"].py_func.__module__)
    return module.partition(".")[0] == __name__.partition(".")[0]


def _say(line: str) -> None:
    if not os.environ.get(QUIET):
        with suppress(AttributeError, OSError, ValueError):  # no stderr, or a closed one
            sys.stderr.write(line)
            sys.stderr.flush()


NOTICE = Notice()
event.register("numba:compile", NOTICE)

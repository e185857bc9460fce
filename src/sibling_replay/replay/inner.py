"""Compiled functions that other compiled functions call.

Numba treats every function as if Python called it: it surrounds it with code that takes apart what
Python hands over, optimises it, makes machine code of it and stores that on disk. Kernels have no
use for any of this: they link a function's code into their own, which is optimised and stored
whole. An `inner` function does without (`linking`), and a kernel compiles in about half the time.

That needs parts of Numba that may change from version to version: with one it was not tried with,
inner functions are compiled as any other, and only the first use takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import njit

TRIED = ("0.68.",)  # versions of Numba


def inner(**options: Any) -> Callable[[Any], Any]:
    """Compile a function for kernels, with options of `njit`."""
    if numba.__version__.startswith(TRIED):
        from sibling_replay.replay.linking import linked

        return linked(options)
    decorator: Callable[[Any], Any] = njit(cache=True, **options)
    return decorator

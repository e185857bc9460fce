"""Compiled kernels on disk that match the sources.

Numba keys a cached kernel by the time stamp of the one file it is written in. A kernel that inlines
functions of a lower file (replay/index.py in replay/memory.py, say) is therefore not compiled again
when only the lower file changes, as by a `git pull` under an editable installation: the stale
machine code then reads arrays of the old form, gives wrong numbers or crashes. So before a kernel
is imported the cache is emptied whenever any source differs from those it was filled from.
"""

from __future__ import annotations

import os
from pathlib import Path

_MARK = "kernel_sources.txt"


def drop_stale_kernels(place: Path, sources: Path) -> int:
    """Delete the kernels cached under `place` unless they were made from these sources, as told by
    their names, sizes and times. Returns how many files went.

    Processes may do this side by side: at worst one deletes what another has just compiled, which
    is then compiled once more. Where nothing may be written, nothing can be stale for long: an
    installation replaces all files at once, and Numba notices that.
    """
    found = sorted((str(p.relative_to(sources)), p.stat()) for p in sources.rglob("*.py"))
    now = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in found)
    mark = place / "__pycache__" / _MARK
    try:
        if mark.exists() and mark.read_text() == now:
            return 0
        mark.parent.mkdir(exist_ok=True)
        stale = [*place.rglob("__pycache__/*.nbi"), *place.rglob("__pycache__/*.nbc")]
        for path in stale:
            path.unlink(missing_ok=True)
        partial = mark.with_suffix(f".{os.getpid()}")
        partial.write_text(now)
        partial.replace(mark)  # last and in one step: killed half way, the cache stays stale
        return len(stale)
    except OSError:
        return 0

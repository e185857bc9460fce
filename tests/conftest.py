"""What every test relies on: compiled kernels that match the sources, and repeatable Hypothesis.

Numba keys a cached kernel by the time stamp of the one file it is written in. A kernel that inlines
functions of a lower file (replay/index.py in replay/memory.py, say) is therefore not compiled again
when only the lower file changes: the stale machine code then reads arrays of the old form, gives
wrong numbers or crashes. So before anything is imported the cache is emptied whenever any source
differs from those it was filled from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "sibling_replay"

sys.path.insert(0, str(TESTS))  # for `support`
pytest.register_assert_rewrite("support")


def digest_of_sources(package: Path) -> str:
    """A digest of every source of the package, names included."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def drop_stale_kernels(package: Path) -> int:
    """Delete cached kernels unless they were made from these sources. Returns how many files went.

    The lock serves test runs started side by side; the digest is written last and in one step, so a
    run that is killed half way leaves the cache marked as stale.
    """
    cache = package / "__pycache__"
    cache.mkdir(exist_ok=True)
    mark = cache / "kernel_sources.sha256"
    with open(cache / "kernel_sources.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = digest_of_sources(package)
        if mark.exists() and mark.read_text() == digest:
            return 0
        stale = [*package.rglob("__pycache__/*.nbi"), *package.rglob("__pycache__/*.nbc")]
        for path in stale:
            path.unlink(missing_ok=True)
        partial = cache / f"kernel_sources.{os.getpid()}.partial"
        partial.write_text(digest)
        os.replace(partial, mark)
        return len(stale)


def pytest_configure(config: pytest.Config) -> None:
    """Once a run: workers of pytest-xdist start after their controller has done it."""
    if not hasattr(config, "workerinput"):
        drop_stale_kernels(PACKAGE)


# Derandomized: a failure is there for everybody, every time. Kernels compile within an example, so
# how long one takes says nothing. HYPOTHESIS_PROFILE=deep looks harder, with fresh randomness.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", derandomize=True, max_examples=60, **_COMMON)
settings.register_profile("deep", max_examples=2000, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

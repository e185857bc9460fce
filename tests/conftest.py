"""What every test relies on: compiled kernels that match the sources, and repeatable Hypothesis."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import sibling_replay  # noqa: F401  (it notes its sources beside its kernels)
from sibling_replay.first_use import QUIET

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src" / "sibling_replay" / "__pycache__" / "kernel_sources.json"

os.environ.setdefault(QUIET, "1")  # whether a test compiles kernels depends on what ran before it

sys.path.insert(0, str(TESTS))  # for `support`
pytest.register_assert_rewrite("support")


def pytest_configure(config: pytest.Config) -> None:
    """Kernels of tests call the package's: drop those that were compiled with other sources.

    Once a run: workers of pytest-xdist start after their controller has done it.
    """
    if not hasattr(config, "workerinput"):
        seen = TESTS / "__pycache__" / SOURCES.name
        if not seen.exists() or seen.read_text() != SOURCES.read_text():
            for kernel in TESTS.rglob("__pycache__/*.nb[ic]"):
                kernel.unlink()
            seen.parent.mkdir(exist_ok=True)
            shutil.copy(SOURCES, seen)


# Derandomized: a failure is there for everybody, every time. Kernels compile within an example, so
# how long one takes says nothing. HYPOTHESIS_PROFILE=deep looks harder, with fresh randomness.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", derandomize=True, max_examples=60, **_COMMON)
settings.register_profile("deep", max_examples=2000, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

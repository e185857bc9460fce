"""What every test relies on: compiled kernels that match the sources, and repeatable Hypothesis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sibling_replay.kernel_cache import drop_stale_kernels

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "sibling_replay"

sys.path.insert(0, str(TESTS))  # for `support`
pytest.register_assert_rewrite("support")


def pytest_configure(config: pytest.Config) -> None:
    """Once a run: workers of pytest-xdist start after their controller has done it."""
    if not hasattr(config, "workerinput"):
        drop_stale_kernels(TESTS, sources=PACKAGE)  # the package's own it drops by itself


# Derandomized: a failure is there for everybody, every time. Kernels compile within an example, so
# how long one takes says nothing. HYPOTHESIS_PROFILE=deep looks harder, with fresh randomness.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", derandomize=True, max_examples=60, **_COMMON)
settings.register_profile("deep", max_examples=2000, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

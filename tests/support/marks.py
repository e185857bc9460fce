"""Cases that a test has in every run, and those that `make test-long` adds."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def long_but_for(cases: Iterable[Any], short: Container[Any]) -> list[Any]:
    """The cases, marked long unless they are among `short`."""
    return [case if case in short else pytest.param(case, marks=pytest.mark.long) for case in cases]

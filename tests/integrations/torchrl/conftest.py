"""TorchRL's import of its collectors warns about classes of its own."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Creating .* which inherits from WeightUpdaterBase is deprecated:DeprecationWarning",
    )

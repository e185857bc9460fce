"""Makes `study_jobs` importable by the tests and by the workers they start."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """A directory in which jobs leave marks, named to them by an environment variable."""
    from study_jobs import FLAG

    directory = tmp_path / "marks"
    directory.mkdir()
    monkeypatch.setenv(FLAG, str(directory))
    return directory

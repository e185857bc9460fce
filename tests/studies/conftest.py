"""Makes `study_jobs` and `report_runs` importable by the tests and by the workers they start."""

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


@pytest.fixture(scope="module")
def frames():
    """Everything of TwoChains and Bandit; part of one lake; of the sweep one environment."""
    from report_runs import NOTHING, frame_of

    return {
        **NOTHING,
        "exact": frame_of(
            "exact",
            lambda c: "Lake" not in c.env or (c.env.endswith("H300") and c.method == "PER"),
        ),
        "grid": frame_of("grid", lambda c: c.env == "OutlierBandit"),
    }


@pytest.fixture(scope="module")
def report(frames):
    from sibling_replay.report import build

    return build.build(frames, "sibling-replay report --results results")

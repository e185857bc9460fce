"""What adapters write for `sibling-replay diagnose`."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay.integrations.export import write_transitions
from sibling_replay.microscope.transitions import Reading, read_transitions

COLUMNS = dict(
    obs=np.array([[0.5, 1.0], [0.5, 1.0], [2.0, 3.0]], dtype=np.float32),
    action=np.array([1, 1, 0]),
    reward=np.array([1.0, -1.0, 3.0]),
    next_obs=np.array([[2.0, 3.0], [0.5, 1.0], [2.0, 3.0]], dtype=np.float32),
    terminated=np.array([False, True, False]),
    truncated=np.zeros(3, dtype=bool),
    td_error=np.array([-4.0, 0.25, 1.0]),
    target=np.array([1.5, -1.0, 3.5]),
)  # fmt: skip


def test_diagnose_reads_what_is_written(tmp_path):
    path = tmp_path / "columns.npz"
    write_transitions(path, COLUMNS)
    read = read_transitions(path, Reading())
    for name in ("obs", "action", "reward", "next_obs", "terminated", "truncated"):
        assert np.array_equal(read.columns[name], COLUMNS[name]), name
    assert np.array_equal(read.targets, COLUMNS["target"])
    assert np.array_equal(read.groups == read.groups[0], [True, True, False])
    np.testing.assert_allclose(read.masses, (np.abs(COLUMNS["td_error"]) + 1e-6) ** 0.6)
    assert [file.name for file in tmp_path.iterdir()] == ["columns.npz"]


def test_the_exponent_is_kept_with_the_columns(tmp_path):
    """A buffer with alpha = 0.9 must not be diagnosed at the default 0.6 without a word."""
    path = tmp_path / "columns.npz"
    priority = np.array([2.0, 3.0, 4.0])
    write_transitions(path, {**COLUMNS, "priority": priority}, alpha=0.9)
    read = read_transitions(path, Reading())
    np.testing.assert_allclose(read.masses, priority**0.9)
    assert read.mass_source == "priority^0.9"
    np.testing.assert_allclose(read_transitions(path, Reading(alpha=0.5)).masses, priority**0.5)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"truncated": None}, ValueError, "missing: truncated"),
        ({"td_error": None}, ValueError, "missing: priority or td_error"),
        ({"action": np.zeros(2)}, ValueError, "column action has 2 rows, reward has 3"),
        ({"group": np.array([{}, {}, {}])}, TypeError, "column group must hold numbers"),
        ({"header": np.zeros(3)}, ValueError, "'header'"),
        ({name: column[:0] for name, column in COLUMNS.items()}, ValueError, "no transitions"),
    ],
)  # fmt: skip
def test_columns_that_diagnose_could_not_read_are_refused(change, error, match, tmp_path):
    columns = {name: column for name, column in {**COLUMNS, **change}.items() if column is not None}
    with pytest.raises(error, match=match):
        write_transitions(tmp_path / "columns.npz", columns)
    assert not list(tmp_path.iterdir())

"""What the exports of hosts with a storage of their own write, without any host."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.integrations.host_export import drawable_slots, export_columns
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.microscope.transitions import Reading, read_transitions

OBS = np.arange(6, dtype=np.float32)[:, None]


def columns() -> dict:
    return {
        "obs": OBS,
        "action": np.zeros(6, np.int64),
        "reward": np.ones(6),
        "next_obs": OBS + 1,
        "terminated": np.zeros(6, bool),
        "truncated": np.zeros(6, bool),
    }


def replay(strategy, key=None) -> HostReplay:
    made = HostReplay("a host", 8, strategy, key, seed=0)
    made.put(np.arange(6), OBS, np.zeros(6, np.int64))
    made.refresh(made.draw(16, 0.4)[0], np.linspace(0.0, 3.0, 16))
    return made


def test_priorities_groups_and_values_are_the_buffers(tmp_path):
    for number, strategy in enumerate((SiblingSample(alpha=0.5), Prioritized(alpha=0.0))):
        source = replay(strategy, (lambda obs, action: int(obs[0]) // 3) if not number else None)
        path = tmp_path / f"{number}.npz"
        slots = drawable_slots(source)
        export_columns(path, source, slots, columns(), lambda obs: 10.0 * obs[:, 0])
        found = read_transitions(path, Reading(gamma=0.5))
        np.testing.assert_allclose(found.masses, source.sampler.masses[slots], rtol=1e-12)
        np.testing.assert_allclose(found.targets, 1.0 + 0.5 * 10.0 * (OBS[:, 0] + 1))
        assert len(set(found.groups.tolist())) == (2 if number == 0 else 6)


def test_what_cannot_be_exported_is_said(tmp_path):
    with pytest.raises(ValueError, match="Uniform has no priorities"):
        drawable_slots(HostReplay("a host", 8, Uniform()))
    for strategy in (SiblingSample(), Prioritized()):
        with pytest.raises(ValueError, match="empty"):
            drawable_slots(HostReplay("a host", 8, strategy))
    source = replay(Prioritized())
    with pytest.raises(ValueError, match=r"one value for each of 6 .* shape \(6, 1\)"):
        export_columns(tmp_path / "x.npz", source, np.arange(6), columns(), lambda obs: obs)
    assert not list(tmp_path.iterdir())

"""What a host's sampled slots, weights and refreshed priorities must be, given the sampler."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from sibling_replay import KeyMap, Prioritized, SiblingModel, SiblingSample, SlotSampler
from support.outside import EvenGroups, RankBasedNumPy

# The strategies a host can express that reads one slot an entry and computes targets itself.
HOST_STRATEGIES = {
    "prioritized": Prioritized(alpha=0.8),
    "sample": SiblingSample(alpha=0.8),
    "model": SiblingModel(alpha=0.8),
    "outside even-groups": EvenGroups(alpha=0.8),
    "outside rank-based": RankBasedNumPy(alpha=0.8, every=3),
}


class Halves(KeyMap):
    """A map of a whole batch; notes the shapes it is given."""

    def __init__(self):
        self.seen = []

    def keys(self, obs, action):
        self.seen.append((type(obs), obs.shape, type(action), action.shape, action.dtype))
        return obs[:, 0].astype(np.int64) // 2


def weights_of(sampler: SlotSampler, slots, beta: float):
    """(N P)^-beta over its largest (eq. 10). The law of the outcome is that of the slot for PER and
    that of the group for the others."""
    weights = (len(sampler) * sampler.probabilities().outcome[slots]) ** -beta
    return weights / weights.max()


def refreshed(masses, slots, errors, alpha: float, epsilon: float = 1e-6):
    """Masses after an update: |td| + epsilon to the alpha, the last of a slot's stays."""
    masses = masses.copy()
    for slot, error in zip(slots, errors, strict=True):
        masses[slot] = (abs(float(error)) + epsilon) ** alpha
    return masses


def missing_host_message(module: str, host: str) -> str:
    """What importing an adapter says in an environment without its host."""
    code = (
        f"import sys\nsys.modules[{host!r}] = None\n"
        f"try:\n    import sibling_replay.integrations.{module}\n"
        f"except ImportError as error:\n    print(error)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()

"""Each folder here needs one host library and is collected only where that is installed.

`make test-<host>` names its folder, so an environment without the host collects nothing and fails.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

# By distribution, not by module: this directory is on the path, so its folders would be found.
DISTRIBUTIONS = {
    "sb3": "stable-baselines3",
    "torchrl": "torchrl",
    "tianshou": "tianshou",
    "rllib": "dm-tree",  # comes with ray[rllib], not with ray
}


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


collect_ignore = [folder for folder, name in DISTRIBUTIONS.items() if not _installed(name)]

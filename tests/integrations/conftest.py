"""Each folder here needs one host library and is collected only where that is installed.

`make test-<host>` names its folder, so an environment without the host collects nothing and fails.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `readme_blocks`

MODULES = {
    "sb3": "stable_baselines3",
    "torchrl": "torchrl",
    "tianshou": "tianshou",
    "rllib": "ray.rllib",
}


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


collect_ignore = [folder for folder, module in MODULES.items() if not _installed(module)]

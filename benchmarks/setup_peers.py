"""Build one virtual environment per peer library under `.venv-bench/`.

The peers cannot share an environment (their pins disagree), and none of them belongs in ours, so
each gets its own. A stamp file holding the recipe makes a second call free and a changed recipe a
rebuild.

Torch is installed first and pinned: a plain `torch` requirement resolves to a newer release with
several gigabytes of GPU packages. TorchRL's wheel does not load its compiled prioritized sampler
with that torch, so the C++ sources inside the wheel are built against it here.

Usage: python benchmarks/setup_peers.py [peer ...]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venv-bench"
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Recipe:
    """What makes an environment: pip steps in order, a script to finish it, one to prove it."""

    steps: tuple[tuple[str, ...], ...]
    check: str
    finish: str = ""


BUILD_TORCHRL_EXTENSION = (ROOT / "benchmarks" / "build_torchrl_extension.py").read_text()

CHECK_CPPRB = """
import numpy as np, cpprb
buffer = cpprb.PrioritizedReplayBuffer(8, {"x": {}}, alpha=0.6)
for i in range(8):
    buffer.add(x=i)
buffer.update_priorities(np.arange(8), np.r_[1.0, np.full(7, 1e-12)])
assert (buffer.sample(64, beta=0.4)["x"] == 0).mean() > 0.9
"""

CHECK_TIANSHOU = """
import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer
buffer = PrioritizedReplayBuffer(8, alpha=0.6, beta=0.4)
for i in range(8):
    buffer.add(Batch(obs=i, act=0, rew=0.0, terminated=False, truncated=False, obs_next=i))
buffer.update_weight(np.arange(8), np.r_[1.0, np.full(7, 1e-12)])
assert (buffer.sample(64)[1] == 0).mean() > 0.9
"""

CHECK_TORCHRL = """
import torch
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import PrioritizedSampler
sampler = PrioritizedSampler(8, alpha=0.6, beta=0.4)
buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=sampler, batch_size=64)
buffer.extend(torch.arange(8))
buffer.update_priority(torch.arange(8), torch.tensor([1.0] + [1e-12] * 7))
assert (buffer.sample() == 0).float().mean() > 0.9
"""

RECIPES = {
    "cpprb": Recipe(steps=(("cpprb==11.0.0",),), check=CHECK_CPPRB),
    "tianshou": Recipe(steps=((TORCH,), ("tianshou==2.0.1", TORCH)), check=CHECK_TIANSHOU),
    "torchrl": Recipe(
        steps=((TORCH,), ("torchrl==0.14.1", "setuptools", "ninja", TORCH)),
        finish=BUILD_TORCHRL_EXTENSION,
        check=CHECK_TORCHRL,
    ),
}


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment (whether or not it exists yet)."""
    return ENVIRONMENTS / peer / "bin" / "python"


def build(peer: str) -> bool:
    """Make the environment of `peer`, unless its stamp is of this recipe; say if it was made."""
    home, recipe = ENVIRONMENTS / peer, RECIPES[peer]
    stamp, wanted = home / "stamp.json", json.dumps([sys.version, asdict(recipe)], indent=1)
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    python = str(python_of(peer))
    # torch's extension builder looks ninja up on PATH.
    environment = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for requirements in recipe.steps:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
    for script in (recipe.finish, recipe.check):
        subprocess.run([python, "-c", script], check=True, env=environment)
    stamp.write_text(wanted)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", help=f"of {', '.join(RECIPES)}; all when none is given")
    for peer in parser.parse_args().peers or RECIPES:
        made = build(peer)
        print(f"{peer}: {'built' if made else 'already there'}", flush=True)


if __name__ == "__main__":
    main()

"""One fresh process: import the package, make a buffer, run a whole cycle, say when it was done.

The driver runs it twice or more: the first fills Numba's cache on disk, the later ones are what a
user waits for. `ready` is on the system-wide monotonic clock, so the driver can subtract the moment
it started us.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    started = time.perf_counter()
    import sibling_replay

    import_seconds = time.perf_counter() - started
    torch_loaded = "torch" in sys.modules

    import gymnasium as gym
    import numpy as np

    env = gym.make("FrozenLake-v1")
    strategy = sibling_replay.SiblingSample(alpha=0.6)
    buffer = sibling_replay.ReplayBuffer.for_env(env, capacity=50_000, strategy=strategy, seed=0)
    buffer.add(0, 1, 0.0, 4, False, False)
    batch = buffer.sample(32, beta=0.4)
    buffer.update_priorities(batch, np.ones(32, np.float32))
    ready = time.monotonic()
    print(json.dumps({"import": import_seconds, "torch_loaded": torch_loaded, "ready": ready}))


if __name__ == "__main__":
    main()

"""A private Ray on loopback, with a small object store: RLlib starts one, even to run locally."""

from __future__ import annotations

import os

import pytest

from sibling_replay.running.ray_cluster import LOOPBACK_ONLY, start_private

# read when Ray is imported, which is when test modules are
os.environ.update(LOOPBACK_ONLY, RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1")

OBJECT_STORE_BYTES = 80 * 2**20  # Ray's least is 75 MiB


def pytest_configure(config: pytest.Config) -> None:
    # each algorithm that RLlib builds registers its environment with Gymnasium again
    config.addinivalue_line(
        "filterwarnings", "ignore:.*Overriding environment rllib-single-agent-env-v0:UserWarning"
    )


@pytest.fixture(scope="session")
def local_ray():
    import ray

    start_private(ray, 1, object_store_memory=OBJECT_STORE_BYTES, logging_level="error")
    yield
    ray.shutdown()

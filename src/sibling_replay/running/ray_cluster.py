"""The same jobs as Ray Core tasks, on one machine or a cluster.

A task takes a config and returns a result to the driver, which stores it: nodes need the package
installed, and no shared disk, unless jobs keep checkpoints that another node is to find. Ray gives
a task whose worker or node died to another one
(`max_retries`); a result too large to travel at once and lost with its node is computed again.
As tasks are pure, doing one twice changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import Any

from sibling_replay.running.jobs import ONE_THREAD, TICK, JobFunction, Outcome, attempt
from sibling_replay.running.runs import Run

LOOPBACK = "127.0.0.1"
# Ray swaps a loopback address for one reachable from outside, unless told, when it is first
# imported, that there is no cluster beyond this machine; the name of the switch is historical.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}


class RayBackend:
    """Jobs of one CPU and a share of a GPU each, on the cluster at `address`.

    Without an address a private Ray of `workers` CPUs is started, reachable from this machine only,
    and stopped afterwards. With one, the cluster's own CPUs decide how many jobs run at once.
    """

    def __init__(
        self,
        function: JobFunction,
        workers: int | None = None,
        address: str | None = None,
        retries: int = 3,
        gpus: float = 0.0,
    ) -> None:
        at_home = address is None or address.rpartition(":")[0] in (LOOPBACK, "localhost")
        self.ray = _import_ray(LOOPBACK_ONLY if at_home else {})
        self.function = function
        self.workers = workers
        self.address = address
        self.retries = retries
        self.gpus = gpus

    def execute(self, runs: Sequence[Run]) -> Generator[Outcome | None, None, None]:
        ray = self.ray
        ours = not ray.is_initialized()
        if ours:
            self._connect()
        try:
            self._check_gpus()
            task = ray.remote(attempt).options(
                num_cpus=1,
                num_gpus=self.gpus,  # a task that asks for none may be shown none
                max_retries=self.retries,
                runtime_env={"env_vars": ONE_THREAD},
            )
            pending: dict[Any, Run] = {task.remote(self.function, run.config): run for run in runs}
            try:
                while pending:
                    ended, _ = ray.wait(list(pending), num_returns=1, timeout=TICK)
                    if not ended:
                        yield None
                        continue
                    reference = ended.pop()
                    run = pending.pop(reference)
                    try:
                        result, error, seconds = ray.get(reference)
                    except ray.exceptions.RayError as failure:  # retries used up, or no such module
                        result, error, seconds = None, f"{type(failure).__name__}: {failure}\n", 0.0
                    del reference  # lets Ray free the result
                    yield Outcome(run, result, error, seconds)
            finally:
                for reference in pending:
                    ray.cancel(reference, force=True)
        finally:
            if ours:
                ray.shutdown()

    def _check_gpus(self) -> None:
        """Ray would wait for ever for a node that can do the jobs."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if not any(resources.get("GPU", 0.0) >= self.gpus for resources in nodes):
            raise ValueError(f"no node of the Ray cluster has {self.gpus:g} of a GPU")

    def _connect(self) -> None:
        if self.address is not None:
            self.ray.init(address=self.address, **_QUIET)
        else:
            start_private(self.ray, self.workers)


def start_private(ray: Any, cpus: int | None, **options: Any) -> None:
    """Start a Ray that is reachable from this machine only; `options` are those of `ray.init`."""
    settings = {**_QUIET, "include_dashboard": False, **options}
    ray.init(address="local", num_cpus=cpus, **settings)
    listens = ray.nodes()[0]["NodeManagerAddress"]
    if listens != LOOPBACK:
        ray.shutdown()
        raise RuntimeError(
            f"a private Ray must listen on {LOOPBACK} only, and this one listens on {listens}, "
            f"because ray was imported before these were set: {LOOPBACK_ONLY}"
        )


def _import_ray(settings: dict[str, str]) -> Any:
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "--backend ray needs Ray, an extra of this package: "
            "pip install 'sibling-replay[ray]' (or use --backend local)"
        ) from error
    return ray

"""The same studies on a real Ray cluster of several nodes on this machine, one of them killed.

Selected by `-m ray` in an environment that has the extra. Everything listens on loopback only.
"""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import study_jobs
from killed_job import KilledOnce, small_run
from study_jobs import attempts, small_study

from sibling_replay.running import store
from sibling_replay.running.local import LocalBackend
from sibling_replay.running.ray_cluster import LOOPBACK, LOOPBACK_ONLY, RayBackend
from sibling_replay.running.runner import run_study
from sibling_replay.running.runs import select
from sibling_replay.studies.minatar.job import MinAtarJob
from support.studies import study

pytestmark = [
    pytest.mark.ray,
    # Ray's own sockets, log files and future notices at shutdown are not ours to fix
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RUNS = small_study()


def contents(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    root = tmp_path_factory.mktemp("local")
    run_study(RUNS, root, LocalBackend(study_jobs.fake_train, 1))
    return contents(root)


@pytest.fixture(autouse=True)
def importable(monkeypatch, marks):
    """Nodes must have the job's module installed; for a test, its directory on their path is it."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in LOOPBACK_ONLY.items():
        monkeypatch.setenv(name, value)
    # a dead node is noticed after 3 s instead of 30
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    monkeypatch.setenv("RAY_health_check_period_ms", "1000")


@pytest.fixture
def cluster(importable):
    """A head that takes no jobs, and two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    made.add_node(num_cpus=0, include_dashboard=False, node_ip_address=LOOPBACK)
    made.workers = [made.add_node(num_cpus=1, node_ip_address=LOOPBACK) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


def test_private_ray_gives_the_local_bytes(tmp_path, local):
    report = run_study(RUNS, tmp_path, RayBackend(study_jobs.fake_train, workers=2))
    assert report.failures == []
    assert contents(tmp_path) == local


def workers_of(node):
    import psutil  # comes with ray

    (daemon,) = node.all_processes["raylet"]
    return psutil.Process(daemon.process.pid).children(recursive=True)


def kill_everything_of(cluster, node):
    """SIGKILL to a node's daemon and to its workers, which would outlive it for a moment and could
    still hand over a result."""
    import psutil  # comes with ray

    workers = workers_of(node)
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert workers and not alive


def test_cluster_with_a_node_killed_in_mid_run(tmp_path, marks, cluster, local):
    """SIGKILL to everything of one node while it works; its job is done by the other."""
    killed = []

    def kill_a_node_once_it_works(progress):
        if progress.done == 2 and not killed:
            end = time.monotonic() + 120
            while len(attempts(marks)) < 4:  # two done, and one held in flight on each node
                assert time.monotonic() < end
                time.sleep(0.01)
            kill_everything_of(cluster, cluster.workers[0])
            killed.append(cluster.workers[0])
            (marks / study_jobs.RELEASED).touch()

    root = tmp_path / "runs"
    backend = RayBackend(study_jobs.held_train, address=cluster.address)
    report = run_study(RUNS, root, backend, kill_a_node_once_it_works)
    assert killed and report.failures == [] and report.done == len(RUNS)
    assert contents(root) == local
    assert len(attempts(marks)) > len(RUNS)  # the dead node's job was really done again


def test_a_minatar_run_goes_on_on_another_node(tmp_path, cluster):
    """Its node is killed in mid-run; another takes it over at the last checkpoint, to the bytes of
    an uninterrupted run. Long enough a run to need that has its checkpoints where all nodes see."""
    run = small_run()
    expected = store.save_run(
        tmp_path / "expected", run, MinAtarJob(tmp_path / "whole", tmp_path)(run.config)
    )

    def kill_its_node():
        end = time.monotonic() + 240
        while not (tmp_path / "killed").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        worker = int((tmp_path / "killed").read_text())
        (node,) = (node for node in cluster.workers if worker in {p.pid for p in workers_of(node)})
        kill_everything_of(cluster, node)
        return node

    job = KilledOnce(MinAtarJob(tmp_path / "states", tmp_path), tmp_path, by_itself=False)
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_its_node)
        report = run_study([run], tmp_path / "runs", RayBackend(job, address=cluster.address))
    assert killed.result() in cluster.workers
    assert (report.done, report.failures) == (1, [])
    assert int((tmp_path / "resumed_at").read_text()) >= 100
    assert store.run_path(tmp_path / "runs", run.id).read_bytes() == expected.read_bytes()


def test_runs_get_the_share_of_a_gpu_they_ask_for(tmp_path, marks, cluster):
    """A node that says it has a GPU: there they go, and both see it."""
    cluster.add_node(num_cpus=4, num_gpus=1, node_ip_address=LOOPBACK)
    cluster.wait_for_nodes()
    backend = RayBackend(study_jobs.gpu_train, address=cluster.address, gpus=0.25)
    assert run_study(RUNS[:2], tmp_path / "runs", backend).failures == []
    assert [(marks / f"{seed}.gpus").read_text() for seed in (0, 1)] == ["0", "0"]


def test_a_gpu_that_no_node_has_is_refused(tmp_path, cluster):
    backend = RayBackend(study_jobs.gpu_train, address=cluster.address, gpus=0.25)
    with pytest.raises(ValueError, match="no node of the Ray cluster has"):
        run_study(RUNS[:2], tmp_path / "runs", backend)


def test_failures_come_back_with_traceback_and_id(tmp_path, cluster):
    report = run_study(
        RUNS, tmp_path, RayBackend(study_jobs.raising_train, address=cluster.address)
    )
    (failure,) = report.failures
    assert failure.run == RUNS[1] and "seed 1 does not like you" in failure.error
    assert report.done == len(RUNS) - 1


def test_a_job_that_kills_every_worker_is_given_up(tmp_path, cluster):
    backend = RayBackend(study_jobs.deadly_train, address=cluster.address, retries=1)
    report = run_study(RUNS, tmp_path, backend)
    (failure,) = report.failures
    assert failure.run == RUNS[1] and "WorkerCrashedError" in failure.error
    assert report.done == len(RUNS) - 1


def test_real_trainer_gives_the_local_bytes(tmp_path, cluster):

    from sibling_replay.training.tabular.trainer import train_tabular

    runs = select(study("testing"), ["TwoChains"])
    run_study(runs, tmp_path / "local", LocalBackend(train_tabular, 1))
    run_study(runs, tmp_path / "ray", RayBackend(train_tabular, address=cluster.address))
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")
    assert len(contents(tmp_path / "ray")) == len(runs)


def test_only_loopback_is_listened_on(tmp_path, cluster):
    """Of all sockets that this test's processes listen on, none is reachable from outside."""
    import ray  # brings psutil along

    assert ray.__version__
    import psutil

    me = psutil.Process(os.getpid())
    addresses = {
        connection.laddr.ip
        for process in [me, *me.children(recursive=True)]
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses, "a cluster that listens nowhere is no cluster"
    assert addresses <= {LOOPBACK, "::1", f"::ffff:{LOOPBACK}"}

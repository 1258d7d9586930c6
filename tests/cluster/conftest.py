"""One real Ray cluster of two nodes for all tests of this folder, on the loopback interface."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.cluster.pool import LOOPBACK, QUIET, import_ray

DEAD_SOON = {  # a node that was killed is given up after two seconds, not after a quarter of a minute
    "health_check_initial_delay_ms": 200,
    "health_check_period_ms": 200,
    "health_check_timeout_ms": 60_000,  # a killed one refuses connections at once; a slow one is not dead
    "health_check_failure_threshold": 8,
}
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": LOOPBACK}


@pytest.fixture(scope="session")
def nodes():
    """The cluster; tests may add nodes to it and kill them. Its files are its own: Ray writes down where the newest
    cluster is, in a folder that a new machine does not have yet, and on others `ray.init()` would find this one."""
    ray = import_ray()
    from ray.cluster_utils import Cluster

    with TemporaryDirectory(prefix="ray-") as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # for actors that tests have made to fail
        patch.setenv("RAY_TMPDIR", scratch)  # pytest's own are too deep for the names of sockets
        (Path(scratch) / "ray").mkdir()
        head = {**NODE, "include_dashboard": False, "_system_config": DEAD_SOON}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(**NODE)
        ray.init(address=cluster.address, **QUIET)
        yield cluster
        ray.shutdown()
        cluster.shutdown()

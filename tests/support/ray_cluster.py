"""A Ray cluster of two nodes, as processes of this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # or other tests would starve the workers

OBJECT_STORE_BYTES = 100 * 2**20  # of each node
MARKS = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",  # Ray's own
        "ignore::FutureWarning",  # Ray's own
        # On a busy machine threads of Ray raise, or leave sockets open, while workers start or the cluster ends. The
        # engine starts no thread of its own, and threads of these tests report their errors by themselves.
        "ignore::pytest.PytestUnhandledThreadExceptionWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
        "ignore::ResourceWarning",
    ),
]


@contextmanager
def two_node_cluster() -> Iterator[Any]:
    """Start two nodes of one CPU each, and connect to them."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()

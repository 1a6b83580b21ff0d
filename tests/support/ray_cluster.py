"""A Ray cluster of two nodes, as processes of this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # or other tests would starve the workers

OBJECT_STORE_BYTES = 100 * 2**20  # of each node
START_ATTEMPTS = 3
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

    cluster = _start()
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def _start() -> Any:
    """Start the nodes. Ray gives up after half a minute, which a busy machine may need, and takes no other limit."""
    from ray.cluster_utils import Cluster

    for attempt in range(1, START_ATTEMPTS + 1):
        cluster = Cluster()
        try:
            for of_node in ({"include_dashboard": False}, {}):
                cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, **of_node)
        except Exception as error:
            cluster.shutdown()
            if attempt == START_ATTEMPTS or "timed out" not in str(error):
                raise
        else:
            return cluster
    raise AssertionError("unreachable")

"""One cluster for all tests of Ray: starting one takes longer than most of them.

It ends with the last test of this folder, not of the session: while it ends, only tests of Ray ignore what its threads
raise.
"""

import pytest

from tests.support import ray_cluster


@pytest.fixture(scope="package")
def cluster():
    from harpoon.engines import ray as engine

    with ray_cluster.two_node_cluster() as nodes:
        engine.connect()
        yield nodes

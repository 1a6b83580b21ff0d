"""Fixtures of the property tests."""

import duckdb
import pytest

from tests.support.conditions import ZONE


@pytest.fixture(scope="session")
def duck():
    """DuckDB in one thread, in the time zone of the generated tables."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute(f"SET TimeZone = '{ZONE}'")
    return connection

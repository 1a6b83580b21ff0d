"""Limits of one request, so that no client keeps the others waiting."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 2**20
MAX_COLUMNS, MAX_CELLS = 2_000, 10_000_000  # of an uploaded table
LOCAL = ("127.0.0.1", "localhost", "::1")  # host names that only this machine has


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all requests together."""

    rows: int = 100_000  # to sample, or to send for imputation
    body: int = 16 * MEGABYTE  # bytes of a request
    seconds: float = 60.0  # for an answer, including the time in the queue
    upload_seconds: float = 30.0  # for a client to send the body of a request
    draws: int = 200  # completed tables per imputation
    workers: int = 2  # requests that are computed at the same time, each in its own thread
    queue: int = 64  # requests that may wait for a worker
    buffered: int = 128 * MEGABYTE  # bytes of request bodies in memory, of all clients together
    connections: int = 512  # that are open

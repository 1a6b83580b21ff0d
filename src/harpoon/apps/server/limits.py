"""Limits of one request, so that no client keeps the others waiting."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 2**20
MAX_COLUMNS, MAX_CELLS = 2_000, 10_000_000  # of an uploaded table
LOCAL = ("127.0.0.1", "localhost", "::1")  # host names that only this machine has


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all requests together.

    Attributes:
        rows: Rows to sample, or to send for imputation.
        body: Bytes of a request.
        seconds: Time for an answer, including the time in the queue.
        upload_seconds: Time for a client to send the body of a request.
        draws: Completed tables per imputation.
        workers: Requests that are computed at the same time, each in its own thread.
        queue: Requests that may wait for a worker.
        buffered: Bytes of request bodies in memory, of all clients together.
        connections: Open connections.
    """

    rows: int = 100_000
    body: int = 16 * MEGABYTE
    seconds: float = 60.0
    upload_seconds: float = 30.0
    draws: int = 200
    workers: int = 2
    queue: int = 64
    buffered: int = 128 * MEGABYTE
    connections: int = 512

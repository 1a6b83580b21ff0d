"""What one client may ask for, so that the others are not kept waiting."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MEGABYTE = 2**20
MOST_COLUMNS, MOST_CELLS = 2_000, 10_000_000  # of a table that is sent
LOCAL = ("127.0.0.1", "localhost", "::1")  # names by which no other machine is called


@dataclass(frozen=True)
class Limits:
    """What one request may cost.

    Attributes:
        rows: Rows that are drawn, or sent to be filled.
        body: Bytes of a request.
        seconds: How long an answer may take, waiting for others included.
        upload_seconds: How long a client may take to send a request, its head and its body each.
        draws: Completed tables for one table with holes.
        at_once: Answers that are worked on at the same time, each in a thread of its own.
        waiting: Answers that may wait for their turn.
        held: Bytes of requests, of all clients together, that are held at the same time.
        connections: Open connections.
    """

    rows: int = 100_000
    body: int = 16 * MEGABYTE
    seconds: float = 60.0
    upload_seconds: float = 30.0
    draws: int = 200
    at_once: int = 2
    waiting: int = 64
    held: int = 128 * MEGABYTE
    connections: int = 512

    def to_json(self) -> dict[str, float]:
        """As plain data."""
        return asdict(self)

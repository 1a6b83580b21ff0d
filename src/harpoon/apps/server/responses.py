"""From a job to a response: content negotiation, tables as bytes, and events for progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import pyarrow as pa
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from harpoon.apps.server.access_log import log_error
from harpoon.apps.server.errors import ApiError, client_gone, timed_out
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.workers import JobControl, Workers
from harpoon.io import FORMATS, Format
from harpoon.io.tables import closing_writer
from harpoon.io.text_types import plain_values

JSON = "application/json"
EVENTS = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"
CSV = FORMATS["csv"].media_type
TABLE_FORMATS = {**{format_.media_type: format_ for format_ in FORMATS.values() if format_.media_type}, ARROW: None}
KEEP_ALIVE_SECONDS = 10.0  # a stream without events sends a comment this often
NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Payload:
    """The content of an answer: facts, among them the seed, and for some requests a table."""

    facts: Mapping[str, Any]
    table: pa.Table | None = None

    def encode(self, media: str) -> tuple[bytes, dict[str, str]]:
        """Return the content in a format, and headers for facts that the format cannot hold."""
        if self.table is not None and media in TABLE_FORMATS:
            kept = {"X-Harpoon-Notes": self.facts.get("notes"), "X-Harpoon-Support": self.facts.get("support")}
            headers = {name: json.dumps(fact) for name, fact in kept.items() if fact}  # ASCII, as headers are
            seed = {"X-Harpoon-Seed": str(self.facts["seed"])}
            return _encode_table(self.table, TABLE_FORMATS[media]), {**seed, **headers}
        rows = {} if self.table is None else {"rows": to_records(self.table)}
        return as_json({**rows, **self.facts}), {}


Job = Callable[[JobControl], Payload]
EventQueue = asyncio.Queue[bytes | None]


@dataclass(frozen=True)
class Dispatcher:
    """Runs jobs in the workers and sends their results."""

    workers: Workers
    limits: Limits

    async def respond(self, request: Request, job: Job, *, tables: bool = False) -> Response:
        """Run a job and return its result in the accepted format. The job ends early if the client disconnects."""
        media = accepted_format(request, tables=tables)
        if media == EVENTS:
            return self._stream(request, job)
        control = JobControl(self.limits.seconds)
        future = self.workers.submit(lambda control: job(control).encode(media), control)
        disconnected = asyncio.ensure_future(_disconnect(request))
        both: set[asyncio.Future[Any]] = {future, disconnected}
        try:
            await asyncio.wait(both, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                content, headers = future.result()
                return Response(content, media_type=media, headers={**NO_STORE, **headers})
            raise client_gone() if disconnected.done() else timed_out(self.limits.seconds)
        finally:
            _release(control, future, disconnected)

    def _stream(self, request: Request, job: Job) -> Response:
        """Run a job and stream events: progress, then the result or the error."""
        loop, queue = asyncio.get_running_loop(), EventQueue()

        def on_progress(done: int, total: int | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event("progress", as_json({"done": done, "of": total})))

        control = JobControl(self.limits.seconds, on_progress)
        future = self.workers.submit(lambda control: job(control).encode(JSON)[0], control)
        return StreamingResponse(_events(request, future, queue, control), media_type=EVENTS, headers=NO_STORE)


async def _events(
    request: Request, future: asyncio.Future[bytes], queue: EventQueue, control: JobControl
) -> AsyncIterator[bytes]:
    """Yield events until the job ends or the client disconnects, then the result or the error."""
    disconnected = asyncio.ensure_future(_disconnect(request))
    for end in (future, disconnected):
        end.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (sent := await _next_event(queue)) is not None:
            yield sent
        if not disconnected.done():
            error = future.exception()
            yield event("result", future.result()) if error is None else event("error", log_error(error).body)
    finally:
        _release(control, future, disconnected)


async def _next_event(queue: EventQueue) -> bytes | None:
    try:
        return await asyncio.wait_for(queue.get(), KEEP_ALIVE_SECONDS)
    except TimeoutError:
        return b": keep-alive\n\n"


def event(name: str, data: bytes) -> bytes:
    r"""Return a server-sent event; JSON has no line breaks.

    >>> event("progress", b'{"done":1}')
    b'event: progress\ndata: {"done":1}\n\n'
    """
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


async def _disconnect(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _release(control: JobControl, future: asyncio.Future[Any], disconnected: asyncio.Future[None]) -> None:
    """Cancel what is left: a job that has not begun never does, and one that has ends at its next step."""
    control.cancel()
    disconnected.cancel()
    if not future.cancel() and not future.cancelled():
        future.exception()  # retrieved, or asyncio would log that nobody has


def accepted_format(request: Request, *, tables: bool = False) -> str:
    """Return the format that a client prefers among those of the service."""
    offered = (JSON, EVENTS, *TABLE_FORMATS) if tables else (JSON, EVENTS)
    for pattern in by_preference(request.headers.get("accept") or "*/*"):
        for media in offered:
            if pattern in (media, "*/*", f"{media.partition('/')[0]}/*"):
                return media
    message = f"The header Accept must allow one of {', '.join(offered)}."
    raise ApiError(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def by_preference(header: str) -> list[str]:
    """Return the media types of the header Accept, the preferred ones first.

    >>> by_preference("text/csv;q=0.5, application/json, text/html;q=0")
    ['application/json', 'text/csv']
    """
    found = []
    for part in header.lower().split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        weight = next((word[2:] for word in parameters if word.startswith("q=")), "1")
        found.append((float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0, media))
    return [media for quality, media in sorted(found, key=lambda one: -one[0]) if quality > 0]


def to_records(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as objects: dates and times as text, durations as integers.

    >>> import datetime as dt
    >>> to_records(pa.table({"day": [dt.date(2024, 1, 31)], "price": [Decimal("1.50")]}))
    [{'day': '2024-01-31', 'price': 1.5}]
    """
    names = table.column_names
    columns = [
        [float(cell) if isinstance(cell, Decimal) else cell for cell in plain_values(column)]
        for column in table.columns
    ]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def as_json(data: Any) -> bytes:  # noqa: ANN401
    """Return data as standard JSON: NaN and infinity become null."""
    return to_json(data, inf_nan_mode="null", bytes_mode="base64")


def _encode_table(table: pa.Table, format_: Format | None) -> bytes:
    """Return a table in a file format, or as an Arrow stream."""
    sink = pa.BufferOutputStream()
    if format_ is None:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.unify_dictionaries())
    else:
        with closing_writer(format_, sink) as writer:
            writer.write(table)
    return bytes(sink.getvalue())

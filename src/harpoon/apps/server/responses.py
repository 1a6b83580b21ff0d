"""From a job to a response: at once or as events, and never longer than somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from harpoon.apps.server.access_log import fault_of
from harpoon.apps.server.errors import gone, took_too_long
from harpoon.apps.server.formats import EVENTS, JSON, Payload, as_json
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.workers import JobControl, Workers

Job = Callable[[JobControl], Payload]
News = asyncio.Queue[bytes | None]
SILENCE = 10.0  # seconds, after which a stream shows that it is alive
NOT_KEPT = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Dispatcher:
    """Where jobs are handed in and answers given out."""

    workers: Workers
    limits: Limits

    async def reply(self, request: Request, job: Job, media: str) -> Response:
        """Do a job, and answer in a format. It ends early if the client goes away or the time is up."""
        if media == EVENTS:
            return self._streamed(request, job)
        watch = JobControl(self.limits.seconds)
        future = self.workers.start(lambda watch: job(watch).written(media), watch)
        left = asyncio.ensure_future(_left(request))
        both: set[asyncio.Future[Any]] = {future, left}
        try:
            await asyncio.wait(both, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                content, headers = future.result()
                return Response(content, media_type=media, headers={**NOT_KEPT, **headers})
            raise gone() if left.done() else took_too_long(self.limits.seconds)
        finally:
            _let_go(watch, future, left)

    def _streamed(self, request: Request, job: Job) -> Response:
        """Progress as it is made, then the answer or the error."""
        loop, news = asyncio.get_running_loop(), News()

        def tell(done: int, of: int | None) -> None:
            loop.call_soon_threadsafe(news.put_nowait, event("progress", as_json({"done": done, "of": of})))

        watch = JobControl(self.limits.seconds, tell)
        future = self.workers.start(lambda watch: job(watch).written(JSON)[0], watch)
        return StreamingResponse(_events(request, future, news, watch), media_type=EVENTS, headers=NOT_KEPT)


async def _events(
    request: Request, future: asyncio.Future[bytes], news: News, watch: JobControl
) -> AsyncIterator[bytes]:
    """News until there are no more, because the job is done or nobody listens, and then how it ended."""
    left = asyncio.ensure_future(_left(request))
    for end in (future, left):
        end.add_done_callback(lambda _: news.put_nowait(None))
    try:
        while (told := await _next(news)) is not None:
            yield told
        if not left.done():
            yield _last(future)
    finally:
        _let_go(watch, future, left)


async def _next(news: News) -> bytes | None:
    try:
        return await asyncio.wait_for(news.get(), SILENCE)
    except TimeoutError:
        return b": still at it\n\n"


def _last(future: asyncio.Future[bytes]) -> bytes:
    error = future.exception()
    return event("result", future.result()) if error is None else event("error", fault_of(error).body)


def event(name: str, data: bytes) -> bytes:
    r"""A server-sent event; JSON has no line breaks.

    >>> event("progress", b'{"done":1}')
    b'event: progress\ndata: {"done":1}\n\n'
    """
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


async def _left(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _let_go(watch: JobControl, future: asyncio.Future[Any], left: asyncio.Future[None]) -> None:
    """Nobody waits any more: a job that has not begun never does, and one that has ends at its next step."""
    watch.end()
    left.cancel()
    if not future.cancel() and not future.cancelled():
        future.exception()  # looked at, or asyncio would complain that nobody has

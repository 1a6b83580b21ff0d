"""From a job to a response: at once or as events, and never longer than somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from harpoon.serve.faults import GONE, Fault, took_too_long
from harpoon.serve.formats import EVENTS, JSON, TABLES, Answer, accepted, as_json
from harpoon.serve.limits import Limits
from harpoon.serve.work import Watch, Workers

Job = Callable[[Watch], Answer]
SILENCE = 10.0  # seconds, after which a stream shows that it is alive


async def reply(request: Request, job: Job, workers: Workers, limits: Limits, *, tables: bool = False) -> Response:
    """Do a job and send its answer in the format that the client asks for."""
    media = accepted(request.headers.get("accept", ""), tables=tables)
    if media == EVENTS:
        return _streamed(request, job, workers, limits)
    watch = Watch(limits.seconds)
    future = workers.start(lambda watch: _written(job(watch), media), watch)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({future, gone}, timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            content, headers = future.result()
            return Response(content, media_type=media, headers=headers)
        if gone.done():
            raise Fault(GONE, "Gone", "The client went away.")
        raise took_too_long(limits.seconds)
    finally:
        watch.stop()
        gone.cancel()
        future.cancel()


def _written(answer: Answer, media: str) -> tuple[bytes, dict[str, str]]:
    headers = {"X-Harpoon-Seed": str(answer.facts["seed"])} if media in TABLES and "seed" in answer.facts else {}
    return answer.written(media), headers


def _streamed(request: Request, job: Job, workers: Workers, limits: Limits) -> Response:
    """Progress as it is made, then the answer or the error."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def tell(done: int, of: int | None) -> None:
        loop.call_soon_threadsafe(told.put_nowait, event("progress", as_json({"done": done, "of": of})))

    watch = Watch(limits.seconds, tell)
    future = workers.start(lambda watch: _written(job(watch), JSON)[0], watch)
    return StreamingResponse(
        _events(request, future, told, watch), media_type=EVENTS, headers={"Cache-Control": "no-store"}
    )


async def _events(
    request: Request, future: asyncio.Future[bytes], told: asyncio.Queue[bytes], watch: Watch
) -> AsyncIterator[bytes]:
    gone = asyncio.ensure_future(_gone(request))
    try:
        while not future.done() and not gone.done():
            news = asyncio.ensure_future(told.get())
            await asyncio.wait({future, gone, news}, timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
            if news.done():
                yield news.result()
            else:
                news.cancel()
                yield b"" if future.done() else b": still at it\n\n"
        if future.done():
            yield _last(future)
    finally:
        watch.stop()
        gone.cancel()
        future.cancel()


def _last(future: asyncio.Future[bytes]) -> bytes:
    try:
        return event("result", future.result())
    except Exception as error:  # noqa: BLE001
        return event("error", as_json(Fault.of(error).body))


def event(name: str, data: bytes) -> bytes:
    """A server-sent event; JSON has no line breaks.

    >>> event("progress", b'{"done":1}')
    b'event: progress\\ndata: {"done":1}\\n\\n'
    """
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


async def _gone(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

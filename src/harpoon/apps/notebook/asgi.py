"""Requests to an ASGI application without a server: an event loop in a thread, and a function that gets the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Scope

HOST = "localhost"  # what the application takes for its own machine


@dataclass(frozen=True)
class Request:
    """A request: its path may have a query."""

    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def scope(self) -> Scope:
        """Return the request as an ASGI scope."""
        url = urlsplit(f"/{self.path.removeprefix('/')}")
        headers = {**{name.lower(): value for name, value in self.headers.items()}, "host": HOST}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": self.method.upper(),
            "path": url.path,
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            "client": None,
            "server": None,
        }


@dataclass(frozen=True)
class Answer:
    """A part of an answer: the first has a status and headers, the others a piece of the body, the last one the end."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_last: bool = False


class InProcessClient:
    """Sends requests to an application in an event loop of its own, so that the caller's need not run.

    The loop begins with the first request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gone: dict[str, asyncio.Event] = {}  # of each request that is not answered yet: its sender has left
        self._tasks: set[asyncio.Task[None] | None] = set()

    def send(self, key: str, request: Request, on_answer: Callable[[Answer], None]) -> None:
        """Send a request. Its answer is given to a function in the thread of the loop, part by part."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            Thread(target=_run, args=(self._loop,), name="harpoon-notebook", daemon=True).start()
        self._gone[key] = asyncio.Event()  # before anyone can abort it
        asyncio.run_coroutine_threadsafe(self._answer(key, request, on_answer), self._loop)

    def abort(self, key: str) -> None:
        """End a request whose sender no longer waits; one that has ended is left alone."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._disconnect, key)

    def close(self) -> None:
        """End all requests and the loop; a later request begins another one."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _disconnect(self, key: str) -> None:
        if key in self._gone:
            self._gone[key].set()

    async def _finish(self) -> None:
        for key in tuple(self._gone):
            self._disconnect(key)
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)

    async def _answer(self, key: str, request: Request, on_answer: Callable[[Answer], None]) -> None:
        bodies = [request.body]
        gone = self._gone[key]
        task = asyncio.current_task()
        self._tasks.add(task)

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if not gone.is_set():
                on_answer(_part(message))

        try:
            await self._app(request.scope(), receive, send)
        finally:
            del self._gone[key]
            self._tasks.discard(task)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped."""
    loop.run_forever()
    loop.close()


def _part(message: Message) -> Answer:
    if message["type"] == "http.response.start":
        headers: Any = message.get("headers", ())
        return Answer(message["status"], {name.decode("latin-1"): value.decode("latin-1") for name, value in headers})
    return Answer(body=bytes(message.get("body", b"")), is_last=not message.get("more_body", False))

"""What every request passes before it reaches the model: the log, the headers, the door and the scales."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import traceback
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harpoon.serve.faults import GONE, Fault, too_large
from harpoon.serve.formats import JSON, as_json
from harpoon.serve.limits import Limits

LOG = logging.getLogger("harpoon.serve")
SMALL = 2**20  # bytes of a question that brings no table
PATIENCE = 2.0  # seconds that a body which is too large is listened to, so that its sender hears why
SAFE = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def response_of(fault: Fault) -> Response:
    """A fault as a response."""
    return Response(as_json(fault.body), fault.status, fault.headers, JSON)


class Logged:
    """One line of JSON for each request, which holds no cell and no condition; and an answer whatever happens."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and write down what became of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, line = monotonic(), {"id": secrets.token_hex(4), "method": scope["method"], "path": scope["path"]}
        sent = {"status": 0, "bytes": 0}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = line["id"]
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            sent["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:  # noqa: BLE001
            fault = Fault.of(error)
            line |= {"error": type(error).__name__, "at": _place(error)}
            if not sent["status"]:
                await response_of(fault)(scope, receive, noted)
        finally:
            level = logging.ERROR if sent["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO
            LOG.log(level, "request", extra={"facts": {**line, **sent, "seconds": round(monotonic() - began, 4)}})


def _place(error: BaseException) -> str:
    """Where an error comes from; its words may hold cells."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


class Door:
    """Who may come in: whoever has the token, or, where there is none, programs and pages of this machine alone.

    A page of another site could otherwise ask in the name of who looks at it, by naming this machine as its own.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str], open_paths: Collection[str]) -> None:
        self.app, self.token, self.hosts, self.open_paths = app, token, set(hosts), set(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] == "http":
            fault = self._objection(scope["path"], Headers(scope=scope))
            if fault is not None:
                await response_of(fault)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _objection(self, path: str, headers: Headers) -> Fault | None:
        if self.token is not None:
            scheme, _, sent = headers.get("authorization", "").partition(" ")
            right = scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self.token.encode())
            if right or path in self.open_paths:
                return None
            message = "This service wants a token: send the header `Authorization: Bearer TOKEN`."
            return Fault(HTTPStatus.UNAUTHORIZED, "Unauthorized", message, {"WWW-Authenticate": "Bearer"})
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        origin = headers.get("origin")
        if name not in self.hosts or (origin is not None and urlsplit(origin).netloc != host):
            message = "Without a token this service answers programs and pages of its own machine alone."
            return Fault(HTTPStatus.FORBIDDEN, "Forbidden", message)
        return None


class Scales:
    """Reads the whole body of a request before anything else is done, if it is not too large and comes in time."""

    def __init__(self, app: ASGIApp, *, limits: Limits, large: Collection[str]) -> None:
        self.app, self.limits, self.large, self.held = app, limits, set(large), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = self.limits.body if scope["path"] in self.large else min(SMALL, self.limits.body)
        body = bytearray()
        try:
            await self._fill(body, most, Headers(scope=scope), receive)
            await self.app(scope, _replayed(bytes(body), receive), send)
        except Fault as fault:
            await response_of(fault)(scope, receive, send)
        finally:
            self.held -= len(body)

    async def _fill(self, body: bytearray, most: int, headers: Headers, receive: Receive) -> None:
        if headers.get("content-encoding", "identity") != "identity":
            raise Fault(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Packed", "Send the body as it is, without packing it.")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            if headers.get("expect", "").lower() != "100-continue":
                await _listened(receive)
            raise _heavy(most)
        try:
            async with asyncio.timeout(self.limits.upload_seconds):
                while await self._more(body, receive):
                    if len(body) > most:
                        await _listened(receive)
                        raise _heavy(most)
        except TimeoutError:
            raise Fault(
                HTTPStatus.REQUEST_TIMEOUT,
                "SlowBody",
                f"A request has {self.limits.upload_seconds:g} s to arrive, and this one took longer.",
                {"Connection": "close"},
            ) from None

    async def _more(self, body: bytearray, receive: Receive) -> bool:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Fault(GONE, "Gone", "The client went away.")
        part = message.get("body", b"")
        if self.held + len(part) > self.limits.held:
            raise Fault(
                HTTPStatus.TOO_MANY_REQUESTS,
                "Busy",
                "Too much is being sent at once. Try again in a moment.",
                {"Retry-After": "1", "Connection": "close"},
            )
        body += part
        self.held += len(part)
        return bool(message.get("more_body"))


def _heavy(most: int) -> Fault:
    fault = too_large(f"The body of this request may have {most:,} bytes, and it has more. Send less at once.")
    fault.headers["Connection"] = "close"
    return fault


async def _listened(receive: Receive) -> None:
    """Hear a client out for a while: one that is cut short would not see the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while (await receive()).get("more_body"):
                pass


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and then whatever comes."""
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pieces.pop() if pieces else await receive()

    return replay


class Lines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        return json.dumps({**facts, "message": record.getMessage(), **getattr(record, "facts", {})})

"""What every request passes before it reaches the model: the headers of the answer, the door, and the scales."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harpoon.apps.server.errors import ApiError, busy, gone, response_of, too_large
from harpoon.apps.server.limits import Limits

SMALL = 2**20  # bytes of a question that brings no table
PATIENCE = 2.0  # seconds that a body which is too large is listened to, so that its sender hears why
SAFE = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSE = {"Connection": "close"}


class SecurityHeaders:
    """Tells browsers to load nothing from elsewhere, to guess nothing, and to tell nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer with more headers."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SAFE)
            await send(message)

        await self.app(scope, receive, with_headers)


class TokenAuth:
    """Who may come in: whoever has the token, or, where there is none, programs and pages of this machine alone.

    A page of another site could else ask in the name of who looks at it, by a name of its own for this machine.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str], open_paths: Collection[str]) -> None:
        self.app, self.token, self.hosts, self.open_paths = app, token, set(hosts), set(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        fault = self._objection(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (self.app if fault is None else response_of(fault))(scope, receive, send)

    def _objection(self, path: str, headers: Headers) -> ApiError | None:
        if self.token is None:
            return None if self._is_near(headers) else _stranger()
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        known = scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self.token.encode())
        return None if known or path in self.open_paths else _unknown(sent=bool(sent.strip()))

    def _is_near(self, headers: Headers) -> bool:
        host, origin = headers.get("host", ""), headers.get("origin")
        return _split(f"//{host}")[0] in self.hosts and (origin is None or _split(origin)[1] == host)


class BodyLimit:
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
        except ApiError as fault:
            self.held -= len(body)
            await response_of(fault)(scope, receive, send)
            return
        try:
            await self.app(scope, _replayed(bytes(body), receive), send)
        finally:
            self.held -= len(body)

    async def _fill(self, body: bytearray, most: int, headers: Headers, receive: Receive) -> None:
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Packed", "Send the body as it is, without packing it.")
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
            raise _slow(self.limits.upload_seconds) from None

    async def _more(self, body: bytearray, receive: Receive) -> bool:
        """Take the next part of a body; whether there are more."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise gone()
        part = message.get("body", b"")
        if self.held + len(part) > self.limits.held:
            raise busy("Too much is being sent at once.", CLOSE)
        body += part
        self.held += len(part)
        return bool(message.get("more_body"))


async def _listened(receive: Receive) -> None:
    """Hear a client out for a while: one that is cut short does not see the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while (await receive()).get("more_body"):
                pass


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and then whatever comes."""
    pieces: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pieces.pop() if pieces else await receive()

    return replay


def _split(url: str) -> tuple[str, str]:
    """The name of a machine, and the same with its port; nothing for what is no address.

    >>> _split("//[::1]:8420"), _split("http://[")
    (('::1', '[::1]:8420'), ('', ''))
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.hostname or "", parts.netloc


def _unknown(*, sent: bool) -> ApiError:
    message = "This service wants a token: send the header `Authorization: Bearer TOKEN`."
    message = "This is not the token that the service was started with." if sent else message
    return ApiError(HTTPStatus.UNAUTHORIZED, "Unauthorized", message, {"WWW-Authenticate": "Bearer"})


def _stranger() -> ApiError:
    message = "Without a token this service answers programs and pages of its own machine alone."
    return ApiError(HTTPStatus.FORBIDDEN, "Forbidden", message)


def _heavy(most: int) -> ApiError:
    return too_large(f"The body of this request may have {most:,} bytes, and it has more. Send less at once.", CLOSE)


def _slow(seconds: float) -> ApiError:
    message = f"A request has {seconds:g} s to arrive, and this one took longer."
    return ApiError(HTTPStatus.REQUEST_TIMEOUT, "SlowBody", message, CLOSE)

"""Middleware: the access log, headers of answers, the token, and the size of a body."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harpoon.apps.server.access_log import LOG, log_error
from harpoon.apps.server.errors import ApiError, busy, client_gone, to_response, too_large
from harpoon.apps.server.limits import Limits

MAX_JSON_BYTES = 2**20  # of a request without a table
DRAIN_SECONDS = 2.0  # reading a body that is too large, so that its sender sees the answer
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSE = {"Connection": "close"}


class AccessLog:
    """Logs each request, adds headers to each answer, and answers if anything raises.

    With the headers browsers load nothing from other sites and send no referrer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request_id = monotonic(), secrets.token_hex(4)
        status = size = 0

        async def counting_send(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update({**SECURITY_HEADERS, "X-Request-ID": request_id})
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counting_send)
        except Exception as raised:  # noqa: BLE001  # the client gets an answer in any case
            error = log_error(raised)
            if not status:
                await to_response(error)(scope, receive, counting_send)
        finally:
            facts = {"id": request_id, "method": scope["method"], "path": scope["path"], "status": status}
            LOG.info("request", extra={"facts": {**facts, "bytes": size, "seconds": round(monotonic() - started, 4)}})


class TokenAuth:
    """Admits requests with the token. Without a token, only requests from this machine.

    The checks of Host and Origin keep out pages of other sites, which a browser on this machine may show (DNS
    rebinding).
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str], open_paths: Collection[str]) -> None:
        self.app, self.token, self.hosts, self.open_paths = app, token, set(hosts), set(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with an error."""
        error = self._check(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (self.app if error is None else to_response(error))(scope, receive, send)

    def _check(self, path: str, headers: Headers) -> ApiError | None:
        if self.token is None:
            host, origin = headers.get("host", ""), headers.get("origin")
            if _split(f"//{host}")[0] in self.hosts and (origin is None or _split(origin)[1] == host):
                return None
            message = "Without a token this service answers only programs and pages of its own machine."
            return ApiError(HTTPStatus.FORBIDDEN, "Forbidden", message)
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        valid = scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self.token.encode())
        if valid or path in self.open_paths:
            return None
        message = "This service needs a token: send the header `Authorization: Bearer TOKEN`."
        message = "This is not the token that the service was started with." if sent.strip() else message
        return ApiError(HTTPStatus.UNAUTHORIZED, "Unauthorized", message, {"WWW-Authenticate": "Bearer"})


class BodyLimit:
    """Reads the body of a request before anything else is done, up to a limit of bytes and of time."""

    def __init__(self, app: ASGIApp, *, limits: Limits, large: Collection[str]) -> None:
        self.app, self.limits, self.large, self.buffered = app, limits, set(large), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or answer with an error."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        max_bytes = self.limits.body if scope["path"] in self.large else min(MAX_JSON_BYTES, self.limits.body)
        body = bytearray()
        try:
            await self._read(body, max_bytes, Headers(scope=scope), receive)
        except ApiError as error:
            self.buffered -= len(body)
            await to_response(error)(scope, receive, send)
            return
        try:
            await self.app(scope, _replay(bytes(body), receive), send)
        finally:
            self.buffered -= len(body)

    async def _read(self, body: bytearray, max_bytes: int, headers: Headers, receive: Receive) -> None:
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "EncodedBody", "Send the body without Content-Encoding.")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > max_bytes:
            if headers.get("expect", "").lower() != "100-continue":
                await _drain(receive)
            raise _body_too_large(max_bytes)
        try:
            async with asyncio.timeout(self.limits.upload_seconds):
                while await self._read_part(body, receive):
                    if len(body) > max_bytes:
                        await _drain(receive)
                        raise _body_too_large(max_bytes)
        except TimeoutError:
            limit = f"{self.limits.upload_seconds:g} s"
            message = f"The body of this request took longer than {limit} to arrive, which is the limit."
            raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "SlowBody", message, CLOSE) from None

    async def _read_part(self, body: bytearray, receive: Receive) -> bool:
        """Read the next part of a body, and return whether there are more."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise client_gone()
        part = message.get("body", b"")
        if self.buffered + len(part) > self.limits.buffered:
            raise busy("Too much is being sent at once.", CLOSE)
        body += part
        self.buffered += len(part)
        return bool(message.get("more_body"))


async def _drain(receive: Receive) -> None:
    """Read on for a while: a client whose upload is cut short does not see the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while (await receive()).get("more_body"):
                pass


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body in one message, then later messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _split(url: str) -> tuple[str, str]:
    """Return the host of a URL without and with its port, or empty texts if it is not a URL.

    >>> _split("//[::1]:8420"), _split("http://[")
    (('::1', '[::1]:8420'), ('', ''))
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.hostname or "", parts.netloc


def _body_too_large(max_bytes: int) -> ApiError:
    return too_large(
        f"The body of this request has more than {max_bytes:,} bytes, which is the limit. Send less at once.", CLOSE
    )

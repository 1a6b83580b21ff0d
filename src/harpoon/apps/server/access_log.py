"""The access log: one line of JSON for each request, without cells and conditions."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import traceback
from http import HTTPStatus
from time import monotonic

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harpoon.apps.server.errors import ApiError, to_response

LOG = logging.getLogger("harpoon.apps.server")


class LogFormatter(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        return json.dumps({**facts, "message": record.getMessage(), **getattr(record, "facts", {})})


class AccessLog:
    """Middleware that logs each request, and answers if anything raises."""

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
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
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


def log_error(raised: BaseException) -> ApiError:
    """Return an exception as an error response. The place of a bug is logged, not its text, which may hold cells."""
    error = ApiError.from_exception(raised)
    if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        last = traceback.extract_tb(raised.__traceback__)[-1]
        LOG.error("bug", extra={"facts": {"error": type(raised).__name__, "at": f"{last.filename}:{last.lineno}"}})
    return error


def log_to_stderr(*, quiet: bool) -> None:
    """Write the log and the warnings of the server to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    for name, level in ((LOG.name, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR if quiet else level)

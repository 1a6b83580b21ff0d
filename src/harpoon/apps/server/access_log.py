"""The log: one line of JSON for each request, which holds no cell and no condition."""

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

from harpoon.apps.server.errors import ApiError, response_of

LOG = logging.getLogger("harpoon.apps.server")


class LogFormatter(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        return json.dumps({**facts, "message": record.getMessage(), **getattr(record, "facts", {})})


class AccessLog:
    """Writes down what became of each request, and answers whatever happens."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, number = monotonic(), secrets.token_hex(4)
        status = size = 0

        async def noted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = number
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:  # noqa: BLE001  # whatever it is, the client is owed an answer and the log a line
            fault = fault_of(error)
            if not status:
                await response_of(fault)(scope, receive, noted)
        finally:
            facts = {"id": number, "method": scope["method"], "path": scope["path"], "status": status, "bytes": size}
            LOG.info("request", extra={"facts": {**facts, "seconds": round(monotonic() - began, 4)}})


def fault_of(error: BaseException) -> ApiError:
    """Any error as a fault; where one of ours comes from is written down, but not its words, which may hold cells."""
    fault = ApiError.of(error)
    if fault.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        last = traceback.extract_tb(error.__traceback__)[-1]
        LOG.error("fault", extra={"facts": {"error": type(error).__name__, "at": f"{last.filename}:{last.lineno}"}})
    return fault


def log_to_stderr(*, quiet: bool) -> None:
    """Our log, and what the server complains of, on the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    for name, level in ((LOG.name, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR if quiet else level)

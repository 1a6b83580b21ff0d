"""The access log: one line of JSON for each request, without cells and conditions."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from http import HTTPStatus

from harpoon.apps.server.errors import ApiError

LOG = logging.getLogger("harpoon.apps.server")


class LogFormatter(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        return json.dumps({**facts, "message": record.getMessage(), **getattr(record, "facts", {})})


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

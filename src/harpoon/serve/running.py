"""The server: one socket, one process, and a quiet end."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn
from fastapi import FastAPI

from harpoon.errors import InvalidOption
from harpoon.serve.guards import LOG, Lines
from harpoon.serve.limits import Limits

GRACE = 5  # seconds for answers that are under way when the server is asked to end


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, or a sentence why none can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidOption(
            f"Nothing can listen at {host}, port {port}: {error.strerror}. Choose another one with --port, or --port 0 "
            "for any that is free."
        ) from None


def run(app: FastAPI, listening: socket.socket, limits: Limits, *, quiet: bool = False) -> None:
    """Serve until Ctrl-C or a polite kill; answers that are under way have some seconds to finish."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for logger in (LOG, logging.getLogger("uvicorn.error")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR if quiet else logging.INFO if logger is LOG else logging.WARNING)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listening])

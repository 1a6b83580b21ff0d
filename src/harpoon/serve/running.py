"""The server: one socket, one process, and a quiet end."""

from __future__ import annotations

import os
import socket

import uvicorn
from fastapi import FastAPI

from harpoon.errors import InvalidOption
from harpoon.serve.limits import Limits
from harpoon.serve.logs import log_to_stderr

GRACE = 5  # seconds that answers under way have when the server is asked to end


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or a sentence why none can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InvalidOption(
            f"The service cannot listen at {host}, port {port}: {why}. Choose another port with --port, or any that "
            "is free with --port 0."
        ) from None


def run(app: FastAPI, sock: socket.socket, limits: Limits, *, quiet: bool = False) -> None:
    """Serve until Ctrl-C or a polite kill; answers that are under way then have some seconds to finish."""
    log_to_stderr(quiet=quiet)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[sock])

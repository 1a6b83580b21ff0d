"""The HTTP server: one socket, one process, graceful shutdown."""

from __future__ import annotations

import asyncio
import os
import socket

import uvicorn
from fastapi import FastAPI

from harpoon.apps.server.access_log import log_to_stderr
from harpoon.apps.server.limits import Limits
from harpoon.exceptions import InvalidOption

GRACE_SECONDS = 5.0  # for running requests, at shutdown
CLOSE_SECONDS = 5  # after the grace time, until connections are closed
MAX_HEADER_BYTES = 2**18  # an address may hold a condition, percent-encoded


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InvalidOption(
            f"The service cannot listen at {host}, port {port}: {reason}. Choose another port, or port 0 for any that "
            "is free."
        ) from None


def run(app: FastAPI, sock: socket.socket, limits: Limits, *, quiet: bool = False) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    log_to_stderr(quiet=quiet)
    server = make_server(app, limits)
    app.state.stop = lambda: setattr(server, "should_exit", True)
    server.run(sockets=[sock])


class Server(uvicorn.Server):
    """A server that lets running requests finish at shutdown, and cancels them after the grace time."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down."""
        workers = self.config.app.state.workers  # type: ignore[union-attr]
        asyncio.get_running_loop().call_later(GRACE_SECONDS, workers.cancel_all)
        await super().shutdown(sockets)


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """Return the server of an application."""
    config = uvicorn.Config(
        app,
        http="h11",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(GRACE_SECONDS) + CLOSE_SECONDS,
    )
    return Server(config)

"""The server: one socket, one process, and a quiet end."""

from __future__ import annotations

import asyncio
import os
import socket

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from harpoon.apps.server.access_log import log_to_stderr
from harpoon.apps.server.limits import Limits
from harpoon.exceptions import InvalidOption

GRACE = 5.0  # seconds that answers under way have when the server is asked to end
LONGEST_HEAD = 2**18  # bytes of a request before its body: an address may hold a condition, in hexadecimal
LAST = 5  # seconds after which connections are closed whatever is under way


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
    server_of(app, limits).run(sockets=[sock])


class Server(uvicorn.Server):
    """Lets answers finish when it is asked to end, and after a while tells those who wait that it ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        asyncio.get_running_loop().call_later(GRACE, self.config.app.state.workers.end)  # type: ignore[union-attr]
        await super().shutdown(sockets)


class Patient(H11Protocol):
    """A connection that is closed if the head of a request does not come in time, or none comes at all."""

    _waiting: asyncio.TimerHandle | None = None
    seconds = Limits.upload_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on, unless a request has come."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there to be waited for."""
        super().connection_lost(exc)
        self._stop()

    def _wait(self) -> None:
        under_way = self.cycle is not None and not self.cycle.response_complete
        if under_way:
            self._stop()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.seconds, self.transport.close)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def server_of(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """The server with our settings."""
    config = uvicorn.Config(
        app,
        http=type("Connection", (Patient,), {"seconds": limits.upload_seconds}),
        h11_max_incomplete_event_size=LONGEST_HEAD,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(GRACE) + LAST,
    )
    return Server(config)

"""The files of Studio. Each is served under its own name, and nothing else is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse

FOLDER = Path(__file__).parent / "studio"


def files() -> dict[str, Path]:
    """Return the file of each address."""
    found = {f"/{path.relative_to(FOLDER).as_posix()}": path for path in sorted(FOLDER.rglob("*")) if path.is_file()}
    return {"/": FOLDER / "index.html", **found}


def add_pages(app: FastAPI) -> None:
    """Serve every file of Studio."""
    for address, path in files().items():
        app.add_route(address, _sender(path), methods=["GET"], include_in_schema=False)


def _sender(path: Path) -> Callable[[Request], Awaitable[FileResponse]]:
    async def send(_request: Request) -> FileResponse:
        return FileResponse(path)

    return send

"""The files of Studio, each under its name. There are no others, whatever an address looks like."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse

FOLDER = Path(__file__).parent / "studio"


def files() -> dict[str, Path]:
    """The paths of addresses, and the files that are there."""
    found = {f"/{path.relative_to(FOLDER).as_posix()}": path for path in sorted(FOLDER.rglob("*")) if path.is_file()}
    return {"/": FOLDER / "index.html", **found}


def add_pages(app: FastAPI) -> None:
    """Serve every file of Studio."""
    for address, path in files().items():
        app.add_route(address, _sender(path), methods=["GET"], include_in_schema=False)


def _sender(path: Path):  # noqa: ANN202
    async def send(_request: object) -> FileResponse:
        return FileResponse(path)

    return send

"""Where the bench keeps what it downloads and trains: outside the repository, in the user's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harpoon._utils.files import replace_atomically
from harpoon.exceptions import MissingExtra

CACHE = "HARPOON_CACHE"


def cache(*parts: str) -> Path:
    """A folder that is made if need be: under `HARPOON_CACHE`, or where the system keeps such things."""
    folder = _root().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _root() -> Path:
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    try:
        from platformdirs import user_cache_path
    except ImportError:
        raise MissingExtra.named("platformdirs", "bench", "The user's cache") from None
    return user_cache_path("harpoon")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """`replacing`, in a folder that is made if need be.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole(Path(folder, "a", "note.txt")) as file:
    ...         _ = file.write_text("all of it")
    ...     Path(folder, "a", "note.txt").read_text()
    'all of it'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as temporary:
        yield temporary

"""The folder of downloads, environments and trained methods, outside the repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from harpoon._utils.files import replace_atomically

CACHE_VARIABLE = "HARPOON_CACHE"


def cache_folder(*parts: str) -> Path:
    """Return a folder of the cache, and create it if needed.

    The cache is the folder named by `HARPOON_CACHE`, or the user's cache folder.
    """
    root = os.environ.get(CACHE_VARIABLE)
    folder = (Path(root) if root else user_cache_path("harpoon")).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Replace a file atomically, and create its folder if needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_atomically(Path(folder, "a", "note.txt")) as file:
    ...         _ = file.write_text("complete")
    ...     Path(folder, "a", "note.txt").read_text()
    'complete'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as temporary:
        yield temporary

"""Atomic replacement of files."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".harpoon-"
REPLACE_ATTEMPTS = 20 if sys.platform == "win32" else 1  # elsewhere an open file can be replaced
RETRY_SECONDS = 0.05


@contextmanager
def replace_atomically(target: Path) -> Iterator[Path]:
    """Yield a temporary file beside the target, which replaces it on success and is removed on failure.

    A link stays a link: its target is replaced. Only a killed process leaves the temporary file behind. It is never
    cleaned up later, because a name does not prove whose file it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_atomically(Path(folder, "notes.txt")) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     [path.name for path in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = target.resolve() if target.is_symlink() else target
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=TEMPORARY)
    temporary = Path(name)
    os.close(descriptor)
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows synchronises only what may be written
            os.fsync(file.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        _replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _replace(temporary: Path, target: Path) -> None:
    """Replace the target. On Windows another program that reads it, such as a virus scanner, is waited for."""
    for _ in range(REPLACE_ATTEMPTS - 1):
        try:
            temporary.replace(target)
        except PermissionError:
            time.sleep(RETRY_SECONDS)
        else:
            return
    temporary.replace(target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

"""Atomic replacement of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".harpoon-"


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
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

"""Bytes of files and of the standard input, to be read as often as needed."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from harpoon.exceptions import InvalidTable, TableFileError
from harpoon.io.location import Location

HEAD = 2**16  # Python's csv module, which looks at the first lines, takes cells up to twice that
GZIP = b"\x1f\x8b"
LINELESS = "A table has at least a line with the names of its columns."
NAMELESS = "JSON lines without a line have no columns; CSV or Parquet can hold a table without rows."


class ByteSource:
    """The bytes of a table, unpacked. What cannot be read twice, such as a pipe, is kept in a temporary file.

    Attributes:
        name: For messages.
        head: The first bytes.
    """

    def __init__(self, place: Location, stack: ExitStack) -> None:
        self.name = "The standard input" if place.path is None else repr(place.text)
        self._stack = stack
        with self.complaints():
            self._path = self._kept(sys.stdin.buffer) if place.path is None else self._whole(place.path)
            with pa.OSFile(str(self._path)) as file:
                self._gzipped = file.read(2) == GZIP
            with self.opened() as file:
                self.head: bytes = file.read(HEAD)
        if not self.head.strip():
            raise InvalidTable(f"{self.name} is empty. {NAMELESS if place.format == 'jsonl' else LINELESS}")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The bytes from the start, one after the other."""
        with pa.OSFile(str(self._path)) as raw:
            if not self._gzipped:
                yield raw
            else:
                with pa.CompressedInputStream(raw, "gzip") as unpacked:
                    yield unpacked

    @contextmanager
    def seekable(self) -> Iterator[Any]:
        """The bytes in any order."""
        if self._gzipped:
            with self.opened() as unpacked:
                self._path, self._gzipped = self._kept(unpacked), False
        with pa.OSFile(str(self._path)) as raw:
            yield raw

    @contextmanager
    def complaints(self) -> Iterator[None]:
        """What goes wrong in here, said as ours."""
        try:
            yield
        except (OSError, pa.ArrowException, EOFError) as error:
            if isinstance(error, TableFileError):
                raise
            raise TableFileError.unreadable(self.name, error) from None

    def _whole(self, path: Path) -> Path:
        """The file, or what came out of a pipe; a folder, and what is not there, complain when they are opened."""
        if path.is_file():
            return path
        with path.open("rb") as pipe:
            mode = os.fstat(pipe.fileno()).st_mode
            if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not pipe.isatty():
                raise TableFileError(f"{self.name} is a device, which may have no end. Pipe what it holds to '-'.")
            return self._kept(pipe)

    def _kept(self, source: Any) -> Path:  # noqa: ANN401
        held = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="harpoon-")), "table")
        with held.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
        return held


class InMemoryBytes(ByteSource):
    """Bytes in memory, such as those of an upload. They are never unpacked: a few could become very many."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.head, self._content = name, content[:HEAD], content
        if not self.head.strip():
            raise InvalidTable(f"{name} is empty. {LINELESS}")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The bytes from the start, one after the other."""
        yield pa.BufferReader(self._content)

    seekable = opened

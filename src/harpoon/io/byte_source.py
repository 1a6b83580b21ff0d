"""Bytes of files, pipes and uploads, which can be read repeatedly."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from harpoon.exceptions import InvalidTable, TableFileError
from harpoon.io.location import Location, translate_errors

HEAD_BYTES = 2**16  # below the limit of Python's csv module for one cell
GZIP_MAGIC = b"\x1f\x8b"
NO_HEADER = "A table needs at least a line with the names of its columns."
NO_JSON_LINE = "JSON lines without a line have no columns; CSV or Parquet can hold a table without rows."


class ByteSource:
    """The decompressed bytes of a file. A pipe can be read only once, so it is copied to a temporary file."""

    name: str  # in messages
    head: bytes  # the first bytes

    def __init__(self, location: Location, stack: ExitStack) -> None:
        self.name, self._stack = location.name, stack
        with self.translate_errors():
            self._path = self._copy(sys.stdin.buffer) if location.path is None else self._to_file(location.path)
            with pa.OSFile(str(self._path)) as file:
                self._gzipped = file.read(2) == GZIP_MAGIC
            with self.open() as file:
                self.head = file.read(HEAD_BYTES)
        if not self.head.strip():
            raise InvalidTable(f"{self.name} is empty. {NO_JSON_LINE if location.format == 'jsonl' else NO_HEADER}")

    def open(self) -> pa.NativeFile:
        """Open the bytes for sequential reading."""
        return pa.input_stream(str(self._path), compression="gzip" if self._gzipped else None)

    def open_seekable(self) -> pa.NativeFile:
        """Open the bytes for random access."""
        if self._gzipped:
            with self.open() as decompressed:
                self._path, self._gzipped = self._copy(decompressed), False
        return pa.OSFile(str(self._path))

    def translate_errors(self) -> AbstractContextManager[None]:
        """Raise errors of the operating system and of Arrow as TableFileError."""
        return translate_errors(TableFileError.unreadable, self.name, OSError, pa.ArrowException, EOFError)

    def _to_file(self, path: Path) -> Path:
        """Return the file, or a copy of what a pipe gives. Folders and missing files raise when they are opened."""
        if path.is_file():
            return path
        with path.open("rb") as pipe:
            mode = os.fstat(pipe.fileno()).st_mode
            if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not pipe.isatty():
                raise TableFileError(f"{self.name} is a device, which may be endless. Pipe its content to '-'.")
            return self._copy(pipe)

    def _copy(self, source: Any) -> Path:  # noqa: ANN401
        path = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="harpoon-")), "table")
        with path.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
        return path


class InMemoryBytes(ByteSource):
    """Bytes in memory, such as an upload. They are never decompressed: a few bytes could become very many."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.head, self._content = name, content[:HEAD_BYTES], content
        if not self.head.strip():
            raise InvalidTable(f"{name} is empty. {NO_HEADER}")

    def open(self) -> pa.NativeFile:
        """Open the bytes."""
        return pa.BufferReader(self._content)

    open_seekable = open  # noqa: A003

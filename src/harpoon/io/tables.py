"""Tables from and to any location, whole or in chunks. A file appears complete or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa

from harpoon._utils.files import replace_atomically
from harpoon.data import dataframe
from harpoon.exceptions import InvalidOption, InvalidTable, TableFileError
from harpoon.io.byte_source import ByteSource
from harpoon.io.databases import base as database
from harpoon.io.location import AnyLocation, Location
from harpoon.io.registry import FORMATS, Format, format_of_head
from harpoon.io.source import ReadOptions, Source, check_text_options

CHUNK_ROWS = 2**16
FOREIGN_MAGIC = {
    b"PK\x03\x04": "a zip or Excel file. Save the sheet as CSV",
    b"SQLite format 3": "a SQLite database. Name its table: sqlite:///file.db#table",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
}


@contextmanager
def open_source(source: AnyLocation, options: ReadOptions | None = None) -> Iterator[Source]:
    """Open a table for reading: its `schema`, and its rows in `chunks`."""
    location, options = Location.parse(source), options or ReadOptions()
    with ExitStack() as stack:
        if location.in_database:
            options.check(location.name, location.format)
            yield database.open_source(location, options, stack)
        else:
            yield _open_file(location, options, stack)


def read_table(
    source: AnyLocation, columns: Sequence[str] | None = None, *, options: ReadOptions | None = None
) -> pa.Table:
    """Read a whole table.

    Args:
        source: A path, a database URL or `-`.
        columns: The columns to keep; all by default.
        options: Delimiter, encoding and the like, where they should not be detected.
    """
    with open_source(source, options) as table:
        kept = list(table.schema.names if columns is None else columns)
        if unknown := [name for name in kept if name not in table.schema.names]:
            raise InvalidOption.no_column("The table", unknown[0], table.schema.names)
        chunks = [chunk.table.select(kept) for chunk in table.chunks(CHUNK_ROWS)]
        return pa.concat_tables(chunks) if chunks else table.schema.empty_table().select(kept)


def read_batches(
    source: AnyLocation, size: int = CHUNK_ROWS, *, options: ReadOptions | None = None
) -> Iterator[pa.Table]:
    """Yield a table, `size` rows at a time. All batches have the same types."""
    with open_source(source, options) as table:
        for chunk in table.chunks(size):
            yield chunk.table


class Writer(Protocol):
    """Takes a table in chunks. If it has a method `close`, that is called at the end, also after an error."""

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""


@contextmanager
def open_writer(
    target: AnyLocation,
    force: bool = False,  # noqa: FBT001, FBT002
    *,
    format: str = "",  # noqa: A002
    delimiter: str | None = None,
) -> Iterator[Writer]:
    """Open a location for writing; `write` of the writer appends rows.

    The table appears at the end, or not at all if an error is raised.

    Args:
        target: A path, a database URL or `-`.
        force: Whether to replace an existing table.
        format: A key of `harpoon.io.FORMATS`, such as "csv", if the file name does not tell the format.
        delimiter: Character between the cells of a text file; that of the format by default.
    """
    location = Location.parse(target).with_format(format)
    check_text_options(repr(location.text), location.format, delimiter=delimiter)
    check_writable(location, force=force)
    if location.in_database:
        with database.open_writer(location, force=force) as writer:
            yield writer
        return
    format_, path = FORMATS[location.format], location.path
    if path is None:
        with closing_writer(format_, _standard_output(format_), delimiter) as writer:
            yield writer
        sys.stdout.flush()
        return
    with (
        location.writing(OSError, pa.ArrowException),
        replace_atomically(path) as temporary,
        pa.output_stream(str(temporary), compression="gzip" if location.gzipped else None) as sink,
        closing_writer(format_, sink, delimiter) as writer,
    ):
        yield writer


def write_table(target: AnyLocation, table: object, force: bool = False, **options: Any) -> None:  # noqa: ANN401, FBT001, FBT002
    """Write a whole table of pandas, polars or pyarrow; the options are those of `open_writer`."""
    rows = table if isinstance(table, pa.Table) else dataframe.read(table).arrow
    with open_writer(target, force, **options) as writer:
        writer.write(rows)


def check_writable(location: Location, *, force: bool) -> None:
    """Raise TableFileError, before any work is done, if a location cannot be written or is already there."""
    path = location.path
    if path is None:
        if location.in_database:
            database.check_writable(location, force=force)
        return
    if path.is_dir():
        raise TableFileError(f"{str(path)!r} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise TableFileError(f"The folder {str(path.parent)!r} does not exist. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise TableFileError(f"You may not write to the folder {str(path.parent)!r}. Choose another one.")
    if path.exists() and not path.is_file():
        raise TableFileError(f"{str(path)!r} is not an ordinary file. Write to '-' instead, and pipe that.")
    if location.in_database:
        database.check_writable(location, force=force)
    elif path.exists() and not force:
        raise TableFileError.already_exists(f"{str(path)!r} is already there")


@contextmanager
def closing_writer(format_: Format, sink: Any, delimiter: str | None = None) -> Iterator[Writer]:  # noqa: ANN401
    """Make a writer to an open binary file, and finish it at the end."""
    writer = format_.make_writer(sink, delimiter or format_.delimiter)
    try:
        yield writer
    finally:
        if hasattr(writer, "close"):
            writer.close()


def _standard_output(format_: Format) -> Any:  # noqa: ANN401
    if sys.stdout.isatty() and format_.is_binary:
        raise InvalidOption(f"A terminal cannot show {format_.title}. Write to a file, or pipe it.")
    stream = sys.stdout.buffer
    stays_open = SimpleNamespace(write=stream.write, flush=stream.flush, close=stream.flush, closed=False)
    return pa.PythonFile(stays_open, mode="w")


def _open_file(location: Location, options: ReadOptions, stack: ExitStack) -> Source:
    content = ByteSource(location, stack)
    head, format_ = content.head, format_of_head(content.head, location.format)
    if not (format_.is_binary and head.startswith(format_.magic)):
        if head[8:9] == b"{" and b"harpoon" in head[:200]:
            problem, name = f"{content.name} is a model, not a table.", content.name
            raise InvalidTable(problem, code="model_instead_of_table", name=name)
        foreign = next((what for magic, what in FOREIGN_MAGIC.items() if head.startswith(magic)), "")
        if format_.is_binary:
            foreign = foreign or f"not a {format_.title} file, although its name says so"
        if foreign:
            raise InvalidTable(f"{content.name} is {foreign}.")
    options.check(content.name, format_.name)
    return format_.open_source(content, options, stack)

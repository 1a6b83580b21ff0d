"""Whole tables and chunks of them: the public functions of `harpoon.io`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from harpoon._text import closest_matches, format_list
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.io import database, writers
from harpoon.io.byte_source import ByteSource
from harpoon.io.location import Location
from harpoon.io.registry import format_of_head
from harpoon.io.source import ReadOptions, Source
from harpoon.io.writers import Writer

AnyLocation = str | os.PathLike[str] | Location
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
        read = database.open_source if location.in_database else _open_file
        yield read(location, options, stack)


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
        _check_columns(columns or (), table.schema.names)
        kept = list(table.schema.names if columns is None else columns)
        chunks = [chunk.table.select(kept) for chunk in table.chunks(CHUNK_ROWS)]
        return pa.concat_tables(chunks) if chunks else table.schema.empty_table().select(kept)


def read_batches(
    source: AnyLocation, size: int = CHUNK_ROWS, *, options: ReadOptions | None = None
) -> Iterator[pa.Table]:
    """Yield a table, `size` rows at a time. All batches have the same types."""
    with open_source(source, options) as table:
        for chunk in table.chunks(size):
            yield chunk.table


@contextmanager
def open_writer(
    target: AnyLocation,
    force: bool = False,  # noqa: FBT001, FBT002
    *,
    format: str = "",  # noqa: A002
    delimiter: str = ",",
) -> Iterator[Writer]:
    """Open a location for writing; `write` of the writer appends rows.

    Args:
        target: A path, a database URL or `-`.
        force: Whether to replace an existing table.
        format: A key of `harpoon.io.FORMATS`, such as "csv", if the file name does not tell the format.
        delimiter: Character between the cells of a CSV file.
    """
    with writers.open_writer(Location.parse(target).with_format(format), force=force, delimiter=delimiter) as writer:
        yield writer


def write_table(target: AnyLocation, table: pa.Table, force: bool = False, **options: Any) -> None:  # noqa: ANN401, FBT001, FBT002
    """Write a whole table; the options are those of `open_writer`."""
    with open_writer(target, force, **options) as writer:
        writer.write(table)


def _open_file(location: Location, options: ReadOptions, stack: ExitStack) -> Source:
    content = ByteSource(location, stack)
    head, format_ = content.head, format_of_head(content.head, location.format)
    if format_.is_binary and head.startswith(format_.magic):
        return format_.open_source(content, options, stack)
    if head[8:9] == b"{" and b"harpoon" in head[:200]:
        raise InvalidTable(f"{content.name} is a model, not a table.", code="model_instead_of_table")
    foreign = next((what for magic, what in FOREIGN_MAGIC.items() if head.startswith(magic)), "")
    if foreign or format_.is_binary:
        raise InvalidTable(f"{content.name} is {foreign or f'not a {format_.title} file, although its name says so'}.")
    return format_.open_source(content, options, stack)


def _check_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    for name in columns:
        if name not in names:
            near = closest_matches(name, names)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(names)}."
            raise InvalidOption(f"The table has no column {name!r}. {hint}")

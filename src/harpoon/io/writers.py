"""Writers: a table is written in chunks to a file that appears complete or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harpoon._utils.files import replace_atomically
from harpoon.exceptions import HarpoonError, InvalidOption, TableFileError
from harpoon.io import database
from harpoon.io.json_lines import JSON_FIELD, to_json
from harpoon.io.location import Location
from harpoon.io.registry import FORMATS, Format
from harpoon.io.text_types import format_texts, plain_values


class Writer(Protocol):
    """Takes a table in chunks. If it has a method `close`, that is called at the end, also after an error."""

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""


@contextmanager
def open_writer(location: Location, *, force: bool = False, delimiter: str = ",") -> Iterator[Writer]:
    """Open a location for writing. The table appears at the end, or not at all if an error is raised."""
    check_writable(location, force=force)
    if location.in_database:
        with database.open_writer(location, force=force) as writer:
            yield writer
        return
    format_ = FORMATS[location.format]
    if location.path is None:
        with closing_writer(format_, _standard_output(format_), delimiter) as writer:
            yield writer
        sys.stdout.flush()
        return
    compression = "gzip" if location.gzipped else None
    with (
        _translate_errors(location),
        replace_atomically(_follow_link(location.path)) as temporary,
        pa.output_stream(str(temporary), compression=compression) as sink,
        closing_writer(format_, sink, delimiter) as writer,
    ):
        yield writer


def check_writable(location: Location, *, force: bool) -> None:
    """Raise TableFileError, before any work is done, if a location cannot be written or is already there."""
    path = location.path
    if path is None:
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


class TextWriter:
    """CSV, with quotes only where they are needed. A missing cell is empty, an empty text is `""`."""

    def __init__(self, sink: Any, delimiter: str) -> None:  # noqa: ANN401
        self.sink, self.delimiter, self.started = sink, delimiter, False

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        if not self.started:
            self._write_lines(pa.table([pa.array([name]) for name in table.column_names], names=table.column_names))
            self.started = True
        self._write_lines(table)

    def _write_lines(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        cells = [self._quote(format_texts(column)) for column in table.columns]
        missing = '""' if len(cells) == 1 else ""  # readers skip an empty line
        lines = pc.binary_join_element_wise(
            *cells, self.delimiter, null_handling="replace", null_replacement=missing
        ).combine_chunks()
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
        self.sink.write(pc.binary_join(whole, "\n")[0].as_buffer())
        self.sink.write(b"\n")

    def _quote(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        special = pc.match_substring_regex(texts, f'^$|["\\r\\n\\{self.delimiter}]')
        if not pc.any(special).as_py():
            return texts
        doubled = pc.replace_substring(texts, '"', '""')
        return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


class TabWriter(TextWriter):
    """Text with tabs between cells."""

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        super().__init__(sink, "\t")


class JsonLinesWriter:
    """One JSON object per line, with dates and times in ISO format."""

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        self.sink = sink

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        keys = [to_json(name) for name in table.column_names]
        columns = [self._encode(f, column) for f, column in zip(table.schema, table.columns, strict=True)]
        for cells in zip(*columns, strict=True):
            pairs = (key + b": " + cell for key, cell in zip(keys, cells, strict=True))
            self.sink.write(b"{" + b", ".join(pairs) + b"}\n")

    @staticmethod
    def _encode(f: pa.Field, column: pa.ChunkedArray) -> list[bytes]:
        if JSON_FIELD.items() <= (f.metadata or {}).items():
            return [b"null" if text is None else text.encode() for text in column.to_pylist()]
        return [to_json(value) for value in plain_values(column)]


class ColumnarWriter:
    """A Parquet or Arrow file, with a row group or a record batch for each chunk."""

    def __init__(self, sink: Any, make: Callable[[Any, pa.Schema], Any]) -> None:  # noqa: ANN401
        self.sink, self.make = sink, make
        self.schema: pa.Schema = None
        self.writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        if self.writer is None:
            self.schema, self.writer = table.schema, self.make(self.sink, table.schema)
        self.writer.write_table(cast_to_schema(table, self.schema))

    def close(self) -> None:
        """Write the end of the file."""
        if self.writer is not None:
            self.writer.close()


class ParquetWriter(ColumnarWriter):
    """A Parquet file."""

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        super().__init__(sink, pq.ParquetWriter)


class ArrowWriter(ColumnarWriter):
    """An Arrow file. It stores one dictionary per column, so a table with dictionaries is held until the end."""

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        super().__init__(sink, pa.ipc.new_file)
        self.held: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        if any(pa.types.is_dictionary(f.type) for f in table.schema):
            self.held.append(table)
        else:
            super().write(table)

    def close(self) -> None:
        """Write the held rows and the end of the file."""
        if self.held:
            super().write(pa.concat_tables(self.held).unify_dictionaries())
        super().close()


@contextmanager
def closing_writer(format_: Format, sink: Any, delimiter: str = ",") -> Iterator[Writer]:  # noqa: ANN401
    """Make a writer to an open binary file, and finish it at the end."""
    writer = format_.make_writer(sink, delimiter)
    try:
        yield writer
    finally:
        if hasattr(writer, "close"):
            writer.close()


def _standard_output(format_: Format) -> Any:  # noqa: ANN401
    if sys.stdout.isatty() and format_.is_binary:
        raise InvalidOption(f"A terminal cannot show {format_.title}. Write to a file, or pipe it.")
    return pa.PythonFile(_StaysOpen(sys.stdout.buffer), mode="w")


class _StaysOpen:
    """A stream that is flushed but not closed by its writer."""

    closed = False

    def __init__(self, stream: Any) -> None:  # noqa: ANN401
        self.write, self.flush = stream.write, stream.flush

    def close(self) -> None:
        self.flush()


@contextmanager
def _translate_errors(location: Location) -> Iterator[None]:
    """Raise errors of the disk and of Arrow as TableFileError; other errors pass."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, HarpoonError):
            raise
        raise TableFileError.unwritable(repr(location.text), error) from None


def _follow_link(path: Path) -> Path:
    """Return the target of a link, so that the link itself stays."""
    return path.resolve() if path.is_symlink() else path


def cast_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast columns whose type differs. The others are left alone: Arrow cannot cast structures with null fields."""
    pairs = zip(table.columns, schema, strict=True)
    columns = [column if column.type == f.type else column.cast(f.type) for column, f in pairs]
    return pa.Table.from_arrays(columns, schema=schema)

"""Tables on their way out, part by part, into one file that appears whole or not at all."""

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
from harpoon.io.cells import as_json, dumped
from harpoon.io.location import Location
from harpoon.io.text_types import format_texts


class Writer(Protocol):
    """Takes a table part by part."""

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""


@contextmanager
def writer(place: Location, *, force: bool = False, delimiter: str = ",") -> Iterator[Writer]:
    """Somewhere to write a table to; it appears when all has gone well, and not at all when not."""
    check_free(place, force=force)
    if place.in_database:
        with database.writer(place, force=force) as table:
            yield table
        return
    make = {**FORMATS, "csv": lambda sink: TextWriter(sink, delimiter)}[place.format]
    if place.path is None:
        yield from _written(make, _standard_output(place.format))
        sys.stdout.flush()
        return
    packed = "gzip" if place.gzipped else None
    with (
        _complaints(place),
        replace_atomically(_followed(place.path)) as temporary,
        pa.output_stream(str(temporary), compression=packed) as sink,
    ):
        yield from _written(make, sink)


def check_free(place: Location, *, force: bool) -> None:
    """Refuse, before any work is done, a place that cannot be written to or that holds something."""
    path = place.path
    if path is None:
        return
    if path.is_dir():
        raise TableFileError(f"{str(path)!r} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise TableFileError(f"The folder {str(path.parent)!r} does not exist. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise TableFileError(f"You may not write to the folder {str(path.parent)!r}. Choose another one.")
    if path.exists() and not path.is_file():
        raise TableFileError(f"{str(path)!r} is no ordinary file. Write to '-' instead, and pipe that.")
    if place.in_database:
        database.check_free(place, force=force)
    elif path.exists() and not force:
        raise TableFileError.already_exists(f"{str(path)!r} is already there")


class TextWriter:
    """CSV: quotes only where they are needed, an empty cell for a missing one, and "" for an empty text."""

    def __init__(self, sink: Any, delimiter: str) -> None:  # noqa: ANN401
        self.sink, self.delimiter, self.started = sink, delimiter, False

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        if not self.started:
            self._lines(pa.table([pa.array([name]) for name in table.column_names], names=table.column_names))
            self.started = True
        self._lines(table)

    def _lines(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        cells = [self._quoted(format_texts(column)) for column in table.columns]
        alone = '""' if len(cells) == 1 else ""  # a line with nothing on it would be skipped
        lines = pc.binary_join_element_wise(
            *cells, self.delimiter, null_handling="replace", null_replacement=alone
        ).combine_chunks()
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], type=pa.int32()), lines)
        self.sink.write(pc.binary_join(whole, "\n")[0].as_buffer())
        self.sink.write(b"\n")

    def _quoted(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        special = pc.match_substring_regex(texts, f'^$|["\\r\\n\\{self.delimiter}]')
        if not pc.any(special).as_py():
            return texts
        doubled = pc.replace_substring(texts, '"', '""')
        return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


class JsonLinesWriter:
    """One object per line; dates and times in ISO format. A key that a line of the source lacked, it lacks here too."""

    def __init__(self, sink: Any) -> None:  # noqa: ANN401
        self.sink = sink

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        keys = [dumped(name) for name in table.column_names]
        for cells in zip(*map(as_json, table.columns), strict=True):
            pairs = (key + b": " + cell for key, cell in zip(keys, cells, strict=True) if cell is not None)
            self.sink.write(b"{" + b", ".join(pairs) + b"}\n")


class ColumnarWriter:
    """A Parquet or an Arrow file, with a group of rows for each part."""

    def __init__(self, sink: Any, make: Callable[[Any, pa.Schema], Any]) -> None:  # noqa: ANN401
        self.sink, self.make = sink, make
        self.schema: pa.Schema = None
        self.writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        if self.writer is None:
            self.schema, self.writer = table.schema, self.make(self.sink, table.schema)
        self.writer.write_table(cast_to_schema(table, self.schema))

    def close(self) -> None:
        """Write what stands at the end of the file."""
        if self.writer is not None:
            self.writer.close()


class ArrowWriter(ColumnarWriter):
    """An Arrow file. It has one list of labels for each category, so a table with categories is held until its end."""

    def __init__(self, sink: Any) -> None:  # noqa: ANN401
        super().__init__(sink, pa.ipc.new_file)
        self.held: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        """Add rows; the first ones say what the columns are."""
        if any(pa.types.is_dictionary(f.type) for f in table.schema):
            self.held.append(table)
        else:
            super().write(table)

    def close(self) -> None:
        """Write what was held, and what stands at the end of the file."""
        if self.held:
            super().write(pa.concat_tables(self.held).unify_dictionaries())
        super().close()


def _written(make: Callable[[Any], Any], sink: Any) -> Iterator[Any]:  # noqa: ANN401
    made = make(sink)
    try:
        yield made
    finally:
        if hasattr(made, "close"):
            made.close()


def _standard_output(format: str) -> Any:  # noqa: A002, ANN401
    if sys.stdout.isatty() and format in ("parquet", "arrow"):
        raise InvalidOption(f"A terminal shows text only, no {format}. Write to a file, or pipe it.")
    return pa.PythonFile(_KeptOpen(sys.stdout.buffer), mode="w")


class _KeptOpen:
    """A stream that outlives who writes to it."""

    closed = False

    def __init__(self, stream: Any) -> None:  # noqa: ANN401
        self.write, self.flush = stream.write, stream.flush

    def close(self) -> None:
        self.flush()


@contextmanager
def _complaints(place: Location) -> Iterator[None]:
    """Trouble with the disk, said as ours; what others raise goes on as it is."""
    try:
        yield
    except pa.ArrowException as error:
        raise TableFileError.unwritable(repr(place.text), error) from None
    except OSError as error:
        if isinstance(error, HarpoonError):
            raise
        raise TableFileError.unwritable(repr(place.text), error) from None


def _followed(path: Path) -> Path:
    """What a link points to: the link stays."""
    return path.resolve() if path.is_symlink() else path


def cast_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of other types cast, the others left alone: Arrow cannot cast parts of a structure without values."""
    pairs = zip(table.columns, schema, strict=True)
    columns = [column if column.type == f.type else column.cast(f.type) for column, f in pairs]
    return pa.Table.from_arrays(columns, schema=schema)


FORMATS: dict[str, Callable[[Any], Any]] = {
    "tsv": lambda sink: TextWriter(sink, "\t"),
    "jsonl": JsonLinesWriter,
    "parquet": lambda sink: ColumnarWriter(sink, pq.ParquetWriter),
    "arrow": ArrowWriter,
}

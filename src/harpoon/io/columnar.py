"""Parquet and Arrow files, which store the types of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon.io.byte_source import ByteSource
from harpoon.io.source import Chunk, ReadOptions, Source, check_column_names, rebatch


class ParquetSource(Source):
    """A Parquet file. Row groups before the row offset are not read."""

    def __init__(self, content: ByteSource, _options: ReadOptions, stack: ExitStack) -> None:
        self.content = content
        with content.translate_errors():
            self.file = pq.ParquetFile(stack.enter_context(content.open_seekable()))
            self.schema = self.file.schema_arrow
            self.n_rows = int(self.file.metadata.num_rows)
        check_column_names(self.schema.names, content.name)

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with self.content.translate_errors():
            groups = list(range(self.file.num_row_groups))
            while groups and row_offset >= self.file.metadata.row_group(groups[0]).num_rows:
                row_offset -= self.file.metadata.row_group(groups.pop(0)).num_rows
            batches = self.file.iter_batches(batch_size=size, row_groups=groups)
            tables = (pa.Table.from_batches([batch], self.schema) for batch in batches)
            yield from map(Chunk, rebatch(tables, size, row_offset))


class ArrowSource(Source):
    """An Arrow file (Feather), read by record batch."""

    def __init__(self, content: ByteSource, _options: ReadOptions, stack: ExitStack) -> None:
        self.content = content
        with content.translate_errors():
            self.file = pa.ipc.open_file(stack.enter_context(content.open_seekable()))
            self.schema = self.file.schema
        check_column_names(self.schema.names, content.name)

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with self.content.translate_errors():
            indices = range(self.file.num_record_batches)
            tables = (pa.Table.from_batches([self.file.get_batch(index)]) for index in indices)
            yield from map(Chunk, rebatch(tables, size, row_offset))


class ColumnarWriter:
    """Columns with types: a Parquet file, with a row group for each chunk, unless `make` opens another format."""

    make: Callable[[Any, pa.Schema], Any] = pq.ParquetWriter

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        self.sink = sink
        self.schema: pa.Schema = None
        self.writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        if self.writer is None:
            self.schema, self.writer = table.schema, type(self).make(self.sink, table.schema)
        self.writer.write_table(cast_to_schema(table, self.schema))

    def close(self) -> None:
        """Write the end of the file."""
        if self.writer is not None:
            self.writer.close()


class ArrowWriter(ColumnarWriter):
    """An Arrow file. It stores one dictionary per column, so a table with dictionaries is held until the end."""

    make = pa.ipc.new_file

    def __init__(self, sink: Any, _delimiter: str = "") -> None:  # noqa: ANN401
        super().__init__(sink)
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


def cast_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast columns whose type differs. The others are left alone: Arrow cannot cast structures with null fields."""
    pairs = zip(table.columns, schema, strict=True)
    columns = [column if column.type == f.type else column.cast(f.type) for column, f in pairs]
    return pa.Table.from_arrays(columns, schema=schema)

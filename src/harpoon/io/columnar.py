"""Parquet and Arrow files, which store the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon.io.byte_source import ByteSource
from harpoon.io.source import Chunk, ReadOptions, Source, check_column_names, rebatch


class ParquetSource(Source):
    """A Parquet file. Row groups before the row offset are not read."""

    def __init__(self, content: ByteSource, _options: ReadOptions, stack: ExitStack) -> None:
        super().__init__()
        self.content = content
        with content.translate_errors():
            self.file = pq.ParquetFile(stack.enter_context(content.open_seekable()))
            self._schema: pa.Schema = self.file.schema_arrow
            self.n_rows = int(self.file.metadata.num_rows)
        check_column_names(self._schema.names, content.name)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._schema

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with self.content.translate_errors():
            groups = list(range(self.file.num_row_groups))
            while groups and row_offset >= self.file.metadata.row_group(groups[0]).num_rows:
                row_offset -= self.file.metadata.row_group(groups.pop(0)).num_rows
            batches = self.file.iter_batches(batch_size=size, row_groups=groups)
            tables = (pa.Table.from_batches([batch], self._schema) for batch in batches)
            yield from map(Chunk, rebatch(tables, size, row_offset))


class ArrowSource(Source):
    """An Arrow file (Feather), read by record batch."""

    def __init__(self, content: ByteSource, _options: ReadOptions, stack: ExitStack) -> None:
        super().__init__()
        self.content = content
        with content.translate_errors():
            self.file = pa.ipc.open_file(stack.enter_context(content.open_seekable()))
            self._schema: pa.Schema = self.file.schema
        check_column_names(self._schema.names, content.name)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._schema

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with self.content.translate_errors():
            indices = range(self.file.num_record_batches)
            tables = (pa.Table.from_batches([self.file.get_batch(index)]) for index in indices)
            yield from map(Chunk, rebatch(tables, size, row_offset))

"""Parquet and Arrow files, which know their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon.io.byte_source import ByteSource
from harpoon.io.source import Chunk, check_names, resized


class ParquetSource:
    """A Parquet file, read some rows of a row group at a time."""

    delimiter = ","

    def __init__(self, content: ByteSource, stack: ExitStack) -> None:
        self.content, self.met = content, set[str]()
        with content.complaints():
            self.file = pq.ParquetFile(stack.enter_context(content.seekable()))
            self.schema: pa.Schema = self.file.schema_arrow
        check_names(self.schema.names, content.name)

    def chunks(self, size: int, first: int = 0) -> Iterator[Chunk]:
        """The rows in their order from the first one on, so many at a time; earlier groups of rows are not read."""
        with self.content.complaints():
            groups = list(range(self.file.num_row_groups))
            while groups and first >= self.file.metadata.row_group(groups[0]).num_rows:
                first -= self.file.metadata.row_group(groups.pop(0)).num_rows
            batches = self.file.iter_batches(batch_size=size, row_groups=groups)
            yield from map(Chunk, resized(_without(batches, first, self.schema), size))


def _without(batches: Iterable[pa.RecordBatch], first: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of batches but the first ones."""
    for batch in batches:
        yield pa.Table.from_batches([batch.slice(min(first, batch.num_rows))], schema)
        first -= min(first, batch.num_rows)


class ArrowSource:
    """An Arrow file (Feather), read batch by batch."""

    delimiter = ","

    def __init__(self, content: ByteSource, stack: ExitStack) -> None:
        self.content, self.met = content, set[str]()
        with content.complaints():
            self.file = pa.ipc.open_file(stack.enter_context(content.seekable()))
            self.schema: pa.Schema = self.file.schema
        check_names(self.schema.names, content.name)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in their order, so many at a time."""
        with self.content.complaints():
            numbers = range(self.file.num_record_batches)
            batches = (pa.Table.from_batches([self.file.get_batch(number)]) for number in numbers)
            yield from map(Chunk, resized(batches, size))

"""Parquet and Arrow files, which know their types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from harpoon.tables.sources import Part, check_names, resized
from harpoon.tables.streams import Bytes


class Parquet:
    """A Parquet file, read some rows of a row group at a time."""

    delimiter = ","

    def __init__(self, content: Bytes, stack: ExitStack) -> None:
        self.content, self.met = content, set[str]()
        with content.complaints():
            self.file = pq.ParquetFile(stack.enter_context(content.seekable()))
            self.schema: pa.Schema = self.file.schema_arrow
        check_names(self.schema.names, content.name)

    def parts(self, size: int) -> Iterator[Part]:
        """The rows in their order, so many at a time."""
        with self.content.complaints():
            batches = (pa.Table.from_batches([b], self.schema) for b in self.file.iter_batches(batch_size=size))
            yield from map(Part, resized(batches, size))


class Arrow:
    """An Arrow file (Feather), read batch by batch."""

    delimiter = ","

    def __init__(self, content: Bytes, stack: ExitStack) -> None:
        self.content, self.met = content, set[str]()
        with content.complaints():
            self.file = pa.ipc.open_file(stack.enter_context(content.seekable()))
            self.schema: pa.Schema = self.file.schema
        check_names(self.schema.names, content.name)

    def parts(self, size: int) -> Iterator[Part]:
        """The rows in their order, so many at a time."""
        with self.content.complaints():
            numbers = range(self.file.num_record_batches)
            batches = (pa.Table.from_batches([self.file.get_batch(number)]) for number in numbers)
            yield from map(Part, resized(batches, size))

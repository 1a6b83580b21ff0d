"""Streams of Arrow from strangers: nothing in one is believed before it is checked, and none becomes larger than it is.

A stream can be packed, and a dictionary or a view can name one long text many times: a few bytes that become very many.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._text import format_list
from harpoon.apps.server.errors import too_large
from harpoon.exceptions import InvalidTable
from harpoon.io.source import check_column_names

NAME = "The stream of Arrow"
LARGEST = 2**26  # bytes of all texts of a column
DICTIONARY, RECORDS = 2, 3  # what a message of a stream can hold, by its number


def from_arrow(content: bytes, most: int) -> pa.Table:
    """The table of a stream."""
    try:
        _check_messages(content)
        with pa.ipc.open_stream(content) as stream:
            _check_schema(stream.schema)
            table = pa.Table.from_batches(_checked(stream, most), stream.schema)
    except (pa.ArrowException, OSError, struct.error, IndexError, UnicodeDecodeError) as error:
        if isinstance(error, InvalidTable):
            raise
        raise InvalidTable(f"{NAME} cannot be read: it ends too early, or is something else.") from None
    for name in table.column_names:
        _check_size(name, table[name])
    return table


def _checked(stream: pa.RecordBatchReader, most: int) -> list[pa.RecordBatch]:
    batches, rows = [], 0
    for batch in stream:
        rows += batch.num_rows
        if rows > most:
            raise too_large(f"A table may have {most:,} rows here, and this one has more. Send it in parts.")
        batch.validate(full=True)
        batches.append(batch)
    return batches


def _check_schema(schema: pa.Schema) -> None:
    check_column_names(schema.names, NAME)
    odd = [f.name for f in schema if not _is_plain(f.type)]
    if odd:
        raise InvalidTable(
            f"{NAME} has cells in {format_list(odd)} that are no numbers, texts, truth values or times. Leave them out."
        )


def _is_plain(dtype: pa.DataType) -> bool:
    if pa.types.is_dictionary(dtype):
        return _is_plain(dtype.value_type) and not pa.types.is_dictionary(dtype.value_type)
    texts = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    return bool(texts or pa.types.is_primitive(dtype) or pa.types.is_decimal(dtype) or pa.types.is_null(dtype))


def _check_size(name: str, column: pa.ChunkedArray) -> None:
    """Refuse a dictionary whose labels, written out, would be far more than was sent."""
    if not pa.types.is_dictionary(column.type):
        return
    for chunk in column.chunks:
        if not pa.types.is_primitive(chunk.type.value_type) and len(chunk.dictionary):
            written = pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
            if written > LARGEST:
                raise too_large(f"The labels of column {name!r} are too long. Leave the column out.")


def _check_messages(content: bytes) -> None:
    """Refuse packed messages."""
    for message in pa.ipc.MessageReader.open_stream(content):
        if _is_packed(message.metadata.to_pybytes()):
            raise InvalidTable(f"{NAME} is compressed. Write it without compression.")


def _is_packed(metadata: bytes) -> bool:
    """Whether the rows of a message are compressed.

    Arrow tells nobody before it has unpacked them, so this looks into the message itself: tables of FlatBuffers, in
    which a field that is not there has the place 0.
    """
    message = struct.unpack_from("<I", metadata)[0]
    holds, header = _field(metadata, message, 1), _field(metadata, message, 2)
    kind = metadata[holds] if holds else 0
    if kind not in (DICTIONARY, RECORDS) or not header:
        return False
    rows = _followed(metadata, header)
    if kind == DICTIONARY:
        within = _field(metadata, rows, 1)
        rows = _followed(metadata, within) if within else rows
    return bool(_field(metadata, rows, 3))


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a field of a table, by its number."""
    list_of_places = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, list_of_places)[0]
    entry = 4 + 2 * number
    offset = struct.unpack_from("<H", data, list_of_places + entry)[0] if entry < size else 0
    return table + offset if offset else 0


def _followed(data: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])

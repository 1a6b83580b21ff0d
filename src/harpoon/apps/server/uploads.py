"""Tables that come in: JSON rows, CSV, or a stream of Arrow. They stay in memory; no name of a file is ever read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from starlette.datastructures import UploadFile
from starlette.requests import Request

from harpoon._text import format_list
from harpoon.apps.server.arrow_stream import from_arrow
from harpoon.apps.server.errors import ApiError, too_large
from harpoon.apps.server.formats import ARROW, CSV, JSON
from harpoon.apps.server.limits import MOST_COLUMNS
from harpoon.apps.server.schemas import Filling, ImputeBody
from harpoon.data.arrow_types import text_types
from harpoon.data.coercion import coerce, unknown_categories
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import read
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidTable
from harpoon.io import FORMATS, Chunk, ReadOptions, Source
from harpoon.io.byte_source import GZIP_MAGIC, InMemoryBytes
from harpoon.io.delimited import DelimitedSource
from harpoon.io.json_lines import RecordSource
from harpoon.io.source import TableSource, chunks_or_empty

FORM = "multipart/form-data"
NAME = "The table that was sent"
MARKS_OF_16_BITS = (b"\xff\xfe", b"\xfe\xff")
NO_TEXT = {
    **{format_.magic: f"a file of {format_.title}" for format_ in FORMATS.values() if format_.is_binary},
    b"PK\x03\x04": "a zip or Excel file",
    GZIP_MAGIC: "gzipped",
}


@dataclass(frozen=True)
class Upload:
    """A table that was sent, all of it in one part.

    Attributes:
        source: What it was read from.
        part: Its rows; labels that the model does not know are missing.
        notes: A sentence about each column with such labels.
    """

    source: Source
    part: Chunk
    notes: tuple[str, ...]


async def received(request: Request) -> tuple[str, bytes]:
    """The body of a request, or the file in its form, and of what type it is."""
    kind = _media(request.headers.get("content-type", ""))
    if kind == FORM:
        async with request.form(max_files=1, max_fields=1) as form:
            file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
            if file is None:
                raise InvalidTable("The form brings no file. Send one, as a field of any name.")
            named = _media(file.content_type or "")
            return named if named in (JSON, ARROW) else CSV, await file.read()
    if kind not in (JSON, CSV, ARROW):
        raise unsupported((JSON, CSV, ARROW, FORM))
    return kind, await request.body()


def opened(kind: str, content: bytes, asked: Filling, schema: Schema, most: int) -> tuple[Upload, Filling]:
    """A table that was sent, and what to do with it: JSON says so itself."""
    if kind == JSON:
        body = ImputeBody.model_validate_json(content)
        return _upload(from_rows(body.rows, schema), schema, most), body
    source: Source = TableSource(from_arrow(content, most)) if kind == ARROW else from_text(content, schema)
    return _upload(source, schema, most), asked


def from_rows(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Source:
    """Objects of JSON; a key that is nowhere is a column of missing cells."""
    loose = RecordSource(lambda: iter(rows), text_types(schema), schema.names)
    parts = [part.table for part in loose.chunks(max(len(rows), 1))]
    table = pa.concat_tables(parts) if parts else loose.schema.empty_table()
    for column in schema:
        if column.kind is Kind.DURATION and pa.types.is_integer(table.schema.field(column.name).type):
            table = _replaced(table, column, table[column.name].cast(pa.duration(column.unit)))
    return TableSource(table)


def from_text(content: bytes, schema: Schema) -> Source:
    """CSV and its relatives."""
    what = next((what for sign, what in NO_TEXT.items() if content.startswith(sign)), "")
    if what:
        raise InvalidTable(f"{NAME} is {what}. Send it as CSV, or as a stream of Arrow.")
    if not content.startswith(MARKS_OF_16_BITS):
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidTable(
                f"{NAME} is no text in UTF-8: byte {error.start + 1:,} does not belong there. Save it as CSV in UTF-8, "
                "or send a stream of Arrow."
            ) from None
    head = content.split(b"\n", 1)[0]
    columns = 1 + max(head.count(mark) for mark in (b",", b";", b"\t", b"|"))
    if columns > MOST_COLUMNS:
        raise InvalidTable(f"{NAME} may have {MOST_COLUMNS:,} columns, and its first line has about {columns:,}.")
    return DelimitedSource(InMemoryBytes(NAME, content), ReadOptions(types=text_types(schema)))


def unsupported(offered: Sequence[str]) -> ApiError:
    """A body of a type that is not understood."""
    message = f"The header Content-Type must be {', '.join(offered[:-1])}{' or ' * (len(offered) > 1)}{offered[-1]}."
    return ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)


def _upload(source: Source, schema: Schema, most: int) -> Upload:
    """All rows of a source, if there are not too many."""
    if len(source.schema) > MOST_COLUMNS:
        raise InvalidTable(f"{NAME} may have {MOST_COLUMNS:,} columns, and it has {len(source.schema):,}.")
    part = next(chunks_or_empty(source, most + 1))
    if part.table.num_rows > most:
        raise too_large(f"A table may have {most:,} rows here, and this one has more. Send it in parts.")
    table, notes, whole = part.table, [], read(part.table)
    for column in schema.modelled:
        if not column.kind.discrete or column.name not in whole.names:
            continue
        cells = whole.column(column.name)
        strange = coerce(cells, column).missing & ~cells.missing
        if strange.any():
            table = _replaced(table, column, _without(table[column.name], strange))
            said = f"Column {column.name!r} holds {format_list(unknown_categories(cells, column))}, which the model has never seen"
            notes.append(f"{said}: those cells were filled as if they were empty.")
    return Upload(source, replace(part, table=table), tuple(notes))


def _without(cells: pa.ChunkedArray, where: NDArray[np.bool_]) -> pa.ChunkedArray:
    """The cells, some of them missing."""
    plain = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    return pc.if_else(pa.array(where), None, plain)


def _replaced(table: pa.Table, column: Column, cells: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column.name), column.name, cells)


def _media(header: str) -> str:
    return header.partition(";")[0].strip().lower()
